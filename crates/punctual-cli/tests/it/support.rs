//! The binary, and daemons that end with the test.

mod binary;
mod daemon;
mod raw;
mod web;

pub(crate) use binary::{Ran, Workspace, has_keys, lines_of, ran};
pub(crate) use daemon::Daemon;
pub(crate) use raw::{GOAWAY, PING, Raw};
pub(crate) use web::{Answered, Web};
