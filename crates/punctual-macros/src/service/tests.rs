//! What a contract expands to, and what is refused.

use super::service;
use proc_macro2::TokenStream;
use quote::quote;

fn expanded(arguments: TokenStream, item: TokenStream) -> String {
    let tokens = service(arguments, item);
    prettyplease::unparse(&syn::parse2(tokens).expect("the expansion parses"))
}

/// Whether `text` holds `part`, however the printer breaks its lines.
#[track_caller]
fn assert_holds(text: &str, part: &str) {
    let squeezed = |text: &str| text.split_whitespace().collect::<String>().replace(",)", ")").replace(",>", ">");
    assert!(squeezed(text).contains(&squeezed(part)), "{part}\n is not in\n{text}");
}

/// The messages of the errors in an expansion; fails unless the trait is still there.
fn errors(item: TokenStream) -> Vec<String> {
    errors_of(TokenStream::new(), item)
}

fn errors_of(arguments: TokenStream, item: TokenStream) -> Vec<String> {
    let text = service(arguments, item).to_string();
    assert!(text.contains("trait"), "the trait is still emitted: {text}");
    assert!(!text.contains("# [rpc"), "`rpc` means nothing to the compiler: {text}");
    let parts = text.split("compile_error ! { \"").skip(1);
    parts.map(|part| part.split("\" }").next().unwrap_or_default().replace("\\\"", "\"")).collect()
}

/// What a contract becomes, in full: the text that users read when they expand it. It calls ordinary functions and decides
/// nothing.
#[test]
fn expansion_of_a_contract() {
    let text = expanded(
        TokenStream::new(),
        quote! {
            /// Money.
            pub trait Billing {
                /// Retried by itself.
                #[rpc(idempotent, timeout = "2s")]
                async fn quote(&self, order: u64) -> Result<u64, BillingError>;

                /// Now or later.
                #[rpc(durable, queue = "payments", attempts = 8, backoff = "exponential(1s, 10m)", priority = 0)]
                async fn charge(
                    &self,
                    order: u64,
                    /// In cents.
                    #[serde(default)]
                    cents: u64,
                ) -> Result<Receipt, BillingError>;

                #[rpc(oneway)]
                async fn seen(&self, page: String);

                async fn upload(&self, data: Bytes) -> Result<(), Status>;
            }
        },
    );
    insta::assert_snapshot!(text);
}

/// The same for methods with streams.
#[test]
fn expansion_of_streams() {
    let text = expanded(
        TokenStream::new(),
        quote! {
            pub trait Feed {
                async fn upload(&self, name: String, parts: Streaming<Bytes>) -> Result<u64, Status>;
                async fn prices(&self, since: u64) -> Result<Streaming<Price, FeedError>, FeedError>;
                async fn chat(&self, lines: Streaming<Line>, marks: Streaming<u64>) -> Result<Streaming<Line>, Status>;
                #[rpc(oneway)]
                async fn log(&self, lines: Streaming<String>);
                #[rpc(detached)]
                async fn settle(&self) -> Result<(), Status>;
            }
        },
    );
    insta::assert_snapshot!(text);
}

