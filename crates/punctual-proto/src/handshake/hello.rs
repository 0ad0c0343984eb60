//! The client's handshake payload.

use crate::frame::{CallId, FrameHeader, Kind};
use crate::handshake::{Capabilities, HELLO_BYTES_MAX, HandshakeError, Profile, compression, item};
use crate::limits::Limits;
use bytes::BufMut;
use std::fmt;

/// What a client says of itself: `supported u64 · required u64 · items`.
#[derive(Clone, PartialEq, Eq)]
pub struct Hello {
    /// What it can do.
    pub supported: Capabilities,
    /// What the server must be able to do.
    pub required: Capabilities,
    /// Its limits; only those that cross the wire mean something here.
    pub limits: Limits,
    /// Who wrote the client, for logs (`name/version`); at most 128 bytes.
    pub agent: String,
    /// The ways of compressing bodies that it can inflate, the preferred one first; none where it takes no part in that.
    /// At most [`PROFILES_MAX`](crate::handshake::PROFILES_MAX), each once.
    pub compression: Vec<Profile>,
    /// Opaque to the protocol: what the server's authentication reads.
    pub authentication: Vec<u8>,
}

impl Hello {
    /// A hello of this library with these limits.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Hello {
            supported: Capabilities::IMPLEMENTED,
            required: Capabilities::NONE,
            limits,
            agent: concat!("punctual/", env!("CARGO_PKG_VERSION")).to_owned(),
            compression: Vec::new(),
            authentication: Vec::new(),
        }
    }

    /// The same with these ways of compressing bodies, and the capability where there are any.
    #[must_use]
    pub fn with_compression(mut self, profiles: Vec<Profile>) -> Self {
        if !profiles.is_empty() {
            self.supported = self.supported.union(Capabilities::COMPRESSION);
        }
        self.compression = profiles;
        self
    }

    /// Appends the whole handshake frame, without the preface.
    ///
    /// # Errors
    /// Where it would be over [`HELLO_BYTES_MAX`]; `out` is then as it was.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<(), HandshakeError> {
        let mut payload = Vec::with_capacity(128 + self.authentication.len());
        payload.put_u64_le(self.supported.bits());
        payload.put_u64_le(self.required.bits());
        item::put_limits(&self.limits, &mut payload)?;
        if !self.agent.is_empty() {
            item::put(
                item::AGENT,
                crate::status::cut_text(&self.agent, item::AGENT_BYTES_MAX).as_bytes(),
                &mut payload,
            )?;
        }
        if !self.compression.is_empty() {
            item::put(item::COMPRESSION, &compression::put(&self.compression)?, &mut payload)?;
        }
        if !self.authentication.is_empty() {
            item::put(item::AUTHENTICATION, &self.authentication, &mut payload)?;
        }
        let len = checked_len(&payload, HELLO_BYTES_MAX)?;
        out.put_slice(&FrameHeader::new(Kind::Handshake, CallId::NONE, len).encode());
        out.put_slice(&payload);
        Ok(())
    }

    /// Reads the payload of a client's handshake frame whose header was decoded.
    ///
    /// # Errors
    /// Where it cannot be read, or announces a limit that version 1 does not allow.
    pub fn decode(payload: &[u8]) -> Result<Self, HandshakeError> {
        let mut cursor = item::cursor(payload);
        let supported = Capabilities::from_bits(cursor.u64("supported capabilities")?);
        let required = Capabilities::from_bits(cursor.u64("required capabilities")?);
        let mut hello = Hello { supported, required, agent: String::new(), ..Hello::new(Limits::default()) };
        let mut seen = item::Seen::default();
        while let Some((tag, value)) = item::next(&mut cursor)? {
            seen.once(tag)?;
            match tag {
                item::AGENT => hello.agent = item::text(value, item::AGENT_BYTES_MAX, "the agent is not a short text")?,
                item::COMPRESSION => hello.compression = compression::read(value)?,
                item::AUTHENTICATION => hello.authentication = value.to_vec(),
                tag => {
                    item::read_limit(tag, value, &mut hello.limits)?;
                }
            }
        }
        check(hello.supported, hello.required, &hello.limits)?;
        Ok(hello)
    }
}

impl fmt::Debug for Hello {
    /// Without the authentication payload, which is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hello")
            .field("supported", &self.supported)
            .field("required", &self.required)
            .field("limits", &self.limits)
            .field("agent", &self.agent)
            .field("compression", &self.compression)
            .field("authentication_bytes", &self.authentication.len())
            .finish()
    }
}

pub(super) fn checked_len(payload: &[u8], max: u32) -> Result<u32, HandshakeError> {
    u32::try_from(payload.len())
        .ok()
        .filter(|len| *len <= max)
        .ok_or(HandshakeError::TooLarge { bytes: payload.len(), max: max as usize })
}

/// What both payloads must satisfy.
pub(super) fn check(supported: Capabilities, required: Capabilities, limits: &Limits) -> Result<(), HandshakeError> {
    if !supported.contains(required) {
        return Err(HandshakeError::Malformed { what: "a capability is required but not supported" });
    }
    limits.validate().map_err(HandshakeError::Limit)
}
