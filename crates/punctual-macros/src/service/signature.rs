//! What a method's signature may be: `async fn name(&self, arg: Owned, ..) -> Result<T, E>`.

use super::model::{Argument, Streamed};
use crate::errors::Errors;
use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{
    Attribute, Error, FnArg, GenericArgument, Pat, PatType, PathArguments, PathSegment, Receiver, ReceiverKind,
    ReturnType, Safety, Signature, Type, TypeImplTrait, TypeParamBound, TypePath, TypeReference,
};

/// A signature that passed, or would but for mistakes already noted.
pub(super) struct Parsed {
    /// The arguments behind `&self`.
    pub(super) arguments: Vec<Argument>,
    /// The `Result`; `None` for a one-way method.
    pub(super) reply: Option<Type>,
    /// The stream that it returns, if it does.
    pub(super) returned: Option<Streamed>,
}

/// Reads a signature. `None` where a mistake leaves nothing to go on with.
pub(super) fn parse(signature: &Signature, oneway: Option<Span>, errors: &mut Errors) -> Option<Parsed> {
    check_qualifiers(signature, errors);
    let mut inputs = signature.inputs.iter();
    match inputs.next() {
        Some(FnArg::Receiver(receiver)) => check_receiver(receiver, errors),
        Some(FnArg::Typed(first)) => errors.at(&first.pat, NO_RECEIVER),
        None => errors.push(Error::new(signature.paren_token.span.join(), NO_RECEIVER)),
    }
    let arguments = inputs.filter_map(|input| match input {
        FnArg::Typed(argument) => parse_argument(argument, errors),
        FnArg::Receiver(_) => None,
    });
    let arguments: Vec<Argument> = arguments.collect();
    check_streams(&arguments, errors);
    let reply = parse_reply(signature, oneway, errors)?;
    let returned = reply.as_ref().and_then(|reply| success(reply)).and_then(streamed);
    Some(Parsed { arguments, reply, returned })
}

/// The most streams of a method: more are a stream of a type that says which it is.
const STREAMS_MAX: usize = 16;

fn check_streams(arguments: &[Argument], errors: &mut Errors) {
    let streams = arguments.iter().filter(|argument| argument.stream.is_some());
    for (at, argument) in streams.enumerate() {
        if at >= STREAMS_MAX {
            errors.at(&argument.ident, format!("a method takes at most {STREAMS_MAX} streams: stream an enum instead"));
        }
        for attribute in argument.attributes.iter().filter(|attribute| !attribute.path().is_ident("doc")) {
            errors.at(attribute, "a stream is no field of the request: it may carry a doc comment only");
        }
    }
}

/// What is streamed, where a type is `Streaming<T>` or `Streaming<T, E>`.
fn streamed(ty: &Type) -> Option<Streamed> {
    let last = match ty {
        Type::Path(TypePath { path, .. }) => path.segments.last().filter(|last| last.ident == "Streaming")?,
        Type::Group(group) => return streamed(&group.elem),
        Type::Paren(paren) => return streamed(&paren.elem),
        _ => return None,
    };
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    let mut types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty.clone()),
        _ => None,
    });
    let item = types.next()?;
    let err = types.next();
    types.next().is_none().then_some(Streamed { item, err })
}

