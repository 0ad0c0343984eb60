//! The trait itself, with futures that can be spawned.

use super::allow_many_arguments;
use crate::service::model::{Call, Method, Service};
use proc_macro2::TokenStream;
use quote::quote;

/// The trait with each `async fn` spelled as one that returns a `Send` future; implementations still write `async fn`.
pub(super) fn expand(service: &Service) -> TokenStream {
    let Service { attributes, visibility, ident, supertraits, methods, .. } = service;
    let methods = methods.iter().map(method);
    let bounds = if supertraits.is_empty() { None } else { Some(quote! { #supertraits + }) };
    quote! {
        #(#attributes)*
        #visibility trait #ident: #bounds ::core::marker::Send + ::core::marker::Sync + 'static {
            #(#methods)*
        }
    }
}

fn method(method: &Method) -> TokenStream {
    let Method { ident, attributes, arguments, call, .. } = method;
    let arguments = arguments.iter().map(|argument| {
        let (ident, ty) = (&argument.ident, &argument.ty);
        quote! { #ident: #ty }
    });
    let output = match call {
        Call::Unary { reply, .. } => quote! { #reply },
        Call::OneWay => quote! { () },
    };
    let many = allow_many_arguments(method);
    quote! {
        #(#attributes)*
        #many
        fn #ident(&self #(, #arguments)*) -> impl ::core::future::Future<Output = #output> + ::core::marker::Send;
    }
}
