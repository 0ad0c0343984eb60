//! The limits of a connection: what one side holds for the other at most.
//!
//! Each has a default, a range and a reason. What both sides must know crosses the wire in the handshake, where the
//! smaller side wins ([`Limits::agree`]); the rest binds only the side that sets it.

use std::fmt;
use std::time::Duration;

const KIB: u32 = 1_024;
const MIB: u32 = 1_024 * KIB;

/// The limits of one side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one message's encoded body. 4 MiB; 1 KiB to 64 MiB. Agreed in the handshake.
    pub message_bytes_max: u32,
    /// Bytes of one message's encoded metadata. 16 KiB; 0 to 32 KiB, so that a call's head always fits one frame. Agreed
    /// in the handshake.
    pub metadata_bytes_max: u32,
    /// Calls of one client that wait for a reply on one connection, and so slots of its table. 65,536; 1 to 65,536.
    /// Agreed in the handshake.
    pub pending_calls_max: u32,
    /// Handlers that one connection may keep running; further calls wait in order. 1,024; 1 to 65,536. The server's own
    /// number, announced so that a pool knows when to grow.
    pub running_calls_max: u32,
    /// Open streams on one connection. 1,024; 0 to 32,768. Agreed in the handshake.
    pub streams_max: u32,
    /// Bytes that one stream may have sent and not yet had consumed. 1 MiB; 64 KiB to 64 MiB. Announced by the receiver.
    pub stream_window_bytes: u32,
    /// The same for all streams of a connection. 16 MiB; at least the message limit, to 1 GiB. Announced by the receiver.
    pub connection_window_bytes: u32,
    /// Bytes queued for the transport; a request over it fails at once, a response waits. 8 MiB; 64 KiB to 1 GiB. One
    /// message of any legal size is let in when nothing big is queued.
    pub send_queue_bytes_max: u32,
    /// How long the handshake may take in all. 5 s; above 0, to 60 s. It bounds what a silent or slow peer can hold.
    pub handshake_timeout: Duration,
    /// Silence after which a ping is sent. 10 s; at least 10 ms.
    pub ping_after: Duration,
    /// Silence after which the peer counts as dead; any bytes count as life. 20 s; more than `ping_after`.
    pub dead_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            message_bytes_max: 4 * MIB,
            metadata_bytes_max: 16 * KIB,
            pending_calls_max: 65_536,
            running_calls_max: 1_024,
            streams_max: 1_024,
            stream_window_bytes: MIB,
            connection_window_bytes: 16 * MIB,
            send_queue_bytes_max: 8 * MIB,
            handshake_timeout: Duration::from_secs(5),
            ping_after: Duration::from_secs(10),
            dead_after: Duration::from_secs(20),
        }
    }
}

impl Limits {
    /// The most bytes that unfinished fragmented messages may take on one connection: the larger of 16 MiB and twice the
    /// message limit, so that two of the largest messages always fit. The sender must keep to it, so it follows from what
    /// was agreed and cannot be set.
    #[must_use]
    pub const fn assembling_bytes_max(&self) -> u64 {
        let twice = 2 * self.message_bytes_max as u64;
        if twice > 16 * MIB as u64 { twice } else { 16 * MIB as u64 }
    }

    /// Refuses values outside the ranges that the fields state.
    ///
    /// # Errors
    /// The first value that is out of range.
    pub fn validate(&self) -> Result<(), LimitError> {
        let within = |name, value: u32, min: u32, max: u32| {
            if (min..=max).contains(&value) {
                Ok(())
            } else {
                Err(LimitError::Range { name, value: u64::from(value), min: u64::from(min), max: u64::from(max) })
            }
        };
        within("message_bytes_max", self.message_bytes_max, KIB, 64 * MIB)?;
        within("metadata_bytes_max", self.metadata_bytes_max, 0, 32 * KIB)?;
        within("pending_calls_max", self.pending_calls_max, 1, 65_536)?;
        within("running_calls_max", self.running_calls_max, 1, 65_536)?;
        within("streams_max", self.streams_max, 0, 32_768)?;
        within("stream_window_bytes", self.stream_window_bytes, 64 * KIB, 64 * MIB)?;
        within("connection_window_bytes", self.connection_window_bytes, self.message_bytes_max, 1_024 * MIB)?;
        within("send_queue_bytes_max", self.send_queue_bytes_max, 64 * KIB, 1_024 * MIB)?;
        let duration = |name, value: Duration, min: Duration, max: Duration| {
            if (min..=max).contains(&value) { Ok(()) } else { Err(LimitError::Duration { name, value, min, max }) }
        };
        let ms = Duration::from_millis;
        duration("handshake_timeout", self.handshake_timeout, ms(1), Duration::from_secs(60))?;
        duration("ping_after", self.ping_after, ms(10), Duration::from_secs(86_400))?;
        duration("dead_after", self.dead_after, self.ping_after + ms(1), Duration::from_secs(2 * 86_400))
    }

