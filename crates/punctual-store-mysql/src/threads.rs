//! Threads of the store's own, each with a runtime for its connections.

use punctual_task::{StoreError, StoreErrorKind};
use std::thread;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// A thread that runs a store's operations until it is dropped.
#[derive(Debug)]
pub(crate) struct Thread {
    handle: Handle,
    _stop: oneshot::Sender<()>,
}

impl Thread {
    /// Starts a thread with a name that a debugger shows.
    pub(crate) fn start(name: &str) -> Result<Self, StoreError> {
        let failed = |error: std::io::Error| {
            StoreError::new(
                StoreErrorKind::Unavailable,
                format!("cannot start a thread for the database ({error}); raise the limits of threads and files"),
            )
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let body = move || {
            // Whether it is told to stop or its other end is gone: both are the end.
            let _ = runtime.block_on(stopped);
        };
        thread::Builder::new().name(name.to_owned()).spawn(body).map_err(failed)?;
        Ok(Thread { handle, _stop: stop })
    }

    /// Runs an operation to its end, also if the caller goes away.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        operation: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        match self.handle.spawn(operation).await {
            Ok(outcome) => outcome,
            Err(error) if error.is_panic() => Err(StoreError::new(
                StoreErrorKind::Bug,
                "an operation of the MySQL store panicked; please report it with what the log says",
            )),
            Err(_) => Err(StoreError::new(StoreErrorKind::Unavailable, "the database is closed; open it again")),
        }
    }

    /// Starts an operation that nobody waits for.
    pub(crate) fn spawn(&self, operation: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(operation);
    }
}
