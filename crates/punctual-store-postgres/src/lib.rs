//! The store of Punctual for many hosts: one schema of a PostgreSQL database, version 13 or newer.
//!
//! [`PostgresStore`] implements [`punctual_task::Store`]. Each operation is one transaction, of as few round trips as what it
//! must know allows: statements that do not wait for each other's answers go out together. Row locks decide between hosts, and
//! no host is special; isolation is *read committed*, and each statement that relies on a lock comes after it. The tables are in
//! `migrations/`, as plain SQL, and are brought up to date when a database is opened.
//!
//! What is due, and which lease has ended, is decided by the database's clock.

mod attempts;
mod cancels;
mod claims;
mod config;
mod connection;
mod counters;
mod definitions;
mod ends;
mod enqueue;
mod errors;
mod follow_ups;
mod group;
#[cfg(test)]
mod held;
mod holdings;
mod keys;
mod lease;
mod lists;
mod location;
mod migrations;
mod names;
mod packed;
#[cfg(test)]
mod plans;
mod pool;
mod progress;
mod queues;
mod ready;
mod retention;
mod schedules;
mod sequence;
mod session;
mod store;
mod tasks;
mod tls;
mod transaction;
mod workers;

pub use attempts::{FINISH_BYTES_MAX, FINISH_MAX};
pub use cancels::NAMED_TASKS_MAX;
pub use claims::CLAIM_MAX;
pub use config::PostgresConfig;
pub use counters::PostgresCounters;
pub use enqueue::{ENQUEUE_BYTES_MAX, ENQUEUE_TASKS_MAX};
pub use location::{Location, SCHEMA_DEFAULT};
pub use migrations::{Migration, Migrator, migrations, schema_version};
pub use retention::PRUNE_MAX;
pub use schedules::sweeps::{SWEEP_SCHEDULES_MAX, SWEEP_TASKS_MAX};
pub use sequence::DRAW_MAX;
pub use store::PostgresStore;