/// The type of success, as far as a result says it.
fn success(reply: &Type) -> Option<&Type> {
    let last = match reply {
        Type::Path(TypePath { path, .. }) => path.segments.last()?,
        Type::Group(group) => return success(&group.elem),
        Type::Paren(paren) => return success(&paren.elem),
        _ => return None,
    };
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

const NO_RECEIVER: &str = "a method of a contract begins with `&self`: one service value answers all calls";

fn check_qualifiers(signature: &Signature, errors: &mut Errors) {
    if signature.asyncness.is_none() {
        errors.at(signature.fn_token, "a method of a contract is `async`: its answer comes over a wire");
    }
    if let Safety::Unsafe(token) = &signature.safety {
        errors.at(token, "a method of a contract cannot be `unsafe`");
    }
    if let Some(token) = &signature.constness {
        errors.at(token, "a method of a contract cannot be `const`");
    }
    if let Some(abi) = &signature.abi {
        errors.at(abi, "a method of a contract has no ABI of its own");
    }
    if !signature.generics.params.is_empty() {
        errors.at(
            &signature.generics,
            "a method of a contract cannot be generic, nor name lifetimes: both sides must know every type, and own it",
        );
    }
    if let Some(clause) = &signature.generics.where_clause {
        errors.at(clause, "a method of a contract has no `where` clause: there is nothing generic in it");
    }
    if let Some(variadic) = &signature.variadic {
        errors.at(variadic, "a method of a contract has a fixed number of arguments: take a `Vec`");
    }
}

fn check_receiver(receiver: &Receiver, errors: &mut Errors) {
    match &receiver.kind {
        ReceiverKind::Reference(_, None, None) => {}
        ReceiverKind::Reference(_, Some(lifetime), _) => {
            errors.at(lifetime, "`&self` is enough: a contract names no lifetimes");
        }
        ReceiverKind::Reference(_, None, Some(token)) => {
            errors.at(
                token,
                "calls run side by side, so a method takes `&self`: keep what changes in a lock or an atomic",
            );
        }
        _ => errors.at(receiver, NO_RECEIVER),
    }
}

fn parse_argument(argument: &PatType, errors: &mut Errors) -> Option<Argument> {
    let stream = streamed(&argument.ty);
    match &stream {
        Some(Streamed { item, err }) => {
            check_type(item, errors);
            err.iter().for_each(|err| check_type(err, errors));
        }
        None => check_type(&argument.ty, errors),
    }
    for attribute in &argument.attrs {
        let allowed = ["doc", "serde", "message"].iter().any(|name| attribute.path().is_ident(name));
        if !allowed {
            errors.at(attribute, "an argument may carry a doc comment, `serde` and `message` attributes: they belong to the request's field");
        }
    }
    let Pat::Ident(pattern) = &*argument.pat else {
        errors.at(&argument.pat, "an argument is a plain name: it becomes a field of the request");
        return None;
    };
    if let Some(token) = &pattern.mutability {
        errors.at(token, "`mut` belongs into the implementation");
    }
    if let Some(token) = &pattern.by_ref {
        errors.at(token, "an argument is a plain name: it becomes a field of the request");
    }
    if let Some((_, rest)) = &pattern.subpat {
        errors.at(rest, "an argument is a plain name: it becomes a field of the request");
    }
    let attributes: Vec<Attribute> = argument.attrs.clone();
    Some(Argument { ident: pattern.ident.clone(), attributes, ty: (*argument.ty).clone(), stream })
}

fn parse_reply(signature: &Signature, oneway: Option<Span>, errors: &mut Errors) -> Option<Option<Type>> {
    match (&signature.output, oneway) {
        (ReturnType::Default, Some(_)) => Some(None),
        (ReturnType::Type(_, reply), Some(_)) => {
            errors.at(reply, "a one-way call has no reply: return nothing, or drop `oneway`");
            Some(None)
        }
        (ReturnType::Default, None) => {
            errors.at(
                &signature.ident,
                "a method returns `Result<T, E>`, since every call can fail; for a call without a reply write `#[rpc(oneway)]`",
            );
            None
        }
        (ReturnType::Type(_, reply), None) => {
            if names_a_result(reply) {
                check_reply(reply, errors);
            } else {
                errors.at(
                    reply,
                    "a method returns `Result<T, E>`, or an alias whose name ends in `Result`, since every call can \
                     fail; use `Status` where there is no error of your own",
                );
            }
            Some(Some((**reply).clone()))
        }
    }
}

/// What an alias stands for is not known here. Going by its name gives one error at the type instead of six in the
/// expansion.
fn names_a_result(reply: &Type) -> bool {
    match reply {
        Type::Path(TypePath { path, .. }) => {
            path.segments.last().is_some_and(|last| last.ident.to_string().ends_with("Result"))
        }
        Type::Group(group) => names_a_result(&group.elem),
        Type::Paren(paren) => names_a_result(&paren.elem),
        _ => false,
    }
}

fn check_type(ty: &Type, errors: &mut Errors) {
    TypeChecker { errors, result: false }.visit_type(ty);
}

/// In a result the type of success may be a stream.
fn check_reply(ty: &Type, errors: &mut Errors) {
    TypeChecker { errors, result: true }.visit_type(ty);
}

struct TypeChecker<'a> {
    errors: &'a mut Errors,
    /// The next path is the method's result.
    result: bool,
}

