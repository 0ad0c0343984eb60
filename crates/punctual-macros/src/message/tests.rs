//! What a message expands to, and what is refused.

use super::message;
use super::rename::Rule;
use proc_macro2::TokenStream;
use quote::quote;

fn expanded(item: TokenStream) -> String {
    prettyplease::unparse(&syn::parse2(message(TokenStream::new(), item)).expect("the expansion parses"))
}

/// What a message becomes, in full, with every attribute that the schema follows.
#[test]
fn expansion_of_messages() {
    let structure = expanded(quote! {
        /// A receipt.
        #[derive(Debug)]
        #[serde(rename_all = "camelCase")]
        pub struct Receipt<T> {
            /// Its number.
            pub order_id: u64,
            #[serde(rename = "c")]
            pub cents: u64,
            #[serde(default)]
            pub tags: Vec<T>,
            pub note: Option<String>,
            #[serde(skip)]
            pub cached: u8,
            #[message(as = String)]
            #[serde(with = "their_id")]
            pub their_id: Uuid,
        }
    });
    let enumeration = expanded(quote! {
        #[serde(rename_all = "snake_case")]
        enum Event {
            Started,
            #[cfg(unix)]
            Signalled(i32),
            Moved(u8, u8),
            #[serde(rename = "end", rename_all = "UPPERCASE")]
            Ended { exit_code: u8 },
        }
    });
    insta::assert_snapshot!(format!("{structure}\n{enumeration}"));
}

/// What serves only some codecs, or what no schema can tell, is refused with the reason.
#[test]
fn refusals_name_what_to_do() {
    #[rustfmt::skip]
    let cases: Vec<(TokenStream, &str)> = vec![
        (quote! { struct A<'a> { a: &'a str } }, "owns what it holds"),
        (quote! { union A { a: u8 } }, "use an enum"),
        (quote! { #[derive(Debug, Serialize)] struct A; }, "derives `Serialize` itself"),
        (quote! { #[derive(serde::Deserialize)] struct A; }, "derives `Deserialize` itself"),
        (quote! { #[serde(untagged)] enum A { B } }, "the compact codec carries no names"),
        (quote! { #[serde(tag = "t")] enum A { B } }, "the compact codec carries no names"),
        (quote! { struct A { #[serde(flatten)] a: B } }, "the compact codec carries no names"),
        (quote! { struct A { #[serde(skip_serializing_if = "no")] a: u8 } }, "the compact codec carries no names"),
        (quote! { enum A { #[serde(skip)] B } }, "the compact codec carries no names"),
        (quote! { struct A { #[serde(with = "x")] a: u8 } }, "add `#[message(as = SomeType)]`"),
        (quote! { #[serde(from = "B")] struct A { a: u8 } }, "implement serde and `Schema` by hand"),
        (quote! { #[serde(rename_all = "nO")] struct A { a: u8 } }, "no such rule"),
        (quote! { struct A { #[serde(rename(serialize = "b"))] a: u8 } }, "one name"),
        (quote! { struct A { #[message(like = u8)] a: u8 } }, "knows `as = SomeType`"),
        (quote! { struct A { #[serde(novel)] a: u8 } }, "does not know `serde(novel)`"),
        (quote! { #[serde(crate = "x")] struct A; }, "sets this itself"),
        (quote! { struct A(#[cfg(x)] u8, u8); }, "cannot be conditional"),
        (quote! { struct A { #[cfg_attr(x, serde(rename = "b"))] a: u8 } }, "behind `cfg_attr`"),
    ];
    for (item, expected) in cases {
        let text = message(TokenStream::new(), item.clone()).to_string();
        assert_eq!(text.matches("compile_error").count(), 1, "{text}");
        assert!(text.contains(expected), "{item}\n  expected {expected:?}\n  found {text}");
    }
}

/// Names in the schema follow serde's own rules letter for letter, its odd ones included.
#[test]
fn renaming_follows_serde() {
    #[rustfmt::skip]
    let cases = [
        ("lowercase", "order_id", "httperror"), ("UPPERCASE", "ORDER_ID", "HTTPERROR"),
        ("PascalCase", "OrderId", "HttpError"), ("camelCase", "orderId", "httpError"),
        ("snake_case", "order_id", "http_error"), ("SCREAMING_SNAKE_CASE", "ORDER_ID", "HTTP_ERROR"),
        ("kebab-case", "order-id", "http-error"), ("SCREAMING-KEBAB-CASE", "ORDER-ID", "HTTP-ERROR"),
    ];
    for (text, field, variant) in cases {
        let rule = Rule::parse(text).unwrap();
        assert_eq!((rule.field("order_id"), rule.variant("HttpError")), (field.to_owned(), variant.to_owned()));
    }
    assert_eq!(Rule::Snake.variant("HTTPError"), "h_t_t_p_error");
    assert_eq!(Rule::parse("snake"), None);
}
