//! What a runtime must tell a context about the calls or attempts that it runs.

use crate::{Identity, MetadataError};
use punctual_clock::Clock;
use std::any::Any;
use std::fmt;
use std::task::{self, Poll};

/// Why a handler was asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CancelReason {
    /// The caller dropped or cancelled the call, or an operator cancelled the task.
    User,
    /// The budget ended.
    Deadline,
    /// The consumer of a stream went away.
    ConsumerGone,
    /// The connection closed, or the lease was lost.
    Disconnected,
    /// The server or worker is stopping and its grace has ended.
    Shutdown,
    /// The handler has ended, by itself or so long ago that nobody knows why: nothing that it left behind is waited for.
    Ended,
}

impl fmt::Display for CancelReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CancelReason::User => "cancelled by the caller",
            CancelReason::Deadline => "the deadline passed",
            CancelReason::ConsumerGone => "the consumer went away",
            CancelReason::Disconnected => "the connection or the lease was lost",
            CancelReason::Shutdown => "shutting down",
            CancelReason::Ended => "the handler has ended",
        })
    }
}

/// The other end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peer {
    /// The transport's address in URL form (`tcp://127.0.0.1:40312`, `tls://…`, `unix:`, `inproc:`).
    pub address: String,
    /// Who it is, where it had to prove that.
    pub identity: Option<Identity>,
}

impl Peer {
    /// A peer that nobody asked who it is.
    #[must_use]
    pub fn new(address: impl Into<String>) -> Self {
        Peer { address: address.into(), identity: None }
    }

    /// The same as somebody.
    #[must_use]
    pub fn with_identity(mut self, identity: Option<Identity>) -> Self {
        self.identity = identity;
        self
    }
}

/// A runtime that runs handlers: a server connection, or an engine.
///
/// One host serves many calls; `key` is the number that it gave to [`Context::new`](crate::Context::new). A key that
/// the host no longer knows has ended: it is not cancelled and never will be.
///
/// It is [`Any`], so that a runtime finds its own host again in a context: [`Context::host_as`](crate::Context::host_as).
pub trait Host: Any + Send + Sync {
    /// The clock that deadlines are measured with.
    fn clock(&self) -> &dyn Clock;

    /// The other end, where there is one.
    fn peer(&self) -> Option<&Peer>;

    /// Why `key` was cancelled, if it was.
    fn cancel_reason(&self, key: u64) -> Option<CancelReason>;

    /// Ready once `key` is cancelled; otherwise `cx` is woken when it is.
    fn poll_cancelled(&self, key: u64, cx: &mut task::Context<'_>) -> Poll<CancelReason>;

    /// Sends an entry of metadata along with the reply of `key`.
    ///
    /// # Errors
    /// Where the entry is not one, or there is no reply that it could go with, as with a host that answers nobody.
    fn respond_with(&self, key: u64, name: &str, value: &[u8]) -> Result<(), MetadataError> {
        let _ = (key, name, value);
        Err(MetadataError::NoReply)
    }
}
