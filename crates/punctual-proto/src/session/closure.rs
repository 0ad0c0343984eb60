//! Why a connection takes no more calls.

use crate::frame::{GoAwayReason, Violation};
use crate::status::{Code, Status};
use std::sync::Arc;

/// Why a connection closed. Cloning is cheap: every call that it ends gets one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Closure {
    /// This side closed it.
    Local,
    /// The transport failed, or the peer closed it; the text says which.
    Lost(Arc<str>),
    /// Nothing came for the agreed time.
    HeartbeatLost,
    /// The peer broke the protocol.
    Violation(Arc<Violation>),
    /// The peer said goodbye for a reason that ends calls too.
    GoAway(GoAwayReason, Arc<str>),
    /// The server's grace ended.
    Shutdown,
}

impl Closure {
    /// Why there is no connection, for a call that was never sent on it.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Closure::Lost(why) => format!("the connection was lost: {why}"),
            Closure::Shutdown => "the server stopped".to_owned(),
            _ => self.status().message().to_owned(),
        }
    }

    /// What a call that was under way ends with.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Closure::Local => Status::cancelled("the connection was closed by this side"),
            Closure::Lost(why) => Status::new(
                Code::ConnectionClosed,
                format!("the connection was lost while the call was under way: {why}"),
            ),
            Closure::HeartbeatLost => Status::new(
                Code::HeartbeatLost,
                "nothing came from the peer for the keep-alive time; the connection was closed",
            ),
            Closure::Violation(violation) => Status::new(
                Code::ProtocolViolation,
                format!("the peer broke the protocol and the connection was closed: {violation}"),
            ),
            Closure::GoAway(GoAwayReason::ProtocolViolation, text) => Status::new(
                Code::ProtocolViolation,
                format!("the peer closed the connection for a protocol violation: {text}"),
            ),
            Closure::GoAway(GoAwayReason::Unauthenticated, text) => {
                Status::unauthenticated(format!("the peer closed the connection: {text}"))
            }
            Closure::GoAway(_, text) => {
                Status::new(Code::ConnectionClosed, format!("the peer closed the connection: {text}"))
            }
            Closure::Shutdown => Status::new(Code::ConnectionClosed, "the server stopped before the call ended"),
        }
    }
}

/// How a published call ended when it was not by a response.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// Its deadline passed.
    Deadline,
    /// The connection closed under it.
    Closed(Closure),
    /// The server went away before it took the call: it never reached a handler.
    NeverAccepted,
}

impl Ending {
    /// The status that the caller sees.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Ending::Deadline => Status::deadline_exceeded("the deadline passed before the reply came"),
            Ending::Closed(closure) => closure.status(),
            Ending::NeverAccepted => Status::unavailable(
                "never accepted: the server went away before it took the call; it may be sent again",
            ),
        }
    }
}
