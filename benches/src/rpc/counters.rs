//! What a process tells of itself at the two ends of the measured part.

use crate::allocator;
use crate::rpc::service;
use serde::{Deserialize, Serialize};
use std::io::Write;

/// Totals since the process began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// 0 while allocations are not counted.
    pub allocations: u64,
    /// One-way calls taken.
    pub served: u64,
}

impl Counters {
    pub fn of_this_process() -> Self {
        Counters { allocations: allocator::calls(), served: service::served() }
    }

    /// What was added since `earlier`.
    pub fn since(self, earlier: Counters) -> Counters {
        Counters { allocations: self.allocations - earlier.allocations, served: self.served - earlier.served }
    }
}

/// One line to the parent, at once.
pub fn say(value: &impl Serialize) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(value)?)?;
    out.flush()?;
    Ok(())
}
