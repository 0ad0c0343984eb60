//! How long ended tasks are kept.

use std::time::Duration;

/// How long ended tasks are kept, by how they ended. `None` means for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Succeeded, cancelled and expired tasks.
    pub ended: Option<Duration>,
    /// Failed tasks.
    pub failed: Option<Duration>,
}

impl Default for Retention {
    /// A week for what ended well, thirty days for dead letters.
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        Retention { ended: Some(DAY.saturating_mul(7)), failed: Some(DAY.saturating_mul(30)) }
    }
}

/// What a pruning did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Tasks removed.
    pub tasks: u32,
    /// Whether the limit was reached: there may be more.
    pub more: bool,
}
