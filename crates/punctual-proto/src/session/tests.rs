//! Both halves of a session over a wire that delivers when the test says so.
//!
//! The wire is checked from outside, frame by frame, for what must never be on it; the calls are checked for one end each.

mod hostile;
mod interleavings;
mod steps;
mod stream_world;
mod streams;
mod waits;
mod world;
