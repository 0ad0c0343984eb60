//! The wire protocol of Punctual as state machines without I/O.

pub mod contract;
pub mod schema;
