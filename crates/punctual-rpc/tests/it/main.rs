//! The runtime from both ends: a real server, a real channel, every transport; or one end and the test's own frames.

mod calls;
mod cancel;
mod limits;
mod scenarios;
mod support;
