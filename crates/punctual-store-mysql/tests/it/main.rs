//! The MySQL store as its users see it, on the MariaDB server that `PUNCTUAL_TEST_MARIADB` names.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod cuts;
mod differential;
mod grouping;
mod kills;
mod many;
mod opening;
mod races;
mod server;
mod stand;
mod suite;
mod tls;
mod transactions;
