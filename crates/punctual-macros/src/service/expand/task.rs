//! Durable methods: their requests as tasks, and the server wrapper as what runs them.

use super::{allow_deprecated, reply};
use crate::service::duration;
use crate::service::model::{Backoff, Call, Durable, Method, Service};
use proc_macro2::TokenStream;
use quote::quote;
use syn::Path;

/// Nothing, if no method is durable; else code that exists only where the `engine` feature does.
pub(super) fn expand(service: &Service) -> Option<TokenStream> {
    let Service { punctual, ident, server, module, methods, name, .. } = service;
    let durable: Vec<&Method> = methods.iter().filter(|method| method.durable().is_some()).collect();
    if durable.is_empty() {
        return None;
    }
    let deprecated = allow_deprecated(methods);
    let tasks = durable.iter().filter_map(|method| task(service, method));
    let listed = durable.iter().map(|method| {
        let (conditions, request) = (method.conditions(), &method.request);
        quote! { #(#conditions)* #punctual::engine::DurableMethod::of::<#module::#request>() }
    });
    let arms = durable.iter().map(|method| {
        let Method { ident: method_ident, request, full_name, arguments, .. } = method;
        let conditions = method.conditions();
        let names = arguments.iter().map(|argument| &argument.ident);
        let args = if arguments.is_empty() {
            quote! { _args }
        } else {
            quote! { args }
        };
        quote! {
            #(#conditions)*
            #full_name => #punctual::engine::run_typed(
                &args,
                move |#args: #module::#request| async move {
                    <T as #ident>::#method_ident(&inner #(, args.#names)*).await
                },
                #punctual::__explain!(<#module::#request as #punctual::engine::Durable>::Err),
            ),
        }
    });
    Some(quote! {
        #punctual::__if_engine! {
            #(#tasks)*

            #deprecated
            impl<T: #ident> #punctual::engine::Handlers for #server<T> {
                fn service(&self) -> &'static str {
                    #name
                }

                fn methods(&self) -> ::std::vec::Vec<#punctual::engine::DurableMethod> {
                    ::std::vec::Vec::from([#(#listed),*])
                }

                fn run(&self, method: &str, args: #punctual::Bytes) -> #punctual::engine::HandlerFuture {
                    let inner = ::std::sync::Arc::clone(&self.inner);
                    match method {
                        #(#arms)*
                        unknown => #punctual::__private::task::unknown_method(unknown),
                    }
                }
            }
        }
    })
}

fn task(service: &Service, method: &Method) -> Option<TokenStream> {
    let Service { punctual, module, .. } = service;
    let Method { request, full_name, index, .. } = method;
    let Call::Unary { reply, durable: Some(durable), .. } = &method.call else { return None };
    let conditions = method.conditions();
    let policy = policy(punctual, durable, method);
    let (ok, err) = reply::sides(punctual, reply);
    Some(quote! {
        #(#conditions)*
        impl #punctual::engine::Durable for #module::#request {
            const METHOD: &'static str = #full_name;
            const POLICY: #punctual::engine::Policy = #policy;
            type Ok = #ok;
            type Err = #err;

            fn schema_hash() -> u64 {
                #module::DESCRIPTOR.methods[#index].args_hash()
            }
        }
    })
}

fn policy(punctual: &Path, durable: &Durable, method: &Method) -> TokenStream {
    let Durable { queue, attempts, backoff, priority } = durable;
    let queue = queue.as_ref().map(|queue| quote! { queue: ::core::option::Option::Some(#queue), });
    let level = priority.map(|priority| quote! { level: #priority, });
    let attempts = attempts.map(|attempts| quote! { attempts: #attempts, });
    let timeout = method.timeout.map(|timeout| {
        let timeout = duration::tokens(timeout);
        quote! { timeout: ::core::option::Option::Some(#timeout), }
    });
    let backoff = backoff.map(|backoff| {
        let (kind, waits) = match backoff {
            Backoff::Fixed(wait) => (quote! { fixed }, vec![wait]),
            Backoff::Linear(first, max) => (quote! { linear }, vec![first, max]),
            Backoff::Exponential(first, max) => (quote! { exponential }, vec![first, max]),
        };
        let waits = waits.into_iter().map(duration::tokens);
        quote! { backoff: #punctual::engine::Backoff::#kind(#(#waits),*), }
    });
    let parts = quote! { #queue #level #attempts #backoff #timeout };
    if parts.is_empty() {
        quote! { #punctual::engine::Policy::DEFAULT }
    } else {
        quote! { #punctual::engine::Policy { #parts ..#punctual::engine::Policy::DEFAULT } }
    }
}
