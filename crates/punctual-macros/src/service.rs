//! `#[service]`: one trait becomes a contract.

mod attribute;
mod duration;
mod expand;
mod model;
mod parse;
mod signature;
#[cfg(test)]
mod tests;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, FnArg, ItemTrait, TraitItem};

/// The expansion of the attribute with `arguments` on `item`.
pub(crate) fn service(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let contract: ItemTrait = match syn::parse2(item.clone()) {
        Ok(contract) => contract,
        Err(error) => {
            let error = syn::Error::new(error.span(), format!("#[service] belongs on a trait: {error}"));
            let error = error.into_compile_error();
            return quote! { #error #item };
        }
    };
    match parse::parse(arguments, &contract) {
        Ok(service) => expand::expand(&service),
        Err(error) => {
            let errors = error.into_compile_error();
            let original = without_our_attributes(contract);
            // The trait stays, so that an editor still knows it and other code that names it has no errors of its own.
            quote! {
                #errors
                #[allow(async_fn_in_trait, dead_code)]
                #original
            }
        }
    }
}

/// The trait as it would be without this macro: `rpc` and the attributes of arguments mean nothing to the compiler.
fn without_our_attributes(mut contract: ItemTrait) -> ItemTrait {
    let is_ours = |attribute: &Attribute| attribute.path().is_ident("rpc");
    for item in &mut contract.items {
        let TraitItem::Fn(method) = item else { continue };
        method.attrs.retain(|attribute| !is_ours(attribute));
        for input in &mut method.sig.inputs {
            if let FnArg::Typed(argument) = input {
                argument.attrs.clear();
            }
        }
    }
    contract
}
