//! The context itself: a small value that moves in and out of a thread-local around each poll of a handler.

use crate::scope::CURRENT;
use crate::{CancelReason, Host, Identity, Metadata, MetadataError, Peer, Scoped, TaskScope, TraceContext};
use punctual_clock::Instant;
use std::any::Any;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

/// What a running handler may know about the call or task that it serves.
///
/// Cloning is cheap (reference counts). A clone may outlive the handler; its budget and cancellation stay true.
#[derive(Clone)]
pub struct Context {
    deadline: Instant,
    metadata: Metadata,
    host: Arc<dyn Host>,
    key: u64,
    task: Option<Arc<TaskScope>>,
}

impl Context {
    /// A context for a runtime to hand to a handler. `key` names the call or attempt to its `host`;
    /// `deadline` is [`Instant::FAR`] where there is none.
    #[must_use]
    pub fn new(host: Arc<dyn Host>, key: u64, deadline: Instant) -> Self {
        Context { deadline, metadata: Metadata::default(), host, key, task: None }
    }

    /// The same with metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// The same for a durable attempt.
    #[must_use]
    pub fn with_task(mut self, task: Arc<TaskScope>) -> Self {
        self.task = Some(task);
        self
    }

    /// The context of the handler that this code runs in, or `None` outside of any.
    ///
    /// It follows the handler's own future. A task that the handler spawns has none unless it is wrapped with
    /// [`Context::scope`].
    #[must_use]
    pub fn current() -> Option<Context> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// The deadline of the handler that this code runs in, or `None` without a handler or without a deadline.
    /// Cheaper than [`Context::current`]: it clones nothing.
    #[must_use]
    pub fn current_deadline() -> Option<Instant> {
        CURRENT.with_borrow(|current| current.as_ref().and_then(Context::deadline))
    }

    /// The trace that the caller of the handler that this code runs in sent along, or `None` without a handler or a trace
    /// that keeps the grammar.
    #[must_use]
    pub fn current_trace() -> Option<TraceContext> {
        CURRENT.with_borrow(|current| TraceContext::from_metadata(&current.as_ref()?.metadata))
    }

    /// Runs `future` with this context as the ambient one.
    pub fn scope<F: Future>(self, future: F) -> Scoped<F> {
        Scoped::new(self, future)
    }

    /// The instant at which the budget ends, on the host's monotonic clock.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        (self.deadline != Instant::FAR).then_some(self.deadline)
    }

    /// What is left of the budget now; zero once it has ended, `None` where there is no deadline.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.deadline().map(|deadline| deadline.since(self.host.clock().now()))
    }

    /// The caller's metadata.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Sends an entry along with the reply: the result, the error, or the opening of the returned stream, whichever it
    /// becomes. The caller reads it as the response's metadata. Entries keep their order, and names may repeat.
    ///
    /// # Errors
    /// Where the entry is not one, all of them would be over the connection's metadata limit, or there is no reply that it
    /// could go with: the call is one-way, was answered or is over, or this is a durable task.
    pub fn respond_with(&self, name: &str, value: impl AsRef<[u8]>) -> Result<(), MetadataError> {
        self.host.respond_with(self.key, name, value.as_ref())
    }

    /// The other end of the connection, or `None` for a durable task.
    #[must_use]
    pub fn peer(&self) -> Option<&Peer> {
        self.host.peer()
    }

    /// Who the caller is, where the server asks. `None` for a durable task.
    #[must_use]
    pub fn identity(&self) -> Option<&Identity> {
        self.peer()?.identity.as_ref()
    }

    /// The durable attempt, or `None` for a plain call.
    #[must_use]
    pub fn task(&self) -> Option<&TaskScope> {
        self.task.as_deref()
    }

    /// The runtime's own host with the key that it gave, or `None` where the host is of another kind. For the runtime that made
    /// this context: what more it can do for a handler, it offers itself.
    #[must_use]
    pub fn host_as<H: Host>(&self) -> Option<(Arc<H>, u64)> {
        let host: Arc<dyn Any + Send + Sync> = Arc::<dyn Host>::clone(&self.host);
        Some((host.downcast().ok()?, self.key))
    }

    /// Why the call or attempt was cancelled, or `None` where it was not. A clone that outlives the handler is told for
    /// as long as the runtime remembers.
    #[must_use]
    pub fn cancel_reason(&self) -> Option<CancelReason> {
        self.host.cancel_reason(self.key)
    }

    /// Resolves once the call or attempt is cancelled, with the reason. In what the handler left behind it resolves with
    /// [`CancelReason::Ended`] where the handler ended by itself, so that nothing waits for ever.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: the next call resolves with the same reason.
    pub async fn cancelled(&self) -> CancelReason {
        poll_fn(|cx| self.host.poll_cancelled(self.key, cx)).await
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("deadline", &self.deadline())
            .field("metadata", &self.metadata)
            .field("peer", &self.peer())
            .field("task", &self.task)
            .finish_non_exhaustive()
    }
}
