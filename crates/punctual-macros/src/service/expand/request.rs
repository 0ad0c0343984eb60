//! The module of requests: one structure a method, and the descriptor.

use super::{docs_and_conditions, reply};
use crate::service::duration;
use crate::service::model::{Argument, Backoff, Call, Durable, Method, Service, Streamed};
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::visit_mut::VisitMut;
use syn::{Path, PathSegment, Type, Visibility, parse_quote};

/// The module.
pub(super) fn expand(service: &Service) -> TokenStream {
    let Service { punctual, ident, visibility, module, name, docs, methods, .. } = service;
    let moved = Moved::new(methods);
    let inner = inner_visibility(visibility);
    let requests = methods.iter().map(|method| request(service, method, &moved, &inner));
    let descriptors = methods.iter().map(|method| descriptor(service, method, &moved));
    let about = format!(" The requests of [`{ident}`], and its descriptor.");
    quote! {
        #[doc = #about]
        #[allow(missing_docs, unused_imports, reason = "generated")]
        #visibility mod #module {
            use super::*;

            #(#requests)*

            /// What the contract promises.
            #inner static DESCRIPTOR: #punctual::__private::ServiceDescriptor =
                #punctual::__private::ServiceDescriptor::new(#name, #docs, &[#(#descriptors),*]);
        }
    }
}

