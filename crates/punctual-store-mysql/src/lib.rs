//! The store of Punctual on MariaDB and MySQL: many processes on one server.
//!
//! [`MysqlStore`] implements [`punctual_task::Store`] on MariaDB 10.6 or MySQL 8.0.1, or anything newer. It is tested on
//! MariaDB 10.11; MySQL is supported by its documentation only. The tables are in `migrations/`, as plain SQL, and are
//! brought up to date when a database is opened.
//!
//! Every transaction is a few packets of many statements (`script`), at READ COMMITTED, and takes its locks by exact keys or
//! passes over locked rows; where two meet all the same, one of them is run again (`shared`). The server's clock decides what
//! is due and which lease has ended.

mod address;
mod answers;
mod attempts;
mod cancels;
mod claims;
mod config;
mod connection;
mod counters;
mod definitions;
mod ends;
mod errors;
mod follow_ups;
mod groups;
#[cfg(test)]
mod held;
mod holdings;
mod ids;
mod keys;
mod lists;
mod migrations;
mod moment;
mod names;
mod packed;
#[cfg(test)]
mod plans;
mod progress;
mod queues;
mod ready;
mod redrives;
mod rescues;
mod retention;
mod schedules;
mod script;
mod shared;
mod store;
mod tasks;
mod threads;
mod transaction;
mod workers;

pub use attempts::FINISH_MAX;
pub use cancels::NAMED_TASKS_MAX;
pub use claims::CLAIM_MAX;
pub use config::MysqlConfig;
pub use counters::MysqlCounters;
pub use migrations::{Migration, Migrator, migrations, schema_version};
pub use retention::PRUNE_MAX;
pub use schedules::sweeps::{SWEEP_SCHEDULES_MAX, SWEEP_TASKS_MAX};
pub use store::MysqlStore;
pub use tasks::{ENQUEUE_BYTES_MAX, ENQUEUE_TASKS_MAX};
