//! What both sides make of the two payloads: the same on either end, by the same function.

use crate::frame::{Direction, FrameRules, Phase};
use crate::handshake::{Capabilities, HandshakeError, Hello, Profile, Reply, Welcome, compression};
use crate::limits::Limits;

/// What holds on the connection from here on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreement {
    /// What both can do.
    pub capabilities: Capabilities,
    /// The smaller of each agreed limit, the server's number of running calls, the peer's windows; the rest is this side's
    /// own.
    pub limits: Limits,
    /// How bodies are compressed, where they may be.
    pub compression: Option<Profile>,
    /// What this side is ready to hold.
    pub own: Windows,
}

/// The windows that a side announced: what its peer may have under way towards it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// Bytes of one stream.
    pub stream_bytes: u32,
    /// Bytes of all streams of the connection.
    pub connection_bytes: u32,
}

impl From<&Limits> for Windows {
    fn from(limits: &Limits) -> Self {
        Windows { stream_bytes: limits.stream_window_bytes, connection_bytes: limits.connection_window_bytes }
    }
}

impl Agreement {
    /// The rules for reading frames that `from` writes.
    #[must_use]
    pub const fn rules(&self, from: Direction) -> FrameRules {
        FrameRules {
            from,
            phase: Phase::Open,
            pending_calls_max: self.limits.pending_calls_max,
            cancel_reason: self.capabilities.contains(Capabilities::CANCEL_REASON),
            streams: self.capabilities.contains(Capabilities::STREAMS),
            compression: self.compression.is_some(),
            message_bytes_max: self.limits.message_bytes_max,
            metadata_bytes_max: self.limits.metadata_bytes_max,
        }
    }
}

/// On the server: whether the client's hello goes together with our welcome.
///
/// # Errors
/// Where either requires what the other cannot do. The server then answers with
/// [`Reply::Refused`] and [`HandshakeError::to_refusal`].
pub fn accept(welcome: &Welcome, hello: &Hello) -> Result<Agreement, HandshakeError> {
    let profile = compression::agree(&hello.compression, &welcome.compression);
    let (ours, theirs) = (welcome.supported, hello.supported);
    agree((ours, welcome.required, &welcome.limits), (theirs, hello.required, &hello.limits), profile)
}

/// On the client: whether the server's reply goes together with our hello.
///
/// # Errors
/// Where the server refused, or either requires what the other cannot do.
pub fn confirm(hello: &Hello, reply: &Reply) -> Result<Agreement, HandshakeError> {
    match reply {
        Reply::Refused(status) => Err(HandshakeError::Refused(status.clone())),
        Reply::Welcome(welcome) => {
            let mut agreed = agree(
                (hello.supported, hello.required, &hello.limits),
                (welcome.supported, welcome.required, &welcome.limits),
                compression::agree(&hello.compression, &welcome.compression),
            )?;
            agreed.limits.running_calls_max = welcome.limits.running_calls_max;
            Ok(agreed)
        }
    }
}

type Side<'a> = (Capabilities, Capabilities, &'a Limits);

fn agree(ours: Side<'_>, theirs: Side<'_>, profile: Option<Profile>) -> Result<Agreement, HandshakeError> {
    let we_lack = theirs.1.without(ours.0);
    if !we_lack.is_empty() {
        return Err(HandshakeError::Capabilities { missing: we_lack, ours: true });
    }
    let they_lack = ours.1.without(theirs.0);
    if !they_lack.is_empty() {
        return Err(HandshakeError::Capabilities { missing: they_lack, ours: false });
    }
    let mut capabilities = ours.0.intersection(theirs.0);
    let compression = profile.filter(|_| capabilities.contains(Capabilities::COMPRESSION));
    if compression.is_none() {
        // Both may compress, and know no way that the other does.
        capabilities = capabilities.without(Capabilities::COMPRESSION);
        if ours.1.union(theirs.1).contains(Capabilities::COMPRESSION) {
            let ours = theirs.1.contains(Capabilities::COMPRESSION);
            return Err(HandshakeError::Capabilities { missing: Capabilities::COMPRESSION, ours });
        }
    }
    Ok(Agreement { capabilities, compression, limits: ours.2.agree(theirs.2), own: Windows::from(ours.2) })
}
