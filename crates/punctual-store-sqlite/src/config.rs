//! What can be set when a database is opened.

use crate::leases::{BootClock, SystemBoot};
use punctual_clock::{Clock, SystemClock};
use punctual_task::StoreError;
use std::sync::Arc;
use std::time::Duration;

/// How a database is opened. The defaults suit one service on one machine.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SqliteConfig {
    /// How long an operation waits for a lock that another process holds before it fails as
    /// [`Busy`](punctual_task::StoreErrorKind::Busy). 10 s by default, 1 ms to 10 minutes: a backup of a large database may
    /// hold it for seconds.
    pub wait: Duration,
    /// How many threads answer reads, each with a connection of its own; 1 to 16. 2 by default: reads are short, and the
    /// writer needs a core.
    pub readers: usize,
    /// How many operations may queue for the writer, and as many for the readers, before callers wait for room; 1 to 65,536. 1,024 by default.
    pub queue_max: usize,
    /// How long a group of writes may gather work before it commits; at most 1 s. 5 ms by default, about the cost of one or
    /// two commits, so that another process gets its turn. An operation that has begun is always finished.
    pub group_time: Duration,
    /// How many rows a group may change before it commits, from 1. 20,000 by default.
    pub group_rows: u64,
    /// Whether tables are brought up to this build's version. Otherwise a database that needs it is refused, and one that
    /// is new too. True by default.
    pub migrate: bool,
    /// The wall clock that decides what is due.
    pub clock: Arc<dyn Clock>,
    /// The boot clock that leases are measured with.
    pub boot: Arc<dyn BootClock>,
}

impl Default for SqliteConfig {
    fn default() -> Self {
        SqliteConfig {
            wait: Duration::from_secs(10),
            readers: 2,
            queue_max: 1024,
            group_time: Duration::from_millis(5),
            group_rows: 20_000,
            migrate: true,
            clock: Arc::new(SystemClock),
            boot: Arc::new(SystemBoot),
        }
    }
}

impl SqliteConfig {
    /// Checks every limit.
    ///
    /// # Errors
    /// Names the field, the limit and the value.
    pub fn validate(&self) -> Result<(), StoreError> {
        let refuse = |text: String| Err(StoreError::refused(text));
        if self.wait < Duration::from_millis(1) || self.wait > Duration::from_secs(600) {
            return refuse(format!("the wait {:?} is not 1 ms to 10 minutes", self.wait));
        }
        if self.readers == 0 || self.readers > 16 {
            return refuse(format!("{} readers are not 1 to 16", self.readers));
        }
        if self.queue_max == 0 || self.queue_max > 65_536 {
            return refuse(format!("queue_max {} is not 1 to 65,536", self.queue_max));
        }
        if self.group_time > Duration::from_secs(1) {
            return refuse(format!("group_time {:?} is more than 1 s", self.group_time));
        }
        if self.group_rows == 0 {
            return refuse("group_rows must be at least 1".to_owned());
        }
        Ok(())
    }
}