/// The trait's visibility, said from inside the module. Not simply `pub`: the result of a durable method stands in the
/// public interface of its request, which may then be no more visible than the result.
fn inner_visibility(visibility: &Visibility) -> Visibility {
    match visibility {
        Visibility::Public(_) => visibility.clone(),
        Visibility::Inherited => parse_quote!(pub(super)),
        Visibility::Restricted(restricted) => {
            let mut path = (*restricted.path).clone();
            move_down(&mut path);
            if path.is_ident("crate") || path.is_ident("super") {
                parse_quote!(pub(#path))
            } else {
                parse_quote!(pub(in #path))
            }
        }
    }
}

fn request(service: &Service, method: &Method, moved: &Moved, visibility: &Visibility) -> TokenStream {
    let Service { punctual, .. } = service;
    let Method { request, full_name, docs, .. } = method;
    let conditions: Vec<_> = method.conditions().collect();
    let attributes = docs_and_conditions(method);
    let about = docs.is_empty().then(|| {
        let about = format!(" The arguments of `{full_name}`.");
        quote! { #[doc = #about] }
    });
    let fields = method.fields().map(|Argument { ident, attributes, ty, .. }| {
        let ty = moved.moved(ty);
        quote! { #(#attributes)* #visibility #ident: #ty }
    });
    let path = crate_argument(punctual);
    let raw = raw_bytes(punctual, method);
    quote! {
        #(#attributes)*
        #about
        #[#punctual::message #path]
        #visibility struct #request { #(#fields),* }

        #(#conditions)*
        impl #punctual::__private::Args for #request { #raw }
    }
}

/// `message` finds the crate where `service` was told to.
fn crate_argument(punctual: &Path) -> Option<TokenStream> {
    let text = punctual.to_token_stream().to_string().replace(' ', "");
    (text != "::punctual").then(|| quote! { (crate = #text) })
}

/// A method whose only argument is `Bytes` gives it away as it is. The name is only a hint: whether it is the `Bytes` that
/// it seems to be is asked of the type itself.
fn raw_bytes(punctual: &Path, method: &Method) -> Option<TokenStream> {
    let mut fields = method.fields();
    let (Some(Argument { ident, ty, .. }), None) = (fields.next(), fields.next()) else { return None };
    let Type::Path(path) = ty else { return None };
    let seems_bytes = path.path.segments.last().is_some_and(|last| last.ident == "Bytes");
    let request = &method.request;
    seems_bytes.then(|| {
        quote! {
            fn raw(&self) -> ::core::option::Option<&#punctual::Bytes> {
                #punctual::__private::as_bytes(&self.#ident)
            }

            fn from_raw(raw: #punctual::Bytes) -> ::core::option::Option<Self> {
                #punctual::__private::from_bytes(raw).map(|#ident| #request { #ident })
            }
        }
    })
}

fn descriptor(service: &Service, method: &Method, moved: &Moved) -> TokenStream {
    let punctual = &service.punctual;
    let Method { full_name, docs, request, call, timeout, .. } = method;
    let conditions = method.conditions();
    let schema = quote! { #punctual::__private::Schema };
    let head = match call {
        Call::OneWay => quote! { oneway(#full_name, <#request as #schema>::TYPE) },
        Call::Unary { reply, .. } => {
            let (ok, err) = reply::sides(punctual, &moved.moved(reply));
            let ok = match &method.returned {
                Some(returned) => moved.moved(&returned.item).to_token_stream(),
                None => ok,
            };
            let (ok, err) = (quote! { <#ok as #schema>::TYPE }, quote! { <#err as #schema>::TYPE });
            quote! { unary(#full_name, <#request as #schema>::TYPE, #ok, #err) }
        }
    };
    let docs = (!docs.is_empty()).then(|| quote! { .docs(#docs) });
    let idempotent = matches!(call, Call::Unary { idempotent: true, .. }).then(|| quote! { .idempotent() });
    let timeout = timeout.map(|timeout| {
        let timeout = duration::tokens(timeout);
        quote! { .timeout(#timeout) }
    });
    let streams: Vec<TokenStream> = method
        .streams()
        .map(|(ident, stream)| {
            let name = ident.unraw().to_string();
            let (item, err) = (moved.moved(&stream.item), stream_error(punctual, stream, moved));
            quote! {
                #punctual::__private::StreamDescriptor::new(#name, <#item as #schema>::TYPE, <#err as #schema>::TYPE)
            }
        })
        .collect();
    let streams = (!streams.is_empty()).then(|| quote! { .streams(&[#(#streams),*]) });
    let returned = method.returned.as_ref().map(|returned| {
        let err = stream_error(punctual, returned, moved);
        quote! { .returns_stream(<#err as #schema>::TYPE) }
    });
    let detached = method.detached.then(|| quote! { .detached() });
    let durable = method.durable().map(|durable| {
        let policy = durable_policy(punctual, durable);
        quote! { .durable(#policy) }
    });
    quote! {
        #(#conditions)*
        #punctual::__private::MethodDescriptor::#head #streams #returned #detached #docs #idempotent #timeout #durable
    }
}

/// What a stream may fail with, said from inside the module.
fn stream_error(punctual: &Path, stream: &Streamed, moved: &Moved) -> TokenStream {
    let err = stream.err.as_ref().map(|err| moved.moved(err));
    reply::stream_error(punctual, &Streamed { item: stream.item.clone(), err })
}

fn durable_policy(punctual: &Path, durable: &Durable) -> TokenStream {
    let Durable { queue, attempts, backoff, priority } = durable;
    let queue = queue.as_ref().map(|queue| quote! { .queue(#queue) });
    let attempts = attempts.map(|attempts| quote! { .attempts(#attempts) });
    let priority = priority.map(|priority| quote! { .priority(#priority) });
    let backoff = backoff.map(|backoff| {
        let kind = quote! { #punctual::__private::Backoff };
        let backoff = match backoff {
            Backoff::Fixed(wait) => {
                let wait = duration::tokens(wait);
                quote! { #kind::Fixed(#wait) }
            }
            Backoff::Linear(first, max) => {
                let (first, max) = (duration::tokens(first), duration::tokens(max));
                quote! { #kind::Linear { first: #first, max: #max } }
            }
            Backoff::Exponential(first, max) => {
                let (first, max) = (duration::tokens(first), duration::tokens(max));
                quote! { #kind::Exponential { first: #first, max: #max } }
            }
        };
        quote! { .backoff(#backoff) }
    });
    quote! { #punctual::__private::DurablePolicy::new() #queue #attempts #backoff #priority }
}

/// Types of the trait, said from inside the module.
///
/// The module sees what the trait sees through `use super::*`, with two exceptions: paths that begin with `self` or
/// `super` start one level deeper, and a type that is named like a request (`receipt` returns a `Receipt`) would mean the
/// request.
struct Moved {
    requests: Vec<Ident>,
}

impl Moved {
    fn new(methods: &[Method]) -> Self {
        Moved { requests: methods.iter().map(|method| method.request.clone()).collect() }
    }

    fn moved(&self, ty: &Type) -> Type {
        let mut ty = ty.clone();
        PathMover { requests: &self.requests }.visit_type_mut(&mut ty);
        ty
    }
}

struct PathMover<'a> {
    requests: &'a [Ident],
}

impl VisitMut for PathMover<'_> {
    fn visit_path_mut(&mut self, path: &mut Path) {
        syn::visit_mut::visit_path_mut(self, path);
        if path.leading_colon.is_some() {
            return;
        }
        let hidden = path.segments.first().is_some_and(|first| self.requests.contains(&first.ident));
        if hidden {
            begin_with_super(path);
        } else {
            move_down(path);
        }
    }
}

/// A path that begins with `self` or `super`, one level deeper; another stays.
fn move_down(path: &mut Path) {
    let Some(first) = path.segments.first_mut() else { return };
    if first.ident == "self" {
        first.ident = Ident::new("super", first.ident.span());
    } else if first.ident == "super" {
        begin_with_super(path);
    }
}

fn begin_with_super(path: &mut Path) {
    let span = path.segments.first().map_or_else(proc_macro2::Span::call_site, |first| first.ident.span());
    path.segments.insert(0, PathSegment::from(Ident::new("super", span)));
}