impl TypeChecker<'_> {
    /// What the result's own path names: its success may be a stream, what is streamed may not.
    fn result(&mut self, segment: &PathSegment) {
        let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return };
        for (at, argument) in arguments.args.iter().enumerate() {
            match argument {
                GenericArgument::Type(ty) => match streamed(ty).filter(|_| at == 0) {
                    Some(Streamed { item, err }) => {
                        self.visit_type(&item);
                        err.iter().for_each(|err| self.visit_type(err));
                    }
                    None => self.visit_type(ty),
                },
                other => syn::visit::visit_generic_argument(self, other),
            }
        }
    }
}

impl<'ast> Visit<'ast> for TypeChecker<'_> {
    fn visit_type_reference(&mut self, reference: &'ast TypeReference) {
        let owned = match &*reference.elem {
            Type::Path(path) if path.path.is_ident("str") => "`String`".to_owned(),
            Type::Slice(slice) if is_u8(&slice.elem) => "`Bytes`".to_owned(),
            Type::Slice(_) => "`Vec`".to_owned(),
            Type::TraitObject(_) => "a concrete type".to_owned(),
            _ => "the value itself".to_owned(),
        };
        self.errors.at(reference, format!("a reference cannot cross the wire: use {owned}"));
    }

    fn visit_type_impl_trait(&mut self, opaque: &'ast TypeImplTrait) {
        let is_stream = opaque.bounds.iter().any(|bound| match bound {
            TypeParamBound::Trait(bound) => bound.path.segments.last().is_some_and(|last| last.ident == "Stream"),
            _ => false,
        });
        if is_stream {
            self.errors
                .at(opaque, "name the stream's type: `Streaming<T>`, or `Streaming<T, E>` with an error of your own");
        } else {
            self.errors.at(opaque, "both sides must know the type: name a concrete one instead of `impl Trait`");
        }
    }

    fn visit_type(&mut self, ty: &'ast Type) {
        match ty {
            Type::Infer(_) | Type::Macro(_) => self.errors.at(ty, "both sides must know the type: write it out"),
            Type::Ptr(_) => self.errors.at(ty, "a pointer cannot cross the wire: use the value itself"),
            Type::TraitObject(_) => {
                self.errors.at(ty, "both sides must know the type: name a concrete one instead of `dyn Trait`");
            }
            Type::FnPtr(_) => self.errors.at(ty, "a function cannot cross the wire"),
            _ => syn::visit::visit_type(self, ty),
        }
    }

    fn visit_path_segment(&mut self, segment: &'ast PathSegment) {
        if self.result && segment.ident.to_string().ends_with("Result") {
            self.result = false;
            self.result(segment);
            return;
        }
        if segment.ident == "Streaming" {
            self.errors.at(
                segment,
                "a stream is an argument by itself, or what a method's `Result` gives, as `Streaming<T>` or \
                 `Streaming<T, E>`: it cannot be inside of another type",
            );
            return;
        }
        if segment.ident == "Self" {
            self.errors.push(Error::new(
                segment.span(),
                "`Self` is another type on each side of the wire: name a concrete type",
            ));
        }
        syn::visit::visit_path_segment(self, segment);
    }
}

fn is_u8(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.is_ident("u8"))
}
