//! How a call failed when it was not the application that said so: a code, a text, and what helps to go on.

mod call_error;
mod code;
mod value;
mod wire;

pub use call_error::CallError;
pub use code::{Code, Fault};
pub use wire::StatusError;
pub(crate) use wire::WIRE_BYTES_MIN;

use std::fmt;
use std::time::Duration;

/// The most bytes of a status' text; longer ones are cut on a character boundary and end in [`CUT_MARK`].
pub const MESSAGE_BYTES_MAX: usize = 65_536;

/// What a cut text ends in.
pub const CUT_MARK: &str = "… [cut]";

/// The most details of one status.
pub const DETAILS_MAX: usize = 16;

/// The most bytes of all details' names and values together.
pub const DETAILS_BYTES_MAX: usize = 8_192;

/// The most bytes of the name of a limit or of a detail.
pub const NAME_BYTES_MAX: usize = 255;

/// Everything that can go wrong with a call except the application's own errors.
///
/// One pointer wide, so that a `Result` of it is cheap on the way where nothing fails.
#[derive(Clone, PartialEq, Eq)]
pub struct Status(Box<Inner>);

#[derive(Clone, PartialEq, Eq)]
struct Inner {
    code: Code,
    message: String,
    retry_after: Option<Duration>,
    limit: Option<(String, u64)>,
    details: Vec<(String, Vec<u8>)>,
}

impl Status {
    /// A status with this code and text; a text over [`MESSAGE_BYTES_MAX`] is cut and marked.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > MESSAGE_BYTES_MAX {
            message.truncate(cut_text(&message, MESSAGE_BYTES_MAX - CUT_MARK.len()).len());
            message.push_str(CUT_MARK);
        }
        Status(Box::new(Inner { code, message, retry_after: None, limit: None, details: Vec::new() }))
    }

    /// The code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The text, for people.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// How long to wait before another try is worth it, where the other side knows.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// The limit that was hit, by name, and its value.
    #[must_use]
    pub fn limit(&self) -> Option<(&str, u64)> {
        self.0.limit.as_ref().map(|(name, value)| (name.as_str(), *value))
    }

    /// Further facts, by name, in order.
    pub fn details(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.details.iter().map(|(name, value)| (name.as_str(), value.as_slice()))
    }

    /// The first detail of this name.
    #[must_use]
    pub fn detail(&self, name: &str) -> Option<&[u8]> {
        self.details().find(|(entry, _)| *entry == name).map(|(_, value)| value)
    }

    /// Whose fault it is, as far as the code tells.
    #[must_use]
    pub fn fault(&self) -> Fault {
        self.0.code.fault()
    }

    /// Whether the same call may succeed if it is sent again unchanged. It says nothing about whether sending it again is
    /// safe: that is the method's `idempotent`. An exhausted resource counts only where a `retry_after` says so, since a
    /// message over its limit never gets smaller.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self.0.code {
            Code::ResourceExhausted => self.0.retry_after.is_some(),
            code => code.is_retryable(),
        }
    }

    /// With a time to wait before another try. It crosses the wire in whole microseconds, rounded up, at least one.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Duration) -> Self {
        self.0.retry_after = Some(wire::micros_up(wait));
        self
    }

    /// With the limit that was hit. A name over 255 bytes is cut; an empty one names nothing and is dropped.
    #[must_use]
    pub fn with_limit(mut self, name: impl Into<String>, value: u64) -> Self {
        let mut name = name.into();
        name.truncate(cut_text(&name, NAME_BYTES_MAX).len());
        self.0.limit = (!name.is_empty()).then_some((name, value));
        self
    }

    /// With a further fact behind the others. What does not fit [`DETAILS_MAX`], [`DETAILS_BYTES_MAX`] or a name of 1 to
    /// 255 bytes is dropped: details help, they are never relied on.
    #[must_use]
    pub fn with_detail(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        let (name, value) = (name.into(), value.into());
        let held: usize = self.0.details.iter().map(|(name, value)| name.len() + value.len()).sum();
        let fits = self.0.details.len() < DETAILS_MAX && held + name.len() + value.len() <= DETAILS_BYTES_MAX;
        if fits && (1..=NAME_BYTES_MAX).contains(&name.len()) {
            self.0.details.push((name, value));
        }
        self
    }

    /// What a peer may see of a handler's panic or unmapped error: nothing but that it happened.
    #[must_use]
    pub fn unmapped() -> Self {
        Status::internal("the handler failed; its server's log says how")
    }
}

macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident => $code:ident;)*) => {
        impl Status {
            $($(#[$doc])*
            #[must_use]
            pub fn $name(message: impl Into<String>) -> Self {
                Status::new(Code::$code, message)
            })*
        }
    };
}

constructors! {
    /// A [`Code::Cancelled`].
    cancelled => Cancelled;
    /// A [`Code::Unknown`].
    unknown => Unknown;
    /// A [`Code::InvalidArgument`].
    invalid_argument => InvalidArgument;
    /// A [`Code::DeadlineExceeded`].
    deadline_exceeded => DeadlineExceeded;
    /// A [`Code::NotFound`].
    not_found => NotFound;
    /// A [`Code::AlreadyExists`].
    already_exists => AlreadyExists;
    /// A [`Code::PermissionDenied`].
    permission_denied => PermissionDenied;
    /// A [`Code::ResourceExhausted`]; name the limit with [`Status::with_limit`].
    resource_exhausted => ResourceExhausted;
    /// A [`Code::FailedPrecondition`].
    failed_precondition => FailedPrecondition;
    /// A [`Code::Aborted`].
    aborted => Aborted;
    /// A [`Code::OutOfRange`].
    out_of_range => OutOfRange;
    /// A [`Code::Unimplemented`].
    unimplemented => Unimplemented;
    /// A [`Code::Internal`].
    internal => Internal;
    /// A [`Code::Unavailable`].
    unavailable => Unavailable;
    /// A [`Code::DataLoss`].
    data_loss => DataLoss;
    /// A [`Code::Unauthenticated`].
    unauthenticated => Unauthenticated;
    /// A [`Code::ConnectionClosed`].
    connection_closed => ConnectionClosed;
    /// A [`Code::ProtocolViolation`].
    protocol_violation => ProtocolViolation;
    /// A [`Code::HeartbeatLost`].
    heartbeat_lost => HeartbeatLost;
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.code)?;
        if !self.0.message.is_empty() {
            write!(f, ": {}", self.0.message)?;
        }
        if let Some((name, value)) = self.limit() {
            write!(f, " (limit {name} = {value})")?;
        }
        if let Some(wait) = self.0.retry_after {
            write!(f, " (retry after {wait:?})")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Status {
    /// Names of details only: their values are the application's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Status")
            .field("code", &self.0.code)
            .field("message", &self.0.message)
            .field("retry_after", &self.0.retry_after)
            .field("limit", &self.0.limit)
            .field("details", &self.details().map(|(name, _)| name).collect::<Vec<_>>())
            .finish()
    }
}

impl std::error::Error for Status {}

/// The longest prefix of `text` of at most `max` bytes that ends on a character boundary.
pub(crate) fn cut_text(text: &str, max: usize) -> &str {
    let mut end = max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or(text)
}

#[cfg(test)]
mod tests;
