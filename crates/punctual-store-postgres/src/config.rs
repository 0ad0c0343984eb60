//! What can be set when a database is opened.

use punctual_clock::Clock;
use punctual_task::StoreError;
use std::sync::Arc;
use std::time::Duration;

/// How a database is opened. The defaults suit one of several hosts of a service.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PostgresConfig {
    /// How many connections do the work, 1 to 64; 8 by default. One more is for leases alone, so that no burst of work keeps a
    /// worker from renewing its lease.
    pub connections: usize,
    /// How long a statement may run before the server ends it; 1 s to 10 minutes, 30 s by default.
    pub statement_timeout: Duration,
    /// How long a statement waits for a lock, and an operation for a free connection or for room to wait, before it fails as
    /// [`Busy`](punctual_task::StoreErrorKind::Busy); 10 ms to 10 minutes, 10 s by default.
    pub lock_timeout: Duration,
    /// Whether tables are brought up to this build's version. Otherwise a database that needs it is refused, and one that
    /// is new too. True by default.
    pub migrate: bool,
    /// Stands for the database's clock, which decides what is due and which lease has ended. `None` by default; for tests
    /// and simulations that own all time.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Default for PostgresConfig {
    fn default() -> Self {
        PostgresConfig {
            connections: 8,
            statement_timeout: Duration::from_secs(30),
            lock_timeout: Duration::from_secs(10),
            migrate: true,
            clock: None,
        }
    }
}

impl PostgresConfig {
    /// Checks every limit.
    ///
    /// # Errors
    /// Names the field, the limit and the value.
    pub fn validate(&self) -> Result<(), StoreError> {
        let refuse = |text: String| Err(StoreError::refused(text));
        if self.connections == 0 || self.connections > 64 {
            return refuse(format!("{} connections are not 1 to 64", self.connections));
        }
        if self.statement_timeout < Duration::from_secs(1) || self.statement_timeout > Duration::from_secs(600) {
            return refuse(format!("statement_timeout {:?} is not 1 s to 10 minutes", self.statement_timeout));
        }
        if self.lock_timeout < Duration::from_millis(10) || self.lock_timeout > Duration::from_secs(600) {
            return refuse(format!("lock_timeout {:?} is not 10 ms to 10 minutes", self.lock_timeout));
        }
        Ok(())
    }
}
