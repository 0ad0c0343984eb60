//! The runtime from both ends: a real server, a real channel, every transport.

mod calls;
mod support;
