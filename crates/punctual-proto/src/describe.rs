//! What a server tells about itself when it is asked: the health of its services and, as plain data, their contracts.

mod health;

pub use health::HealthStatus;