    /// What holds on a connection between this side and one that announced `peer`: the smaller of each agreed limit. A
    /// window binds the sender, so the peer's is taken as it is; running calls are the server's alone, and so not agreed
    /// here.
    #[must_use]
    pub fn agree(&self, peer: &Limits) -> Limits {
        Limits {
            message_bytes_max: self.message_bytes_max.min(peer.message_bytes_max),
            metadata_bytes_max: self.metadata_bytes_max.min(peer.metadata_bytes_max),
            pending_calls_max: self.pending_calls_max.min(peer.pending_calls_max),
            streams_max: self.streams_max.min(peer.streams_max),
            stream_window_bytes: peer.stream_window_bytes,
            connection_window_bytes: peer.connection_window_bytes,
            ..*self
        }
    }
}

/// The limits of a server over all its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerLimits {
    /// Open connections; further ones are refused with a status. 1,024; 1 to 1,000,000.
    pub connections_max: u32,
    /// Handlers running on all connections. 65,536; 1 to 10,000,000.
    pub running_calls_max: u32,
    /// Handshakes under way at once. 64; 1 to 65,536. Small, since each may hold 4 KiB for five seconds unproven.
    pub handshakes_max: u32,
    /// Handlers of blocking methods that have a thread at once; further ones wait for one in order, as calls that run, until
    /// their call is over. 64; 1 to 65,536. Small, since each is a thread of the runtime's blocking pool (512 where tokio's
    /// own setting stands), which files and names are looked up on, too.
    pub blocking_calls_max: u32,
}

impl Default for ServerLimits {
    fn default() -> Self {
        ServerLimits { connections_max: 1_024, running_calls_max: 65_536, handshakes_max: 64, blocking_calls_max: 64 }
    }
}

impl ServerLimits {
    /// Refuses values outside the ranges that the fields state.
    ///
    /// # Errors
    /// The first value that is out of range.
    pub fn validate(&self) -> Result<(), LimitError> {
        let ranges = [
            ("connections_max", self.connections_max, 1_000_000),
            ("running_calls_max", self.running_calls_max, 10_000_000),
            ("handshakes_max", self.handshakes_max, 65_536),
            ("blocking_calls_max", self.blocking_calls_max, 65_536),
        ];
        for (name, value, max) in ranges {
            if !(1..=max).contains(&value) {
                return Err(LimitError::Range { name, value: u64::from(value), min: 1, max: u64::from(max) });
            }
        }
        Ok(())
    }
}

/// A limit that was set outside its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitError {
    /// A number.
    Range {
        /// The field.
        name: &'static str,
        /// What it was set to.
        value: u64,
        /// The least allowed.
        min: u64,
        /// The most allowed.
        max: u64,
    },
    /// A duration.
    Duration {
        /// The field.
        name: &'static str,
        /// What it was set to.
        value: Duration,
        /// The least allowed.
        min: Duration,
        /// The most allowed.
        max: Duration,
    },
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitError::Range { name, value, min, max } => {
                write!(f, "{name} is {value}; set it between {min} and {max}")
            }
            LimitError::Duration { name, value, min, max } => {
                write!(f, "{name} is {value:?}; set it between {min:?} and {max:?}")
            }
        }
    }
}

impl std::error::Error for LimitError {}

#[cfg(test)]
mod tests;
