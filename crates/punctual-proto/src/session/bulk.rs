//! The ring of big messages: what is left of each after its first piece, handed out one piece at a time and in turn.

use crate::frame::{CallId, HEADER_BYTES, PAYLOAD_BYTES_MAX, fragment_header};
use crate::session::batch::Batch;
use bytes::Bytes;
use std::collections::VecDeque;

/// Unfinished messages that a receiver assembles at once on one connection, and so what a sender begins at once.
pub const ASSEMBLED_MESSAGES_MAX: usize = 8;

/// Pieces that one batch takes from the ring: one write of 256 KiB, behind which small calls have their turn.
const PIECES_PER_BATCH: usize = 4;

#[derive(Debug)]
struct Entry {
    call: CallId,
    rest: Bytes,
    /// The whole body, which the receiver's bound counts.
    whole: usize,
    /// What to tell once the last piece was written.
    mark: Option<u64>,
    /// What the message, an item of a stream, was charged to the connection's window.
    charge: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Bulk {
    ring: VecDeque<Entry>,
    /// Bytes not yet handed out.
    bytes: usize,
    /// Whole bytes of all entries.
    whole: usize,
}

impl Bulk {
    pub(crate) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the receiver can assemble one more message of `whole` bytes beside those in the ring.
    pub(crate) fn has_room(&self, whole: usize, assembly_bytes_max: usize) -> bool {
        self.ring.is_empty() || self.ring.len() < ASSEMBLED_MESSAGES_MAX && self.whole + whole <= assembly_bytes_max
    }

    pub(crate) fn push(&mut self, call: CallId, rest: Bytes, whole: usize, mark: Option<u64>) {
        self.bytes += rest.len();
        self.whole += whole;
        self.ring.push_back(Entry { call, rest, whole, mark, charge: 0 });
    }

    /// Notes what the message of `call`, if it is in the ring, was charged to the connection's window.
    pub(crate) fn charge(&mut self, call: CallId, charge: u64) {
        if let Some(entry) = self.ring.iter_mut().find(|entry| entry.call == call) {
            entry.charge = charge;
        }
    }

    /// Whether a message of `call` is unfinished.
    pub(crate) fn has(&self, call: CallId) -> bool {
        self.ring.iter().any(|entry| entry.call == call)
    }

    /// Takes the pieces of `call` that were not handed out, if it has some, and what they were charged.
    pub(crate) fn remove(&mut self, call: CallId) -> Option<(Bytes, u64)> {
        let at = self.ring.iter().position(|entry| entry.call == call)?;
        let entry = self.ring.remove(at)?;
        self.bytes -= entry.rest.len();
        self.whole -= entry.whole;
        Some((entry.rest, entry.charge))
    }

    /// Moves one piece of each message, in turn, into the batch. `done` is told each finished message's mark with the
    /// bytes that were appended up to its end.
    pub(crate) fn hand_out(&mut self, batch: &mut Batch, mut done: impl FnMut(usize, Option<u64>)) -> usize {
        let mut appended = 0;
        for _ in 0..PIECES_PER_BATCH.min(self.ring.len()) {
            let Some(mut entry) = self.ring.pop_front() else { break };
            let piece = entry.rest.split_to(entry.rest.len().min(PAYLOAD_BYTES_MAX as usize));
            let more = !entry.rest.is_empty();
            let len = u32::try_from(piece.len()).unwrap_or(PAYLOAD_BYTES_MAX);
            self.bytes -= piece.len();
            appended += HEADER_BYTES + piece.len();
            batch.put(&fragment_header(entry.call, len, more).encode());
            batch.link(piece);
            if more {
                self.ring.push_back(entry);
            } else {
                self.whole -= entry.whole;
                done(appended, entry.mark);
            }
        }
        appended
    }

    /// Empties the ring; what it held is returned to be dropped outside of the lock.
    pub(crate) fn clear(&mut self, garbage: &mut Vec<Bytes>) {
        garbage.extend(self.ring.drain(..).map(|entry| entry.rest));
        self.bytes = 0;
        self.whole = 0;
    }
}
