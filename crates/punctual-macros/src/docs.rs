//! Doc comments and other attributes that generated items share with what they were made from.

use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// The text of the doc comments, one line each, without the space that usually follows the slashes. A comment that is
/// not a literal (`include_str!`) is left out: its text is not known here.
pub(crate) fn text_of(attributes: &[Attribute]) -> String {
    let lines: Vec<String> = attributes.iter().filter_map(line_of).collect();
    lines.join("\n").trim().to_owned()
}

fn line_of(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(meta) = &attribute.meta else { return None };
    if !meta.path.is_ident("doc") {
        return None;
    }
    let Expr::Lit(ExprLit { lit: Lit::Str(line), .. }) = &meta.value else { return None };
    let line = line.value();
    Some(line.strip_prefix(' ').unwrap_or(&line).to_owned())
}

/// The attributes with one of these names.
pub(crate) fn named<'a>(attributes: &'a [Attribute], names: &'a [&str]) -> impl Iterator<Item = &'a Attribute> {
    attributes.iter().filter(move |attribute| names.iter().any(|name| attribute.path().is_ident(name)))
}

/// Whether a `cfg_attr` may add one of these attributes, which then could not be seen.
pub(crate) fn is_hiding(attribute: &Attribute, names: &[&str]) -> bool {
    let Meta::List(list) = &attribute.meta else { return false };
    list.path.is_ident("cfg_attr")
        && list.tokens.clone().into_iter().any(
            |token| matches!(&token, proc_macro2::TokenTree::Ident(ident) if names.iter().any(|name| ident == name)),
        )
}
