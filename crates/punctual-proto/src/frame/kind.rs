//! The kinds of frames and which way each may travel.

use std::fmt;

/// Which end of the connection wrote a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Written by the client, read by the server.
    FromClient,
    /// Written by the server, read by the client.
    FromServer,
}

/// What a frame is. The number is its byte on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The one frame each way that opens a connection.
    Handshake = 1,
    /// Asks for a [`Kind::Pong`] with the same eight bytes.
    Ping = 2,
    /// Answers a ping.
    Pong = 3,
    /// The head of a call, with the whole body or its first piece.
    Request = 4,
    /// The answer to a call, whole or its first piece.
    Response = 5,
    /// Ends a call that was published before.
    Cancel = 6,
    /// One item of a stream.
    Data = 7,
    /// The end of a stream.
    End = 8,
    /// Permission to send more bytes on a stream or the connection.
    Credit = 9,
    /// No more calls are taken, and how many were.
    GoAway = 10,
    /// Asks for, or carries, descriptions of services.
    Describe = 11,
    /// Asks for, or carries, the health of a service.
    Health = 12,
    /// A further piece of the body of a request, a response or a describe reply.
    Fragment = 13,
}

impl Kind {
    /// Every kind, in the order of the numbers.
    pub const ALL: [Kind; 13] = [
        Kind::Handshake,
        Kind::Ping,
        Kind::Pong,
        Kind::Request,
        Kind::Response,
        Kind::Cancel,
        Kind::Data,
        Kind::End,
        Kind::Credit,
        Kind::GoAway,
        Kind::Describe,
        Kind::Health,
        Kind::Fragment,
    ];

    /// The kind with this number, if version 1 has one.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Option<Kind> {
        Some(match byte {
            1 => Kind::Handshake,
            2 => Kind::Ping,
            3 => Kind::Pong,
            4 => Kind::Request,
            5 => Kind::Response,
            6 => Kind::Cancel,
            7 => Kind::Data,
            8 => Kind::End,
            9 => Kind::Credit,
            10 => Kind::GoAway,
            11 => Kind::Describe,
            12 => Kind::Health,
            13 => Kind::Fragment,
            _ => return None,
        })
    }

    /// The name in messages and in `docs/protocol.md`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Handshake => "HANDSHAKE",
            Kind::Ping => "PING",
            Kind::Pong => "PONG",
            Kind::Request => "REQUEST",
            Kind::Response => "RESPONSE",
            Kind::Cancel => "CANCEL",
            Kind::Data => "DATA",
            Kind::End => "END",
            Kind::Credit => "CREDIT",
            Kind::GoAway => "GOAWAY",
            Kind::Describe => "DESCRIBE",
            Kind::Health => "HEALTH",
            Kind::Fragment => "FRAGMENT",
        }
    }

    /// Whether the frame belongs to a stream and so may carry a stream id.
    #[must_use]
    pub const fn is_stream(self) -> bool {
        matches!(self, Kind::Data | Kind::End | Kind::Credit)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
