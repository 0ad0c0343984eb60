//! One place of the server's table.

use crate::frame::CallId;
use crate::session::server::streams::Streams;
use crate::status::Status;
use punctual_context::{CancelReason, Metadata};
use std::sync::OnceLock;
use std::task::Waker;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Free,
    /// Its first piece came, its last did not.
    Assembling,
    /// Its handler runs, or is about to.
    Live,
    /// Nobody waits for its result.
    Over(CancelReason),
}

#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) call: CallId,
    pub(crate) state: State,
    /// The handler's task, while it waits.
    pub(crate) waker: Option<Waker>,
    /// It waited for room in the queue, and may still.
    pub(crate) waits_for_room: bool,
    /// Others that wait for a cancel.
    pub(crate) watchers: Vec<Waker>,
    /// What its handler sends along with the reply.
    pub(crate) metadata: Option<Box<Metadata>>,
    /// The streams of a call that has some, while it is live.
    pub(crate) streams: Option<Box<Streams>>,
}

impl Run {
    pub(crate) const fn new() -> Self {
        Run {
            call: CallId::NONE,
            state: State::Free,
            waker: None,
            waits_for_room: false,
            watchers: Vec::new(),
            metadata: None,
            streams: None,
        }
    }
}

/// The handle of a running call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunKey {
    pub(crate) at: u32,
    pub(crate) call: CallId,
}

impl RunKey {
    /// The call's id on the wire.
    #[must_use]
    pub const fn call(&self) -> CallId {
        self.call
    }
}

/// The answer of a call whose budget ended, encoded once for the process.
pub(crate) fn expired_status() -> &'static [u8] {
    static ENCODED: OnceLock<Vec<u8>> = OnceLock::new();
    ENCODED.get_or_init(|| {
        let mut bytes = Vec::new();
        Status::deadline_exceeded("the budget ended while the server worked on the call").encode(&mut bytes);
        bytes
    })
}
