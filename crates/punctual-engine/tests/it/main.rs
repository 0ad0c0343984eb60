//! The engine on the in-memory store: virtual time, a faulty store where it matters, no sleeps.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod calls;
mod cancel;
mod faults;
mod lease;
mod many;
mod run;
mod schedule;
mod shutdown;
mod suspects;
mod threads;
mod world;
