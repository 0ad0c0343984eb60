//! The server wrapper: from a method's number to the implementation.

use super::allow_deprecated;
use crate::service::model::{Argument, Call, Method, Runs, Service};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};

/// The wrapper and its `Service`.
pub(super) fn expand(service: &Service) -> TokenStream {
    let Service { punctual, visibility, ident, server, module, methods, .. } = service;
    let deprecated = allow_deprecated(methods);
    let arms = methods.iter().map(|method| arm(service, method));
    let about = format!(" Serves an implementation of [`{ident}`]. Cloning is cheap: clones share it.");
    quote! {
        #[doc = #about]
        #visibility struct #server<T> {
            inner: ::std::sync::Arc<T>,
        }

        impl<T: #ident> #server<T> {
            /// Serves `service`.
            #[must_use]
            pub fn new(service: T) -> Self {
                Self::from_arc(::std::sync::Arc::new(service))
            }

            /// Serves an implementation that is shared with other code.
            #[must_use]
            pub fn from_arc(inner: ::std::sync::Arc<T>) -> Self {
                Self { inner }
            }
        }

        impl<T> ::core::clone::Clone for #server<T> {
            fn clone(&self) -> Self {
                Self { inner: ::std::sync::Arc::clone(&self.inner) }
            }
        }

        impl<T: #ident> #punctual::rpc::Contract for #server<T> {
            fn contract() -> &'static #punctual::__private::ServiceDescriptor {
                &#module::DESCRIPTOR
            }
        }

        #deprecated
        impl<T: #ident> #punctual::rpc::Service for #server<T> {
            fn descriptor(&self) -> &'static #punctual::__private::ServiceDescriptor {
                &#module::DESCRIPTOR
            }

            fn dispatch(&self, method: usize, call: #punctual::rpc::Inbound<'_>) {
                let inner = ::std::sync::Arc::clone(&self.inner);
                match method {
                    #(#arms)*
                    _ => call.unimplemented(),
                }
            }
        }
    }
}

fn arm(service: &Service, method: &Method) -> TokenStream {
    let Service { ident: contract, module, .. } = service;
    let Method { ident, request, index, arguments, call, .. } = method;
    let conditions = method.conditions();
    // A plain number is a pattern; a sum of conditions is not.
    let is_literal = index.clone().into_iter().count() == 1;
    let pattern = if is_literal {
        quote! { #index }
    } else {
        quote! { index if index == #index }
    };
    // A stream is taken from the call, everything else from its request.
    let mut streams = Vec::new();
    let mut passed = Vec::new();
    for Argument { ident, stream, .. } in arguments {
        if stream.is_some() {
            // Not by its own name, which may be one of those used here.
            let stream = format_ident!("stream_{}", streams.len());
            passed.push(quote! { #stream });
            streams.push(stream);
        } else {
            passed.push(quote! { args.#ident });
        }
    }
    let args = if method.fields().next().is_none() {
        quote! { _args }
    } else {
        quote! { args }
    };
    let start = match (call, &method.returned) {
        (Call::Unary { .. }, Some(_)) => quote! { returned_stream },
        (Call::Unary { .. }, None) => quote! { unary },
        (Call::OneWay, _) => quote! { oneway },
    };
    let placed = method.runs.map(|runs| match runs {
        Runs::Inline => quote! { .inline() },
        Runs::Blocking => quote! { .blocking() },
    });
    let handler = quote! {
        call #placed .#start(move |#args: #module::#request| async move {
            <T as #contract>::#ident(&inner #(, #passed)*).await
        })
    };
    let arm = if streams.is_empty() {
        quote! { #handler, }
    } else {
        quote! { {
            let mut call = call;
            #(let #streams = call.take_stream();)*
            #handler
        } }
    };
    quote! {
        #(#conditions)*
        #pattern => #arm
    }
}
