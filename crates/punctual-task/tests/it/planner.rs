//! The planner against a model that decides one slot at a time with all due slots before its eyes.

mod generate;
mod model;
mod properties;
