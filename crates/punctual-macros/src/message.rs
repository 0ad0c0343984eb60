//! `#[message]`: serde and a schema that agree with each other.

mod rename;
mod schema;
mod serde_attribute;
#[cfg(test)]
mod tests;

use crate::docs;
use crate::errors::Errors;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Attribute, Data, DeriveInput, Error, LitStr, Path, Token, parse_quote};

/// The expansion of the attribute with `arguments` on `item`.
pub(crate) fn message(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let input: DeriveInput = match syn::parse2(item.clone()) {
        Ok(input) => input,
        Err(error) => {
            let error = Error::new(error.span(), format!("#[message] belongs on a struct or an enum: {error}"));
            let error = error.into_compile_error();
            return quote! { #error #item };
        }
    };
    match expand(arguments, &input) {
        Ok(expansion) => expansion,
        Err(error) => {
            let errors = error.into_compile_error();
            let original = without_our_attributes(&input, &["message", "serde"]);
            quote! { #errors #original }
        }
    }
}

fn expand(arguments: TokenStream, input: &DeriveInput) -> Result<TokenStream, Error> {
    let mut errors = Errors::default();
    let punctual = parse_arguments(arguments, &mut errors);
    check(input, &mut errors);
    let schema = schema::expand(&punctual, input, &mut errors);
    let serde = {
        let mut path = punctual.clone();
        path.segments.push(parse_quote!(serde));
        path
    };
    let serde_text = serde.to_token_stream().to_string().replace(' ', "");
    let item = without_our_attributes(input, &["message"]);
    errors.finish(quote! {
        #[derive(#serde::Serialize, #serde::Deserialize)]
        #[serde(crate = #serde_text)]
        #item
        #schema
    })
}

fn parse_arguments(arguments: TokenStream, errors: &mut Errors) -> Path {
    let mut punctual: Path = parse_quote!(::punctual);
    let parser = syn::meta::parser(|meta| {
        if meta.path.is_ident("crate") {
            let path: LitStr = meta.value()?.parse()?;
            punctual = path.parse_with(Path::parse_mod_style)?;
            Ok(())
        } else {
            Err(meta.error("`message` on a type knows `crate = \"..\"` (the path of `punctual`)"))
        }
    });
    errors.take(parser.parse2(arguments));
    punctual
}

fn check(input: &DeriveInput, errors: &mut Errors) {
    if let Data::Union(data) = &input.data {
        errors.at(data.union_token, "a union cannot cross the wire: use an enum");
    }
    for lifetime in input.generics.lifetimes() {
        errors.at(
            lifetime,
            "a message owns what it holds, since it crosses the wire: use owned types and drop the lifetime",
        );
    }
    for attribute in &input.attrs {
        for path in derives_of(attribute) {
            let doubled = path.segments.last().filter(|last| last.ident == "Serialize" || last.ident == "Deserialize");
            if let Some(doubled) = doubled {
                errors.at(&path, format!("`#[message]` derives `{}` itself: drop it here", doubled.ident));
            }
        }
    }
    for attribute in all_attributes(input).filter(|attribute| docs::is_hiding(attribute, &["serde", "message"])) {
        errors.at(attribute, "write `#[serde(..)]` plainly: behind `cfg_attr` the schema could not follow it");
    }
}

fn derives_of(attribute: &Attribute) -> Vec<Path> {
    if !attribute.path().is_ident("derive") {
        return Vec::new();
    }
    let paths = attribute.parse_args_with(Punctuated::<Path, Token![,]>::parse_terminated);
    paths.map(|paths| paths.into_iter().collect()).unwrap_or_default()
}

fn all_attributes(input: &DeriveInput) -> Box<dyn Iterator<Item = &Attribute> + '_> {
    let own = input.attrs.iter();
    match &input.data {
        Data::Struct(data) => Box::new(own.chain(data.fields.iter().flat_map(|field| &field.attrs))),
        Data::Enum(data) => {
            Box::new(own.chain(
                data.variants.iter().flat_map(|variant| {
                    variant.attrs.iter().chain(variant.fields.iter().flat_map(|field| &field.attrs))
                }),
            ))
        }
        Data::Union(_) => Box::new(own),
    }
}

fn without_our_attributes(input: &DeriveInput, names: &[&str]) -> DeriveInput {
    let mut item = input.clone();
    let keep = |attribute: &Attribute| !names.iter().any(|name| attribute.path().is_ident(name));
    item.attrs.retain(keep);
    match &mut item.data {
        Data::Struct(data) => data.fields.iter_mut().for_each(|field| field.attrs.retain(keep)),
        Data::Enum(data) => {
            for variant in &mut data.variants {
                variant.attrs.retain(keep);
                variant.fields.iter_mut().for_each(|field| field.attrs.retain(keep));
            }
        }
        Data::Union(data) => data.fields.named.iter_mut().for_each(|field| field.attrs.retain(keep)),
    }
    item
}
