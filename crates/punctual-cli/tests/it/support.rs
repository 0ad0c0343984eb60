//! The binary, and daemons that end with the test.

mod binary;
mod daemon;

pub(crate) use binary::{Ran, Workspace, has_keys, lines_of, ran};
pub(crate) use daemon::Daemon;
