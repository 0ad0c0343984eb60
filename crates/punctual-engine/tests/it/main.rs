//! The engine on the in-memory store, with virtual time and a store that fails where it matters; and on SQLite, over
//! restarts. No sleeps.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod calls;
mod cancel;
mod faults;
mod follow_ups;
mod lease;
mod many;
mod observed;
mod progress;
mod reported;
mod run;
mod schedule;
mod shutdown;
mod sqlite;
mod suspects;
mod threads;
mod within;
mod world;
