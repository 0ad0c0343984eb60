//! The receiver's side of fragmented messages. Its memory grows with the bytes that came, never with what was announced.

use crate::frame::{CallId, FrameHeader, Violation};
use crate::session::bulk::ASSEMBLED_MESSAGES_MAX;
use bytes::{Bytes, BytesMut};

#[derive(Debug)]
struct Unfinished {
    header: FrameHeader,
    /// What stood in front of the body in the first frame.
    head: Bytes,
    body: BytesMut,
    announced: usize,
}

/// Messages of which the first piece has come and the last has not. The reader alone owns them, outside of any lock.
#[derive(Debug)]
pub(crate) struct Assembly {
    unfinished: Vec<Unfinished>,
    bytes: usize,
    bytes_max: usize,
}

/// A whole message: its first frame's header, the fields in front of the body, and the body.
pub(crate) type Whole = (FrameHeader, Bytes, Bytes);

impl Assembly {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Assembly { unfinished: Vec::new(), bytes: 0, bytes_max }
    }

    /// Begins a message with its first piece.
    pub(crate) fn begin(
        &mut self,
        header: FrameHeader,
        head: Bytes,
        announced: u32,
        first: &[u8],
    ) -> Result<(), Violation> {
        let call = header.call;
        if self.unfinished.len() >= ASSEMBLED_MESSAGES_MAX {
            return Err(Violation::AssemblyFull { limit: "messages", max: ASSEMBLED_MESSAGES_MAX as u64 });
        }
        if self.unfinished.iter().any(|message| message.header.call == call) {
            return Err(Violation::CallIdInUse { call });
        }
        self.charge(first.len())?;
        let announced = usize::try_from(announced).unwrap_or(usize::MAX);
        self.unfinished.push(Unfinished { header, head, body: BytesMut::from(first), announced });
        Ok(())
    }

    fn charge(&mut self, bytes: usize) -> Result<(), Violation> {
        if self.bytes + bytes > self.bytes_max {
            return Err(Violation::AssemblyFull { limit: "bytes", max: self.bytes_max as u64 });
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Adds a piece; gives the message out with its last one.
    pub(crate) fn fragment(&mut self, header: &FrameHeader, piece: &[u8]) -> Result<Option<Whole>, Violation> {
        let call = header.call;
        let at = self.unfinished.iter().position(|message| message.header.call == call);
        self.charge(piece.len())?;
        let Some((at, message)) = at.and_then(|at| Some((at, self.unfinished.get_mut(at)?))) else {
            return Err(Violation::FragmentWithoutMessage { call });
        };
        let received = message.body.len() + piece.len();
        if received > message.announced || (received == message.announced) == header.has_more() {
            return Err(Violation::FragmentSum {
                call,
                announced: message.announced as u64,
                received: received as u64,
            });
        }
        if message.body.capacity() < received {
            // It doubles as it grows, but never past what was announced.
            let wanted = (message.body.len() * 2).clamp(received, message.announced);
            message.body.reserve(wanted - message.body.len());
        }
        message.body.extend_from_slice(piece);
        if header.has_more() {
            return Ok(None);
        }
        let message = self.unfinished.swap_remove(at);
        self.bytes -= message.body.len();
        Ok(Some((message.header, message.head, message.body.freeze())))
    }

    /// The sender gave the message up and sends no more of it.
    pub(crate) fn forget(&mut self, call: CallId) {
        if let Some(at) = self.unfinished.iter().position(|message| message.header.call == call) {
            self.bytes -= self.unfinished.swap_remove(at).body.len();
        }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}
