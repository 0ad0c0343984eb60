//! The health of a server or of one of its services.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Whether calls are welcome. The number is its byte on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum HealthStatus {
    /// The server has no service of the name that was asked for.
    UnknownService = 0,
    /// Calls are welcome.
    Serving = 1,
    /// It is there, but calls would fail: starting, or a dependency is away.
    NotServing = 2,
    /// It finishes what it has and takes nothing new.
    Draining = 3,
}

impl HealthStatus {
    /// The state with this number.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Option<HealthStatus> {
        match byte {
            0 => Some(HealthStatus::UnknownService),
            1 => Some(HealthStatus::Serving),
            2 => Some(HealthStatus::NotServing),
            3 => Some(HealthStatus::Draining),
            _ => None,
        }
    }
}

impl fmt::Display for HealthStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HealthStatus::UnknownService => "unknown service",
            HealthStatus::Serving => "serving",
            HealthStatus::NotServing => "not serving",
            HealthStatus::Draining => "draining",
        })
    }
}