/// A conditional method leaves the others at their places, whichever way the condition falls.
#[test]
fn conditional_methods_move_the_others() {
    let text = expanded(
        TokenStream::new(),
        quote! {
            trait Api {
                #[cfg(feature = "a")]
                #[cfg(unix)]
                async fn first(&self) -> Result<(), Status>;
                async fn second(&self) -> Result<(), Status>;
                #[cfg(feature = "b")]
                async fn third(&self) -> Result<(), Status>;
                async fn fourth(&self) -> Result<(), Status>;
            }
        },
    );
    assert_holds(
        &text,
        r#"1 + ::core::cfg!(all(feature = "a", unix)) as usize + ::core::cfg!(feature = "b") as usize"#,
    );
    assert_eq!(text.matches(r#"#[cfg(feature = "a")]"#).count(), 7, "{text}");
}

/// Where a handler runs is said to the call that is dispatched, whatever its shape, and to nobody else.
#[test]
fn places_of_handlers() {
    let text = expanded(
        TokenStream::new(),
        quote! {
            trait Api {
                #[rpc(inline)]
                async fn first(&self) -> Result<(), Status>;
                #[rpc(inline, oneway)]
                async fn second(&self);
                #[rpc(blocking)]
                async fn third(&self, lines: Streaming<u8>) -> Result<Streaming<u8>, Status>;
            }
        },
    );
    assert_holds(&text, "call.inline().unary(move |");
    assert_holds(&text, "call.inline().oneway(move |");
    assert_holds(&text, "call.blocking().returned_stream(move |");
    assert_eq!(text.matches(".inline()").count() + text.matches(".blocking()").count(), 3, "{text}");
}

/// A type that is named like a request, and relative paths, mean in the module what they mean at the trait.
#[test]
fn types_keep_their_meaning_inside_the_module() {
    let text = expanded(
        TokenStream::new(),
        quote! {
            trait Api {
                async fn receipt(&self, at: super::Place, of: Vec<self::Thing>) -> Result<Receipt, crate::Bad>;
            }
        },
    );
    assert_holds(&text, "pub(super) at: super::super::Place");
    assert_holds(&text, "pub(super) of: Vec<super::Thing>");
    assert_holds(&text, "<super::Receipt as ::punctual::__private::Schema>::TYPE, <crate::Bad as");
}

/// A request is as visible as its contract, said from one level deeper: its results may be no more visible than that.
#[test]
fn requests_are_as_visible_as_their_contract() {
    for (visibility, inside) in [
        (quote! {}, "pub(super)"),
        (quote! { pub }, "pub"),
        (quote! { pub(crate) }, "pub(crate)"),
        (quote! { pub(self) }, "pub(super)"),
        (quote! { pub(super) }, "pub(in super::super)"),
        (quote! { pub(in super::super) }, "pub(in super::super::super)"),
        (quote! { pub(in crate::a) }, "pub(in crate::a)"),
    ] {
        let item = quote! { #visibility trait Api { async fn f(&self, a: u8) -> Result<(), E>; } };
        let text = expanded(TokenStream::new(), item);
        for item in ["struct F", "a: u8", "static DESCRIPTOR"] {
            assert_holds(&text, &format!("{inside} {item}"));
        }
    }
}

/// The name on the wire and the path of the crate can be set.
#[test]
fn arguments_of_the_attribute() {
    let text = expanded(
        quote! { name = "acme.Api", crate = "crate::reexport" },
        quote! { trait Api { async fn ping(&self) -> Result<(), E>; } },
    );
    assert_holds(&text, r#""acme.Api/ping""#);
    assert!(!text.contains("::punctual"), "{text}");
    assert_holds(&text, r#"#[crate::reexport::message(crate = "crate::reexport")]"#);
    let refused = errors_of(quote! { name = "a/b" }, quote! { trait Api {} });
    assert_eq!(refused, ["a service's name is made of letters, digits, `_`, `-` and `.`"]);
    let refused = errors_of(quote! { version = 2 }, quote! { trait Api {} });
    assert!(refused[0].starts_with("`service` knows"), "{refused:?}");
}

/// One mistake a line: the message names it and what to write instead. The spans are in the compile-fail tests.
#[test]
fn refusals_name_what_to_do() {
    #[rustfmt::skip]
    let cases: Vec<(TokenStream, &str)> = vec![
        (quote! { fn f(&self) -> Result<(), E>; }, "is `async`"),
        (quote! { async fn f() -> Result<(), E>; }, "begins with `&self`"),
        (quote! { async fn f(a: u8) -> Result<(), E>; }, "begins with `&self`"),
        (quote! { async fn f(self) -> Result<(), E>; }, "begins with `&self`"),
        (quote! { async fn f(self: Arc<Self>) -> Result<(), E>; }, "begins with `&self`"),
        (quote! { async fn f(&mut self) -> Result<(), E>; }, "keep what changes in a lock"),
        (quote! { async fn f(&'static self) -> Result<(), E>; }, "names no lifetimes"),
        (quote! { async fn f(&self); }, "#[rpc(oneway)]"),
        (quote! { async fn f(&self) -> u64; }, "returns `Result<T, E>`"),
        (quote! { async fn f(&self) -> (); }, "returns `Result<T, E>`"),
        (quote! { async fn f(&self) -> Receipt; }, "whose name ends in `Result`"),
        (quote! { async fn f<T>(&self, a: T) -> Result<(), E>; }, "cannot be generic"),
        (quote! { async fn f<'a>(&self) -> Result<(), E>; }, "cannot be generic"),
        (quote! { async fn f(&self) -> Result<(), E> where u8: Copy; }, "no `where` clause"),
        (quote! { async fn f(&self, a: &str) -> Result<(), E>; }, "use `String`"),
        (quote! { async fn f(&self, a: &[u8]) -> Result<(), E>; }, "use `Bytes`"),
        (quote! { async fn f(&self, a: Option<&[u64]>) -> Result<(), E>; }, "use `Vec`"),
        (quote! { async fn f(&self) -> Result<&'static str, E>; }, "use `String`"),
        (quote! { async fn f(&self, (a, b): (u8, u8)) -> Result<(), E>; }, "plain name"),
        (quote! { async fn f(&self, _: u8) -> Result<(), E>; }, "plain name"),
        (quote! { async fn f(&self, mut a: u8) -> Result<(), E>; }, "belongs into the implementation"),
        (quote! { async fn f(&self, #[cfg(x)] a: u8) -> Result<(), E>; }, "may carry a doc comment"),
        (quote! { async fn f(&self, a: impl Into<u8>) -> Result<(), E>; }, "instead of `impl Trait`"),
        (quote! { async fn f(&self, a: Box<dyn Any>) -> Result<(), E>; }, "instead of `dyn Trait`"),
        (quote! { async fn f(&self, a: *const u8) -> Result<(), E>; }, "a pointer cannot cross"),
        (quote! { async fn f(&self, a: fn()) -> Result<(), E>; }, "a function cannot cross"),
        (quote! { async fn f(&self) -> Result<Self, E>; }, "`Self` is another type"),
        (quote! { async fn f(&self, a: Vec<Streaming<u8>>) -> Result<(), E>; }, "inside of another type"),
        (quote! { async fn f(&self, a: Streaming<Streaming<u8>>) -> Result<(), E>; }, "inside of another type"),
        (quote! { async fn f(&self) -> Result<Option<Streaming<u8>>, E>; }, "inside of another type"),
        (quote! { async fn f(&self) -> Result<(), Streaming<u8>>; }, "inside of another type"),
        (quote! { async fn f(&self, a: Streaming<&str>) -> Result<(), E>; }, "a reference cannot cross"),
        (quote! { async fn f(&self, #[serde(default)] a: Streaming<u8>) -> Result<(), E>; }, "no field of the request"),
        (quote! { async fn f(&self) -> Result<impl Stream<Item = u8>, E>; }, "name the stream's type"),
        (quote! { #[rpc(durable)] async fn f(&self, a: Streaming<u8>) -> Result<(), E>; }, "a stream cannot be"),
        (quote! { #[rpc(durable)] async fn f(&self) -> Result<Streaming<u8>, E>; }, "a stream cannot be"),
        (quote! { #[rpc(idempotent)] async fn f(&self, a: Streaming<u8>) -> Result<(), E>; }, "made twice"),
        (quote! { #[rpc(detached)] async fn f(&self) -> Result<Streaming<u8>, E>; }, "nobody takes"),
        (quote! { async fn f(&self) -> Result<(), E> { Ok(()) } }, "no default bodies"),
        (quote! { async unsafe fn f(&self) -> Result<(), E>; }, "cannot be `unsafe`"),
        (quote! { type T; }, "methods only"),
        (quote! { const N: u8; }, "methods only"),
        (quote! { async fn connect(&self) -> Result<(), E>; }, "a `connect` of its own"),
        (quote! { async fn string(&self) -> Result<(), E>; }, "hide the standard type"),
        (quote! { async fn self_(&self) -> Result<(), E>; }, "which is no name"),
        (quote! { async fn f(&self) -> Result<(), E>; async fn f(&self) -> Result<(), E>; }, "declared twice"),
        (quote! { async fn f_a(&self) -> Result<(), E>; async fn f_A(&self) -> Result<(), E>; }, "both be named `FA`"),
        (quote! { #[rpc(onway)] async fn f(&self) -> Result<(), E>; }, "`rpc` knows `oneway`, `idempotent`"),
        (quote! { #[rpc(oneway)] async fn f(&self) -> Result<(), E>; }, "has no reply"),
        (quote! { #[rpc(oneway, idempotent)] async fn f(&self); }, "never retried"),
        (quote! { #[rpc(oneway, durable)] async fn f(&self); }, "return `Result<(), E>`"),
        (quote! { #[rpc(queue = "q")] async fn f(&self) -> Result<(), E>; }, "add `durable`"),
        (quote! { #[rpc(attempts = 2)] async fn f(&self) -> Result<(), E>; }, "add `durable`"),
        (quote! { #[rpc(durable, attempts = 0)] async fn f(&self) -> Result<(), E>; }, "from 1 (no retry) to 1000"),
        (quote! { #[rpc(durable, priority = 4)] async fn f(&self) -> Result<(), E>; }, "a level from 0"),
        (quote! { #[rpc(durable, queue = "")] async fn f(&self) -> Result<(), E>; }, "1 to 200 bytes"),
        (quote! { #[rpc(durable, backoff = "1s")] async fn f(&self) -> Result<(), E>; }, "is not a backoff"),
        (quote! { #[rpc(timeout = "soon")] async fn f(&self) -> Result<(), E>; }, "is not a duration"),
        (quote! { #[rpc(timeout = 2)] async fn f(&self) -> Result<(), E>; }, "takes a text"),
        (quote! { #[rpc(timeout)] async fn f(&self) -> Result<(), E>; }, "takes a text"),
        (quote! { #[rpc(idempotent, idempotent)] async fn f(&self) -> Result<(), E>; }, "given twice"),
        (quote! { #[rpc(inline, blocking)] async fn f(&self) -> Result<(), E>; }, "keep one of them"),
        (quote! { #[rpc(durable, blocking)] async fn f(&self) -> Result<(), E>; }, "`tokio::task::spawn_blocking`"),
        (quote! { #[rpc(inline)] async fn f(&self, a: Streaming<u8>) -> Result<(), E>; }, "drop `inline`"),
        (quote! { #[rpc(inline)] async fn f(&self) -> Result<Streaming<u8>, E>; }, "drop `inline`"),
        (quote! { #[rpc(blocking, blocking)] async fn f(&self) -> Result<(), E>; }, "given twice"),
        (quote! { #[cfg_attr(x, rpc(oneway))] async fn f(&self) -> Result<(), E>; }, "behind `cfg_attr`"),
    ];
    for (method, expected) in cases {
        let found = errors(quote! { trait Api { #method } });
        assert!(
            found.len() == 1 && found[0].contains(expected),
            "{method}\n  expected {expected:?}\n  found {found:#?}"
        );
    }
}

/// Every mistake of a contract is reported in one go.
#[test]
fn all_mistakes_at_once() {
    let found = errors(quote! {
        trait Api<T> {
            fn f(self, (a, b): (u8, u8)) -> &str;
            #[rpc(nothing)]
            async fn g(&self);
        }
    });
    assert_eq!(found.len(), 7, "{found:#?}");
}

/// On anything but a trait the item stays and the error says where the attribute belongs.
#[test]
fn only_on_traits() {
    let text = service(TokenStream::new(), quote! { struct Api; }).to_string();
    assert!(text.contains("#[service] belongs on a trait") && text.contains("struct Api ;"), "{text}");
}
