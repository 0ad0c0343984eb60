//! The client: the contract's methods as call objects, and the contract itself for code that is generic over it.

use super::{allow_deprecated, allow_many_arguments, docs_and_conditions, reply};
use crate::service::model::{Call, Method, Service};
use proc_macro2::TokenStream;
use quote::quote;
use std::collections::HashSet;

/// The client's structure and its implementations.
pub(super) fn expand(service: &Service) -> TokenStream {
    let Service { punctual, visibility, ident, client, module, .. } = service;
    let methods = service.methods.iter().map(|method| inherent(service, method));
    let deprecated = allow_deprecated(&service.methods);
    let as_contract = as_contract(service);
    let about = format!(
        " Calls [`{ident}`] on a server. Cloning is cheap: clones share the channel.\n\n \
         Each method gives a call object, which is the future and takes options before it is awaited.\n \
         The requests themselves are in [`{module}`]."
    );
    quote! {
        #[doc = #about]
        #[derive(Clone, Debug)]
        #visibility struct #client {
            channel: #punctual::Channel,
        }

        #deprecated
        impl #client {
            /// Connects to `address`, as `Channel::connect` does.
            ///
            /// # Errors
            /// Where the address means nothing, nobody answers there, or what answers speaks another protocol.
            pub async fn connect(address: &str) -> ::core::result::Result<Self, #punctual::Status> {
                #punctual::Channel::connect(address).await.map(Self::new)
            }

            /// A client over a channel, which other clients may share.
            #[must_use]
            pub fn new(channel: #punctual::Channel) -> Self {
                Self { channel }
            }

            /// The channel.
            #[must_use]
            pub fn channel(&self) -> &#punctual::Channel {
                &self.channel
            }

            #(#methods)*
        }

        #as_contract
    }
}

fn inherent(service: &Service, method: &Method) -> TokenStream {
    let Service { punctual, module, .. } = service;
    let Method { ident, request, full_name, docs, index, call, .. } = method;
    let attributes = docs_and_conditions(method);
    let kept = crate::docs::named(&method.attributes, &["deprecated"]);
    let about = docs.is_empty().then(|| {
        let about = format!(" Calls `{full_name}`.");
        quote! { #[doc = #about] }
    });
    let many = allow_many_arguments(method);
    let names: Vec<_> = method.arguments.iter().map(|argument| &argument.ident).collect();
    let types = method.arguments.iter().map(|argument| &argument.ty);
    let fields = method.fields().map(|argument| &argument.ident);
    let streams: Vec<_> = method.streams().map(|(ident, _)| ident).collect();
    let taken = !streams.is_empty();
    let (kind, start) = match (call, &method.returned) {
        (Call::Unary { reply, .. }, Some(returned)) => {
            let (_, err) = reply::sides(punctual, reply);
            let (item, item_err) = (&returned.item, reply::stream_error(punctual, returned));
            let kind = if taken {
                quote! { Duplex }
            } else {
                quote! { ServerStream }
            };
            (quote! { #kind<#module::#request, #item, #item_err, #err> }, quote! { returned_stream })
        }
        (Call::Unary { reply, .. }, None) => {
            let (ok, err) = reply::sides(punctual, reply);
            if taken {
                (quote! { ClientStream<#module::#request, #ok, #err> }, quote! { client_stream })
            } else {
                (quote! { Unary<#module::#request, #ok, #err> }, quote! { unary })
            }
        }
        (Call::OneWay, _) if taken => (quote! { OneWayStream<#module::#request> }, quote! { oneway_stream }),
        (Call::OneWay, _) => (quote! { OneWay<#module::#request> }, quote! { oneway }),
    };
    let streams = (taken || method.returned.is_some()).then(|| {
        quote! { , #punctual::rpc::Streams::new() #(.with(#streams))* }
    });
    quote! {
        #(#attributes)*
        #about
        #(#kept)*
        #many
        pub fn #ident(&self #(, #names: #types)*) -> #punctual::#kind {
            self.channel.#start(&#module::DESCRIPTOR, #index, #module::#request { #(#fields),* } #streams)
        }
    }
}

/// `impl Contract for Client`, which exists only if every error type can hold a status. The `for<'a>` keeps a bound that
/// is false from being an error of the contract: it is one where the client is used as the contract, with the reason.
fn as_contract(service: &Service) -> TokenStream {
    let Service { punctual, ident, client, methods, .. } = service;
    let deprecated = allow_deprecated(methods);
    let mut bounds = Vec::new();
    let mut seen = HashSet::new();
    for method in methods {
        let Call::Unary { reply, .. } = &method.call else { continue };
        let (_, err) = reply::sides(punctual, reply);
        if seen.insert(err.to_string()) {
            bounds.push(quote! { for<'a> #err: ::core::convert::From<#punctual::Status> });
        }
    }
    let methods = methods.iter().map(|method| {
        let conditions = method.conditions();
        let Method { ident, call, .. } = method;
        let names: Vec<_> = method.arguments.iter().map(|argument| &argument.ident).collect();
        let types = method.arguments.iter().map(|argument| &argument.ty);
        let (output, body) = match call {
            Call::Unary { reply, .. } => (
                Some(quote! { -> #reply }),
                quote! { #client::#ident(self #(, #names)*).await.map_err(#punctual::__private::flatten) },
            ),
            // A caller of the trait cannot be told that nothing was sent, as with any other one-way implementation.
            Call::OneWay => (None, quote! { let _ = #client::#ident(self #(, #names)*).await; }),
        };
        quote! {
            #(#conditions)*
            async fn #ident(&self #(, #names: #types)*) #output { #body }
        }
    });
    let bounds = (!bounds.is_empty()).then(|| quote! { where #(#bounds),* });
    quote! {
        #deprecated
        impl #ident for #client #bounds {
            #(#methods)*
        }
    }
}
