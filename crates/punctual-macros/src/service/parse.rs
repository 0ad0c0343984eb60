//! From syntax to the model, with every refusal at its span.

use super::attribute::Options;
use super::model::{Call, Method, Service};
use super::signature;
use crate::errors::Errors;
use crate::{docs, names};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use std::collections::HashMap;
use syn::ext::IdentExt;
use syn::parse::Parser;
use syn::{Attribute, Error, ItemTrait, LitStr, Meta, Path, TraitItem, TraitItemFn, parse_quote};

/// `Service/method` is a key in every store's index.
const FULL_NAME_BYTES_MAX: usize = 200;

/// What the generated client has beside the contract's methods.
const CLIENTS_OWN: [&str; 3] = ["connect", "new", "channel"];

/// Types that everybody names without a path: a request structure of the same name would hide them in its module.
const PRELUDE_TYPES: [&str; 5] = ["String", "Vec", "Option", "Result", "Box"];

/// The model of the trait, or all that is wrong with it.
pub(super) fn parse(arguments: TokenStream, contract: &ItemTrait) -> Result<Service, Error> {
    let mut errors = Errors::default();
    let arguments = Arguments::parse(arguments, &mut errors);
    check_trait(contract, &mut errors);
    let name = arguments.name.unwrap_or_else(|| contract.ident.unraw().to_string());
    let methods = parse_methods(contract, &name, &mut errors);
    let trait_name = contract.ident.unraw().to_string();
    let span = contract.ident.span();
    let service = Service {
        punctual: arguments.punctual,
        attributes: contract.attrs.clone(),
        docs: docs::text_of(&contract.attrs),
        visibility: contract.vis.clone(),
        ident: contract.ident.clone(),
        module: module_name(&names::snake(&trait_name), span),
        client: Ident::new(&format!("{trait_name}Client"), span),
        server: Ident::new(&format!("{trait_name}Server"), span),
        name,
        supertraits: contract.supertraits.clone(),
        methods,
    };
    errors.finish(service)
}

/// A trait named like a keyword (`Match`) still gets a module.
fn module_name(name: &str, span: proc_macro2::Span) -> Ident {
    let mut ident = syn::parse_str::<Ident>(name).unwrap_or_else(|_| format_ident!("{name}_"));
    ident.set_span(span);
    ident
}

/// What stands in the parentheses of `#[service(..)]`.
struct Arguments {
    punctual: Path,
    name: Option<String>,
}

impl Arguments {
    fn parse(tokens: TokenStream, errors: &mut Errors) -> Arguments {
        let mut arguments = Arguments { punctual: parse_quote!(::punctual), name: None };
        let parser = syn::meta::parser(|meta| {
            if meta.path.is_ident("crate") {
                let path: LitStr = meta.value()?.parse()?;
                arguments.punctual = path.parse_with(Path::parse_mod_style)?;
                Ok(())
            } else if meta.path.is_ident("name") {
                let name: LitStr = meta.value()?.parse()?;
                arguments.name = Some(check_service_name(&name)?);
                Ok(())
            } else {
                Err(meta.error("`service` knows `name = \"..\"` (the name on the wire) and `crate = \"..\"` (the path of `punctual`)"))
            }
        });
        errors.take(parser.parse2(tokens));
        arguments
    }
}

fn check_service_name(name: &LitStr) -> syn::Result<String> {
    let text = name.value();
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    if text.is_empty() || !text.bytes().all(fine) {
        return Err(Error::new(name.span(), "a service's name is made of letters, digits, `_`, `-` and `.`"));
    }
    Ok(text)
}

fn check_trait(contract: &ItemTrait, errors: &mut Errors) {
    if contract.unsafety.is_some() {
        errors.at(contract.unsafety, "a contract cannot be `unsafe`: nobody can promise for the other side of a wire");
    }
    errors.take(contract.modifiers.require_empty());
    if !contract.generics.params.is_empty() {
        errors.at(
            &contract.generics,
            "a contract cannot be generic: both sides must know every type; write one trait for each concrete type",
        );
    }
    if contract.generics.where_clause.is_some() {
        errors.at(&contract.generics.where_clause, "a contract has no `where` clause: there is nothing generic in it");
    }
}

