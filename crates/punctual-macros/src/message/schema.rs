//! The `Schema` of a message.

use super::rename::Rule;
use super::serde_attribute::{Place, SerdeOptions};
use crate::docs;
use crate::errors::Errors;
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DataEnum, DeriveInput, Field, Fields, GenericParam, Generics, Path, Type, parse_quote};

/// `impl Schema for ..`.
pub(super) fn expand(punctual: &Path, input: &DeriveInput, errors: &mut Errors) -> TokenStream {
    let options = SerdeOptions::parse(&input.attrs, Place::Container, errors);
    let private = quote! { #punctual::__private };
    let ident = &input.ident;
    let name = ident.unraw().to_string();
    let text = docs::text_of(&input.attrs);
    let ty = match &input.data {
        Data::Struct(data) if options.transparent => transparent(&private, &data.fields, errors),
        Data::Struct(data) => {
            let fields = fields(&private, &data.fields, options.rename_all, options.default, errors);
            quote! { &#private::Type::Struct(&#private::StructType { name: #name, docs: #text, fields: #fields }) }
        }
        Data::Enum(data) => {
            let variants = variants(&private, data, &options, errors);
            quote! {
                &#private::Type::Enum(&#private::EnumType { name: #name, docs: #text, variants: &[#(#variants),*] })
            }
        }
        Data::Union(_) => return TokenStream::new(),
    };
    let generics = bounded(&private, &input.generics);
    let (impl_generics, ty_generics, where_clause) = generics.split_for_impl();
    quote! {
        impl #impl_generics #private::Schema for #ident #ty_generics #where_clause {
            const TYPE: &'static #private::Type = #ty;
        }
    }
}

/// Each type parameter has a schema of its own.
fn bounded(private: &TokenStream, generics: &Generics) -> Generics {
    let mut generics = generics.clone();
    for parameter in &mut generics.params {
        if let GenericParam::Type(parameter) = parameter {
            parameter.bounds.push(parse_quote!(#private::Schema));
        }
    }
    generics
}

fn variants(private: &TokenStream, data: &DataEnum, container: &SerdeOptions, errors: &mut Errors) -> Vec<TokenStream> {
    let mut out = Vec::with_capacity(data.variants.len());
    for variant in &data.variants {
        let options = SerdeOptions::parse(&variant.attrs, Place::Variant, errors);
        let source = variant.ident.unraw().to_string();
        let name = options.rename.or_else(|| container.rename_all.map(|rule| rule.variant(&source))).unwrap_or(source);
        let rule = options.rename_all.or(container.rename_all_fields);
        let fields = fields(private, &variant.fields, rule, false, errors);
        let text = docs::text_of(&variant.attrs);
        let conditions = docs::named(&variant.attrs, &["cfg"]);
        out.push(quote! {
            #(#conditions)*
            #private::Variant { name: #name, docs: #text, fields: #fields }
        });
    }
    out
}

fn fields(
    private: &TokenStream,
    fields: &Fields,
    rule: Option<Rule>,
    all_default: bool,
    errors: &mut Errors,
) -> TokenStream {
    match fields {
        Fields::Unit => quote! { #private::Fields::Unit },
        Fields::Named(fields) => {
            let fields: Vec<_> =
                fields.named.iter().filter_map(|field| named(private, field, rule, all_default, errors)).collect();
            quote! { #private::Fields::Named(&[#(#fields),*]) }
        }
        Fields::Unnamed(fields) => {
            // Serde writes a structure of one field as that field only if it was declared with one.
            let declared = fields.unnamed.len();
            let types: Vec<_> = fields.unnamed.iter().filter_map(|field| unnamed(private, field, errors)).collect();
            match (declared, types.as_slice()) {
                (1, [only]) => quote! { #private::Fields::Newtype(#only) },
                _ => quote! { #private::Fields::Tuple(&[#(#types),*]) },
            }
        }
    }
}

fn named(
    private: &TokenStream,
    field: &Field,
    rule: Option<Rule>,
    all_default: bool,
    errors: &mut Errors,
) -> Option<TokenStream> {
    let options = SerdeOptions::parse(&field.attrs, Place::Field, errors);
    if options.skip {
        return None;
    }
    let source = field.ident.as_ref().map(|ident| ident.unraw().to_string()).unwrap_or_default();
    let ty = schema_of(private, options.schema_as.as_ref().unwrap_or(&field.ty));
    let name = options.rename.or_else(|| rule.map(|rule| rule.field(&source))).unwrap_or(source);
    let optional = all_default || options.default || is_option(&field.ty);
    let text = docs::text_of(&field.attrs);
    let conditions = docs::named(&field.attrs, &["cfg"]);
    Some(quote! {
        #(#conditions)*
        #private::Field { name: #name, docs: #text, ty: #ty, optional: #optional }
    })
}

fn unnamed(private: &TokenStream, field: &Field, errors: &mut Errors) -> Option<TokenStream> {
    let options = SerdeOptions::parse(&field.attrs, Place::Field, errors);
    refuse_condition(&field.attrs, errors);
    (!options.skip).then(|| schema_of(private, options.schema_as.as_ref().unwrap_or(&field.ty)))
}

fn refuse_condition(attributes: &[Attribute], errors: &mut Errors) {
    for attribute in docs::named(attributes, &["cfg"]) {
        errors.at(attribute, "a field without a name cannot be conditional in a message: the others would move");
    }
}

/// A transparent structure is not there on the wire: its field is.
fn transparent(private: &TokenStream, fields: &Fields, errors: &mut Errors) -> TokenStream {
    let mut types = Vec::new();
    for field in fields {
        types.extend(unnamed(private, field, errors));
    }
    // Serde itself refuses any other number of fields, with its own message.
    types.into_iter().next().unwrap_or_else(|| quote! { &#private::Type::Unit })
}

fn schema_of(private: &TokenStream, ty: &Type) -> TokenStream {
    quote_spanned! { ty.span() => <#ty as #private::Schema>::TYPE }
}

fn is_option(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Option"))
}
