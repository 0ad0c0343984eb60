//! The planner against a model that decides one slot at a time with all due slots before its eyes.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod backfills;
mod generate;
mod model;
mod properties;
