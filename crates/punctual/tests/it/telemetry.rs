//! What can be seen of calls from outside, and what must not be.

mod capture;
mod desk;
mod metrics;
mod observed;
mod secrets;
mod spans;
#[cfg(feature = "engine")]
mod tasks;
mod traces;
