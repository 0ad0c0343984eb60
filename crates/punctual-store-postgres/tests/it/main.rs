//! The PostgreSQL store as its users see it, on a real server: `cargo xtask test` starts one.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod cuts;
mod differential;
mod grouping;
mod kills;
mod many;
mod opening;
mod proxy;
mod stand;
mod suite;
mod tls;
mod transactions;
mod unreadable;
