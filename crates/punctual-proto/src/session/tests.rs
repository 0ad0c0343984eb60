//! Both halves of a session over a wire that delivers when the test says so.
//!
//! The wire is checked from outside, frame by frame, for what must never be on it; the calls are checked for one end each.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]
#![cfg_attr(not(test), expect(unused, reason = "a fuzz target uses a part of what the tests do"))]

pub(crate) mod hostile;
mod interleavings;
mod steps;
mod stream_world;
pub(crate) mod streams;
mod waits;
mod world;
