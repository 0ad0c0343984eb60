//! What `#[serde(..)]` and `#[message(..)]` inside a message mean for its wire form.
//!
//! One derive must serve a compact codec without names and self-describing ones, so what serde offers for one of the two
//! only is refused, with the reason; what changes names is followed.

use super::rename::Rule;
use crate::errors::Errors;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Error, LitStr, Token, Type};

/// Where an attribute stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Container,
    Variant,
    Field,
}

/// What the attributes of one container, variant or field say.
#[derive(Default)]
pub(super) struct SerdeOptions {
    /// The name given by hand.
    pub(super) rename: Option<String>,
    /// The rule for the names of fields, or of variants of a container.
    pub(super) rename_all: Option<Rule>,
    /// The rule for the fields of all variants.
    pub(super) rename_all_fields: Option<Rule>,
    /// Whether a missing value has a default.
    pub(super) default: bool,
    /// Whether the value is not on the wire.
    pub(super) skip: bool,
    /// Whether the container is written as its only field.
    pub(super) transparent: bool,
    /// The type whose schema stands for the field's.
    pub(super) schema_as: Option<Type>,
    with: Option<Error>,
}

const COMPACT: &str = "the compact codec carries no names, so the other side could not tell";

impl SerdeOptions {
    /// Reads the attributes at `place`.
    pub(super) fn parse(attributes: &[Attribute], place: Place, errors: &mut Errors) -> SerdeOptions {
        let mut options = SerdeOptions::default();
        for attribute in attributes {
            let parsed = if attribute.path().is_ident("serde") {
                attribute.parse_nested_meta(|meta| options.parse_serde(&meta, place))
            } else if attribute.path().is_ident("message") {
                attribute.parse_nested_meta(|meta| options.parse_message(&meta, place))
            } else {
                continue;
            };
            errors.take(parsed);
        }
        if let (Some(error), None) = (options.with.take(), &options.schema_as) {
            errors.push(error);
        }
        options
    }

    fn parse_message(&mut self, meta: &ParseNestedMeta<'_>, place: Place) -> syn::Result<()> {
        if !meta.path.is_ident("as") || place != Place::Field {
            return Err(meta.error(
                "`message` inside a type stands on a field and knows `as = SomeType` (whose schema the field has)",
            ));
        }
        self.schema_as = Some(meta.value()?.parse()?);
        Ok(())
    }

    fn parse_serde(&mut self, meta: &ParseNestedMeta<'_>, place: Place) -> syn::Result<()> {
        let key = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        match (key.as_str(), place) {
            ("rename", _) => self.rename = Some(one_text(meta)?.value()),
            ("rename_all", Place::Container | Place::Variant) => self.rename_all = Some(rule(meta)?),
            ("rename_all_fields", Place::Container) => self.rename_all_fields = Some(rule(meta)?),
            ("default", Place::Container | Place::Field) => {
                self.default = true;
                ignore_value(meta)?;
            }
            ("skip", Place::Field) => self.skip = true,
            ("transparent", Place::Container) => self.transparent = true,
            ("alias" | "bound" | "expecting", _) => ignore_value(meta)?,
            ("deny_unknown_fields", Place::Container) | ("other", Place::Variant) => {}
            ("with" | "serialize_with" | "deserialize_with", Place::Field) => {
                ignore_value(meta)?;
                self.with = Some(meta.error(format!(
                    "`{key}` writes what no schema tells: add `#[message(as = SomeType)]` with the type that it writes"
                )));
            }
            (
                "skip_serializing_if"
                | "skip_serializing"
                | "skip_deserializing"
                | "flatten"
                | "tag"
                | "content"
                | "untagged",
                _,
            )
            | ("skip", Place::Variant) => {
                return Err(meta.error(format!("a message cannot use `{key}`: {COMPACT}")));
            }
            ("from" | "try_from" | "into" | "remote" | "with" | "getter", _) => {
                return Err(meta.error(format!(
                    "a message cannot use `{key}`, which writes what no schema tells: implement serde and `Schema` by hand"
                )));
            }
            ("crate", _) => return Err(meta.error("`#[message]` sets this itself: use `#[message(crate = \"..\")]`")),
            ("borrow", _) => return Err(meta.error("a message owns what it holds, since it crosses the wire")),
            _ => {
                return Err(
                    meta.error(format!("`#[message]` does not know `serde({key})` here and cannot tell its schema"))
                );
            }
        }
        Ok(())
    }
}

fn one_text(meta: &ParseNestedMeta<'_>) -> syn::Result<LitStr> {
    if meta.input.peek(syn::token::Paren) {
        return Err(meta.error("both sides of a wire use one name: write `rename = \"..\"`"));
    }
    meta.value()?.parse()
}

fn rule(meta: &ParseNestedMeta<'_>) -> syn::Result<Rule> {
    let text = one_text(meta)?;
    Rule::parse(&text.value()).ok_or_else(|| Error::new(text.span(), "serde knows no such rule"))
}

fn ignore_value(meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
    if meta.input.peek(Token![=]) {
        let _: syn::Expr = meta.value()?.parse()?;
    } else if meta.input.peek(syn::token::Paren) {
        let content;
        syn::parenthesized!(content in meta.input);
        let _: proc_macro2::TokenStream = content.parse()?;
    }
    Ok(())
}
