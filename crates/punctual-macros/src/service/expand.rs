//! From the model to tokens. Each part is one generated item; none of them decides anything.

mod client;
mod reply;
mod request;
mod server;
mod task;
mod r#trait;

use super::model::{Method, Service};
use proc_macro2::TokenStream;
use quote::quote;
use syn::Attribute;

/// All that a contract expands to.
pub(super) fn expand(service: &Service) -> TokenStream {
    let contract = r#trait::expand(service);
    let requests = request::expand(service);
    let client = client::expand(service);
    let server = server::expand(service);
    let tasks = task::expand(service);
    quote! {
        #contract
        #requests
        #client
        #server
        #tasks
    }
}

/// What generated code that names a deprecated method carries: the warning is for who calls it by hand.
fn allow_deprecated(methods: &[Method]) -> Option<TokenStream> {
    let any =
        methods.iter().flat_map(|method| &method.attributes).any(|attribute| attribute.path().is_ident("deprecated"));
    any.then(|| quote! { #[allow(deprecated, reason = "the warning is for callers")] })
}

/// The doc comments and conditions of a method, for an item made from it.
fn docs_and_conditions(method: &Method) -> impl Iterator<Item = &Attribute> {
    crate::docs::named(&method.attributes, &["doc", "cfg"])
}

/// A contract may have as many arguments as its requests have fields.
fn allow_many_arguments(method: &Method) -> Option<TokenStream> {
    const CLIPPYS_LIMIT_BESIDE_SELF: usize = 6;
    let many = method.arguments.len() > CLIPPYS_LIMIT_BESIDE_SELF;
    many.then(|| quote! { #[allow(clippy::too_many_arguments, reason = "one argument a field of the request")] })
}
