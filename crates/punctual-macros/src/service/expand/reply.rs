//! The two sides of a method's `Result`.

use crate::service::model::Streamed;
use proc_macro2::TokenStream;
use quote::quote;
use syn::{GenericArgument, Path, PathArguments, Type};

/// The types of success and error. Where both are written out they are taken as they stand, so that documentation shows
/// them; behind an alias (`Result<u64>`) the compiler is asked.
pub(super) fn sides(punctual: &Path, reply: &Type) -> (TokenStream, TokenStream) {
    if let Some((ok, err)) = written_out(reply) {
        return (quote! { #ok }, quote! { #err });
    }
    let reply = quote! { <#reply as #punctual::__private::Reply> };
    (quote! { #reply::Ok }, quote! { #reply::Err })
}

/// What a stream may fail with.
pub(super) fn stream_error(punctual: &Path, stream: &Streamed) -> TokenStream {
    match &stream.err {
        Some(err) => quote! { #err },
        None => quote! { #punctual::Status },
    }
}

fn written_out(reply: &Type) -> Option<(&Type, &Type)> {
    let Type::Path(path) = reply else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "Result")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    let mut types = arguments.args.iter().map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    match (types.next(), types.next(), types.next()) {
        (Some(Some(ok)), Some(Some(err)), None) => Some((ok, err)),
        _ => None,
    }
}