fn parse_methods(contract: &ItemTrait, service: &str, errors: &mut Errors) -> Vec<Method> {
    let mut methods: Vec<Method> = Vec::new();
    let mut requests: HashMap<String, String> = HashMap::new();
    for item in &contract.items {
        let method = match item {
            TraitItem::Fn(method) => method,
            TraitItem::Type(other) => {
                errors.at(other, "a contract has methods only: name a concrete type instead of an associated one");
                continue;
            }
            other => {
                errors.at(other, "a contract has methods only: move this out of the trait");
                continue;
            }
        };
        let Some(parsed) = parse_method(method, service, &methods, errors) else { continue };
        if let Some(earlier) = requests.insert(parsed.request.to_string(), parsed.ident.to_string()) {
            let message = if parsed.ident == earlier {
                format!("the method `{earlier}` is declared twice, and would have one id for both")
            } else {
                format!(
                    "the requests of `{earlier}` and `{}` would both be named `{}`: rename one",
                    parsed.ident, parsed.request
                )
            };
            errors.at(&parsed.ident, message);
        }
        methods.push(parsed);
    }
    methods
}

fn parse_method(method: &TraitItemFn, service: &str, before: &[Method], errors: &mut Errors) -> Option<Method> {
    let name = method.sig.ident.unraw().to_string();
    errors.take(method.modifiers.require_empty());
    check_names(&method.sig.ident, &name, service, errors);
    for attribute in method.attrs.iter().filter(|attribute| docs::is_hiding(attribute, &["cfg", "rpc"])) {
        errors.at(attribute, "write `#[cfg(..)]` and `#[rpc(..)]` plainly: behind `cfg_attr` they cannot be seen here");
    }
    if let Some(body) = &method.default {
        errors.at(
            body,
            "a contract has no default bodies: a client could not know whether the server kept it; write it in the implementation",
        );
    }
    let options = Options::parse(&method.attrs, errors);
    let signature = signature::parse(&method.sig, options.oneway(), errors)?;
    let argument = signature.arguments.iter().find(|argument| argument.stream.is_some());
    let argument = argument.map(|argument| argument.ident.span());
    let returned = signature.returned.as_ref().map(|_| method.sig.ident.span());
    options.refuse_with_streams(argument, returned, errors);
    let timeout = options.timeout();
    let detached = options.detached();
    let runs = options.runs();
    let call = match signature.reply {
        None => Call::OneWay,
        Some(reply) => {
            Call::Unary { reply: Box::new(reply), idempotent: options.idempotent(), durable: options.durable() }
        }
    };
    Some(Method {
        ident: method.sig.ident.clone(),
        full_name: format!("{service}/{name}"),
        attributes: method.attrs.iter().filter(|attribute| !attribute.path().is_ident("rpc")).cloned().collect(),
        docs: docs::text_of(&method.attrs),
        request: Ident::new(&names::pascal(&name), method.sig.ident.span()),
        index: index_after(before),
        arguments: signature.arguments,
        call,
        timeout,
        returned: signature.returned,
        detached,
        runs,
    })
}

fn check_names(ident: &Ident, name: &str, service: &str, errors: &mut Errors) {
    if CLIENTS_OWN.contains(&name) {
        errors.at(ident, format!("the generated client has a `{name}` of its own: rename the method"));
    }
    let request = names::pascal(name);
    if syn::parse_str::<Ident>(&request).is_err() {
        errors.at(
            ident,
            format!("the request of `{name}` would be named `{request}`, which is no name: rename the method"),
        );
    }
    if PRELUDE_TYPES.contains(&request.as_str()) {
        errors.at(
            ident,
            format!("the request of `{name}` would be named `{request}` and hide the standard type: rename the method"),
        );
    }
    let full = service.len() + 1 + name.len();
    if full > FULL_NAME_BYTES_MAX {
        errors.at(ident, format!("`{service}/{name}` has {full} bytes; the limit is {FULL_NAME_BYTES_MAX}"));
    }
}

/// The number of the methods before this one. A method under `#[cfg]` counts only where it exists, which the compiler
/// knows and this macro does not.
fn index_after(before: &[Method]) -> TokenStream {
    let (mut fixed, mut conditional) = (0usize, Vec::new());
    for method in before {
        let conditions: Vec<TokenStream> = method.conditions().filter_map(condition_of).collect();
        match conditions.as_slice() {
            [] => fixed += 1,
            [one] => conditional.push(quote! { ::core::cfg!(#one) as usize }),
            several => conditional.push(quote! { ::core::cfg!(all(#(#several),*)) as usize }),
        }
    }
    let fixed = proc_macro2::Literal::usize_unsuffixed(fixed);
    quote! { #fixed #(+ #conditional)* }
}

fn condition_of(attribute: &Attribute) -> Option<TokenStream> {
    match &attribute.meta {
        Meta::List(list) => Some(list.tokens.clone()),
        _ => None,
    }
}
