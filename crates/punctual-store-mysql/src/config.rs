//! What can be set when a database is opened.

use punctual_clock::Clock;
use punctual_task::StoreError;
use std::sync::Arc;
use std::time::Duration;

/// How a database is opened. The defaults suit one process of many on one server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MysqlConfig {
    /// How long an operation goes on trying while other transactions are in its way, or while it is not known whether its
    /// commit arrived, before it fails as [`Busy`](punctual_task::StoreErrorKind::Busy) or
    /// [`Unavailable`](punctual_task::StoreErrorKind::Unavailable). 10 s by default, 1 s to 10 minutes.
    pub wait: Duration,
    /// How long the server may take to answer before the connection is given up. 30 s by default, 1 s to an hour; a
    /// lease's renewal waits 5 s at most.
    pub answer: Duration,
    /// How many connections write at once beside the one that claims, the one that finishes and the one that renews; 1 to
    /// 64. 4 by default.
    pub writers: usize,
    /// How many connections read at once; 1 to 64. 2 by default.
    pub readers: usize,
    /// How many operations may wait for a connection before further ones are refused as busy, 1 to 65,536. 1,024 by default.
    pub queue_max: usize,
    /// Whether tables are brought up to this build's version. Otherwise a database that needs it is refused, and one that
    /// is new too. True by default.
    pub migrate: bool,
    /// A clock that stands for the database's own, for tests and simulations: its wall clock decides what is due, its
    /// monotonic one which lease has ended. All stores on one database must agree on it. `None` by default: the
    /// server's clock decides.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Default for MysqlConfig {
    fn default() -> Self {
        MysqlConfig {
            wait: Duration::from_secs(10),
            answer: Duration::from_secs(30),
            writers: 4,
            readers: 2,
            queue_max: 1024,
            migrate: true,
            clock: None,
        }
    }
}

impl MysqlConfig {
    /// Checks every limit.
    ///
    /// # Errors
    /// Names the field, the limit and the value.
    pub fn validate(&self) -> Result<(), StoreError> {
        let refuse = |text: String| Err(StoreError::refused(text));
        if self.wait < Duration::from_secs(1) || self.wait > Duration::from_secs(600) {
            return refuse(format!("the wait {:?} is not 1 s to 10 minutes", self.wait));
        }
        if self.answer < Duration::from_secs(1) || self.answer > Duration::from_secs(3600) {
            return refuse(format!("the answer {:?} is not 1 s to an hour", self.answer));
        }
        if self.writers == 0 || self.writers > 64 {
            return refuse(format!("{} writers are not 1 to 64", self.writers));
        }
        if self.readers == 0 || self.readers > 64 {
            return refuse(format!("{} readers are not 1 to 64", self.readers));
        }
        if self.queue_max == 0 || self.queue_max > 65_536 {
            return refuse(format!("queue_max {} is not 1 to 65,536", self.queue_max));
        }
        Ok(())
    }
}
