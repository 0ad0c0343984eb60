//! The SQLite store as its users see it.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod differential;
#[cfg(target_os = "linux")]
mod full_disk;
mod grouping;
mod kills;
mod leases;
mod many;
mod opening;
mod stand;
mod suite;
mod transactions;
mod unreadable;
mod upgrades;
