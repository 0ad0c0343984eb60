//! The durable services that the daemon ships with: HTTP requests and programs, usable without a line of Rust.

mod command;
mod http;

pub(crate) use command::CommandService;
pub(crate) use http::{AllowedHost, HttpService};
