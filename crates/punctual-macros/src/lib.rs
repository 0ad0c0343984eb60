//! The attributes of Punctual: service and message.
//!
//! Each is a pure function from tokens to tokens, in three steps: parse (syn to a model, collecting every error at its
//! span), model (plain data), expand (model to tokens that call ordinary functions of the `punctual` crate). What the
//! attributes mean to a user is written on their re-exports in `punctual`.

mod docs;
mod errors;
mod message;
mod names;
mod service;

use proc_macro::TokenStream;

/// Turns a trait into a contract: a client, a server wrapper, one request structure a method, and a descriptor.
#[proc_macro_attribute]
pub fn service(arguments: TokenStream, item: TokenStream) -> TokenStream {
    service::service(arguments.into(), item.into()).into()
}

/// Gives a type its wire form: serde and a schema.
#[proc_macro_attribute]
pub fn message(arguments: TokenStream, item: TokenStream) -> TokenStream {
    message::message(arguments.into(), item.into()).into()
}
