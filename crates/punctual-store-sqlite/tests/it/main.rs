//! The SQLite store as its users see it.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod differential;
mod grouping;
mod kills;
mod leases;
mod opening;
mod stand;
mod suite;
mod unreadable;
