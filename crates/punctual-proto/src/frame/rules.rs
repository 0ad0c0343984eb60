//! What a reader accepts at this point of a connection.

use crate::frame::{Direction, HEADER_BYTES, PAYLOAD_BYTES_MAX};
use crate::handshake::{HELLO_BYTES_MAX, REPLY_BYTES_MAX};

/// How far a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The preface was read; exactly one handshake frame comes next.
    Handshake,
    /// The handshake is over.
    Open,
}

/// The reader's rules for the next frame: who writes, in which phase, and what the handshake agreed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameRules {
    /// Who writes the frames that are read.
    pub from: Direction,
    /// The connection's phase.
    pub phase: Phase,
    /// Slots of the client's table: a call id that names a higher one is a violation.
    pub pending_calls_max: u32,
    /// Whether [`Capabilities::CANCEL_REASON`](crate::handshake::Capabilities::CANCEL_REASON) was agreed.
    pub cancel_reason: bool,
    /// Whether [`Capabilities::STREAMS`](crate::handshake::Capabilities::STREAMS) was agreed.
    pub streams: bool,
    /// Whether [`Capabilities::COMPRESSION`](crate::handshake::Capabilities::COMPRESSION) was agreed.
    pub compression: bool,
    /// The agreed limit of one message's body, in bytes: what a fragmented message may announce.
    pub message_bytes_max: u32,
    /// The agreed limit of a message's metadata, in bytes.
    pub metadata_bytes_max: u32,
}

impl FrameRules {
    /// The rules before the handshake frame of `from` was read: nothing is agreed yet.
    #[must_use]
    pub const fn handshake(from: Direction) -> Self {
        FrameRules {
            from,
            phase: Phase::Handshake,
            pending_calls_max: 0,
            cancel_reason: false,
            streams: false,
            compression: false,
            message_bytes_max: 0,
            metadata_bytes_max: 0,
        }
    }

    /// The most payload bytes that the next frame may have. A peer that has not shown who it is may make us hold 4 KiB.
    #[must_use]
    pub const fn payload_bytes_max(&self) -> u32 {
        match (self.phase, self.from) {
            (Phase::Handshake, Direction::FromClient) => HELLO_BYTES_MAX,
            (Phase::Handshake, Direction::FromServer) => REPLY_BYTES_MAX,
            (Phase::Open, _) => PAYLOAD_BYTES_MAX,
        }
    }

    /// The most bytes that one whole frame may have.
    #[must_use]
    pub const fn frame_bytes_max(&self) -> usize {
        HEADER_BYTES + self.payload_bytes_max() as usize
    }
}
