//! The workloads.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// One workload. Unary calls carry a timeout of 30 s where the column can express one, as users would have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Case {
    /// Two `i32` there, one back.
    #[value(name = "add")]
    Add,
    /// 256 bytes there and back.
    #[value(name = "echo-256")]
    Echo256,
}

impl Case {
    /// All of them, in the order of the table.
    pub const ALL: [Case; 2] = [Case::Add, Case::Echo256];

    /// The name on the command line and in the table.
    pub fn name(self) -> &'static str {
        match self {
            Case::Add => "add",
            Case::Echo256 => "echo-256",
        }
    }

    /// Payload bytes of one direction.
    pub fn bytes(self) -> usize {
        match self {
            Case::Add => 8,
            Case::Echo256 => 256,
        }
    }
}
