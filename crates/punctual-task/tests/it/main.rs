//! The crate's integration tests.

mod mem_store;
mod planner;
mod schedule;
