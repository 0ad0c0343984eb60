//! One place of the client's table of calls.
//!
//! ```text
//!            gate                     response, deadline, close,
//!                                     go-away, emission
//!   Free ───────────▶ Live ─────────────────────────────────▶ Done
//!    ▲                 │ the caller drops: cancel sent          │
//!    └─────────────────┴──────────── the caller takes it ◀──────┘
//! ```
//! Each way back to `Free` raises the generation, so that a late reply can never reach the next call.

use crate::codec::Codec;
use crate::frame::{CallId, Outcome};
use crate::session::closure::Ending;
use bytes::Bytes;
use std::task::Waker;

/// What a live slot waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaits {
    /// A response.
    Reply,
    /// The last byte of a timed one-way's request to be written.
    Emission,
    /// The answer to a describe or health query.
    Answer,
}

#[derive(Debug)]
pub(crate) enum State {
    Free,
    Live(Awaits),
    Done(Reply),
}

/// What a call ended with, without the bytes of a short reply, which are copied apart.
#[derive(Debug)]
pub enum Reply {
    /// A response whose metadata and body were copied into the buffer that came with the poll.
    Copied(ReplyHead),
    /// A response whose metadata and body are shared with the block that they came in.
    Shared(ReplyHead, Bytes),
    /// The request was written to the transport.
    Emitted,
    /// The state byte of a health answer.
    Health(crate::describe::HealthStatus),
    /// No response.
    Failed(Ending),
}

/// How to read a reply's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyHead {
    /// What the body is.
    pub outcome: Outcome,
    /// How it is encoded.
    pub codec: Codec,
    /// Bytes of metadata in front of the body.
    pub metadata_bytes: u32,
}

#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) generation: u64,
    /// The place of the request among all request heads of the connection, from 1.
    pub(crate) number: u64,
    /// The id on the wire.
    pub(crate) call: CallId,
    pub(crate) state: State,
    pub(crate) waker: Option<Waker>,
    /// The bytes of a short reply. The room stays with the table.
    pub(crate) copied: Vec<u8>,
}

impl Slot {
    pub(crate) fn new() -> Self {
        // Generation 0 of slot 0 would be the id that is no call's.
        Slot { generation: 1, number: 0, call: CallId::NONE, state: State::Free, waker: None, copied: Vec::new() }
    }
}

/// The handle of a call in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallKey {
    pub(crate) slot: u32,
    pub(crate) generation: u64,
}
