//! The embedded store of Punctual: one SQLite file, opened by one or a few processes of one machine.
//!
//! [`SqliteStore`] implements [`punctual_task::Store`]. One thread owns the one writing connection and commits the work of
//! many callers at once (`writer`); a few threads answer reads from connections of their own (`reader`). Every
//! acknowledged write has reached the disk: the log is synced at each commit. The tables are in `migrations/`, as plain
//! SQL, and are brought up to date when a database is opened.
//!
//! What is due is decided by the wall clock; leases are measured with the machine's boot clock ([`BootClock`]).

mod attempts;
mod cancels;
mod claims;
mod config;
mod connection;
mod counters;
mod definitions;
mod ends;
mod errors;
mod holdings;
mod keys;
mod leases;
mod lists;
mod location;
mod migrations;
mod names;
mod packed;
#[cfg(test)]
mod plans;
mod progress;
mod queues;
mod reader;
mod retention;
mod schedules;
mod sequence;
mod session;
mod store;
mod tasks;
mod transaction;
mod workers;
mod writer;

pub use attempts::FINISH_MAX;
pub use cancels::NAMED_TASKS_MAX;
pub use claims::CLAIM_MAX;
pub use config::SqliteConfig;
pub use counters::SqliteCounters;
pub use leases::{BootClock, MonotonicBoot, SystemBoot};
pub use location::Location;
pub use migrations::{Migration, Migrator, migrations, schema_version};
pub use retention::PRUNE_MAX;
pub use schedules::sweeps::{SWEEP_SCHEDULES_MAX, SWEEP_TASKS_MAX};
pub use store::SqliteStore;
pub use tasks::{ENQUEUE_BYTES_MAX, ENQUEUE_TASKS_MAX};
pub use transaction::SqliteTransaction;
