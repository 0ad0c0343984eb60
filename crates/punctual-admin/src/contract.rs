//! The contracts themselves, one a file.

pub(crate) mod admin;
pub(crate) mod command;
pub(crate) mod http;
