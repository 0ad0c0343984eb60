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
use crate::session::batch::LINK_BYTES_MIN;
use crate::session::client::streams::Streams;
use crate::session::closure::Ending;
use bytes::Bytes;
use std::task::Waker;

/// Room that a slot keeps for the next short reply: some of those, so that the exchange with a buffer of a thread is what
/// nearly always happens.
const KEPT_BYTES_MAX: usize = 4 * LINK_BYTES_MIN;

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

/// How far a slot has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Free,
    Live(Awaits),
    /// Its reply lies in [`Slot::copied`].
    Copied,
    /// Its reply is [`Slot::shared`].
    Shared,
    /// Its request was written.
    Emitted,
    /// Its returned stream came to an end, which lies with the stream.
    Ended,
    /// It ended with anything else, which is [`Slot::other`].
    Other,
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
    /// The returned stream is open, with this encoded metadata. The call goes on.
    Opened(Bytes),
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
    /// Where the body is compressed, the bytes that it had before.
    pub plain: Option<u32>,
}

/// Small where most calls go: a reply of some bytes touches nothing that has to be dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) generation: u64,
    /// The place of the request among all request heads of the connection, from 1.
    pub(crate) number: u64,
    /// The id on the wire.
    pub(crate) call: CallId,
    pub(crate) state: State,
    /// How to read the reply, where there is one.
    pub(crate) head: ReplyHead,
    pub(crate) waker: Option<Waker>,
    /// The bytes of a short reply. The room stays with the table.
    pub(crate) copied: Vec<u8>,
    pub(crate) shared: Option<Bytes>,
    pub(crate) other: Option<Box<Reply>>,
    /// The streams of a call that has some.
    pub(crate) streams: Option<Box<Streams>>,
}

impl Slot {
    pub(crate) fn new() -> Self {
        Slot {
            // Generation 0 of slot 0 would be the id that is no call's.
            generation: 1,
            number: 0,
            call: CallId::NONE,
            state: State::Free,
            head: ReplyHead { outcome: Outcome::Status, codec: Codec::Compact, metadata_bytes: 0, plain: None },
            waker: None,
            copied: Vec::new(),
            shared: None,
            other: None,
            streams: None,
        }
    }

    /// Ends what is live with anything but a response.
    pub(crate) fn end(&mut self, reply: Reply) {
        self.state = State::Other;
        self.other = Some(Box::new(reply));
    }

    /// Takes what it ended with; the bytes of a short reply are exchanged with `buffer`'s room. `None` while it is live.
    #[inline]
    pub(crate) fn take(&mut self, buffer: &mut Vec<u8>) -> Option<Reply> {
        match self.state {
            State::Copied => {
                if buffer.capacity() <= KEPT_BYTES_MAX {
                    std::mem::swap(&mut self.copied, buffer);
                } else {
                    // A slot may stay unused for long: it must not inherit what a thread needed for something big.
                    buffer.clear();
                    buffer.extend_from_slice(&self.copied);
                }
                Some(Reply::Copied(self.head))
            }
            State::Shared => self.shared.take().map(|bytes| Reply::Shared(self.head, bytes)),
            State::Emitted => Some(Reply::Emitted),
            State::Other => self.other.take().map(|reply| *reply),
            State::Free | State::Live(_) | State::Ended => None,
        }
    }
}

/// The handle of a call in the table: what its id is where it waits for a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallKey(pub(crate) CallId);

impl CallKey {
    #[inline]
    pub(crate) fn at(self) -> usize {
        self.0.slot() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slot gives its short reply out without a copy where it can, and never keeps the room of a big buffer.
    #[test]
    fn a_slot_never_keeps_a_big_buffer() {
        let mut slot = Slot::new();
        for capacity in [64, KEPT_BYTES_MAX, KEPT_BYTES_MAX + 1, 64 * 1024] {
            slot.copied.clear();
            slot.copied.extend_from_slice(b"reply");
            slot.state = State::Copied;
            let mut buffer = Vec::with_capacity(capacity);
            assert!(matches!(slot.take(&mut buffer), Some(Reply::Copied(_))));
            assert_eq!(buffer, b"reply", "{capacity}");
            assert!(slot.copied.capacity() <= KEPT_BYTES_MAX, "{capacity}: {}", slot.copied.capacity());
        }
    }
}
