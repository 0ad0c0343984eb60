//! The thread on which leases are renewed, with a connection of its own: neither a burst of work nor a handler that blocks the
//! application's runtime keeps a worker from renewing.

use punctual_task::{StoreError, StoreErrorKind};
use std::thread::JoinHandle;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// The thread, until it is dropped.
#[derive(Debug)]
pub(crate) struct LeaseThread {
    handle: Handle,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl LeaseThread {
    /// Starts it.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(crate) fn start() -> Result<Self, StoreError> {
        let refuse = |error: std::io::Error| {
            StoreError::new(StoreErrorKind::Unavailable, format!("leases need a thread of their own: {error}"))
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(refuse)?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        let body = move || {
            let _ = runtime.block_on(ended);
        };
        let thread = std::thread::Builder::new().name("punctual-pg-lease".to_owned()).spawn(body).map_err(refuse)?;
        Ok(LeaseThread { handle, end: Some(end), thread: Some(thread) })
    }

    /// Where its work is spawned.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for LeaseThread {
    fn drop(&mut self) {
        drop(self.end.take());
        // What it does last is a write to a socket or nothing, so this does not wait for long.
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}
