//! The server's handshake payload: a welcome, or a refusal with its reason.

use crate::frame::{CallId, FrameHeader, Kind};
use crate::handshake::{
    Capabilities, FLAG_REFUSED, HandshakeError, Profile, REPLY_BYTES_MAX, SERVICE_NAME_BYTES_MAX, SERVICES_MAX,
    compression, hello, item,
};
use crate::limits::Limits;
use crate::status::Status;
use bytes::BufMut;

/// One service of a server: `contract hash · name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceEntry {
    /// The service's name, 1 to 255 bytes.
    pub name: String,
    /// The hash of its contract: equal hashes, and only they, make the compact codec safe.
    pub contract: [u8; 16],
}

/// What a server says of itself: `supported u64 · required u64 · items`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// What it can do.
    pub supported: Capabilities,
    /// What the client must be able to do.
    pub required: Capabilities,
    /// Its limits; only those that cross the wire mean something here.
    pub limits: Limits,
    /// Who wrote the server, for logs (`name/version`); at most 128 bytes.
    pub agent: String,
    /// The ways of compressing bodies that it can inflate, the preferred one first; none where it takes no part in that.
    /// At most [`PROFILES_MAX`](crate::handshake::PROFILES_MAX), each once.
    pub compression: Vec<Profile>,
    /// Its services, at most [`SERVICES_MAX`], each name once.
    pub services: Vec<ServiceEntry>,
}

impl Welcome {
    /// A welcome of this library with these limits and services.
    #[must_use]
    pub fn new(limits: Limits, services: Vec<ServiceEntry>) -> Self {
        Welcome {
            supported: Capabilities::IMPLEMENTED,
            required: Capabilities::NONE,
            limits,
            agent: concat!("punctual/", env!("CARGO_PKG_VERSION")).to_owned(),
            compression: Vec::new(),
            services,
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

    /// The contract hash of a service, if the server has it.
    #[must_use]
    pub fn contract(&self, service: &str) -> Option<[u8; 16]> {
        self.services.iter().find(|entry| entry.name == service).map(|entry| entry.contract)
    }
}

/// The server's answer to a hello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Come in.
    Welcome(Welcome),
    /// No; the connection closes behind this.
    Refused(Status),
}

impl Reply {
    /// Appends the whole handshake frame, without the preface. The text of a refusal is cut to fit.
    ///
    /// # Errors
    /// Where a welcome would be over [`REPLY_BYTES_MAX`] or [`SERVICES_MAX`], or a service's name is not 1 to 255 bytes or
    /// comes twice; `out` is then as it was.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<(), HandshakeError> {
        let mut payload = Vec::with_capacity(256);
        let flags = match self {
            Reply::Welcome(welcome) => {
                put_welcome(welcome, &mut payload)?;
                0
            }
            Reply::Refused(status) => {
                status.clone().fitted(REPLY_BYTES_MAX as usize).encode(&mut payload);
                FLAG_REFUSED
            }
        };
        let len = hello::checked_len(&payload, REPLY_BYTES_MAX)?;
        out.put_slice(&FrameHeader { flags, ..FrameHeader::new(Kind::Handshake, CallId::NONE, len) }.encode());
        out.put_slice(&payload);
        Ok(())
    }

    /// Reads the payload of a server's handshake frame whose header was decoded.
    ///
    /// # Errors
    /// Where it cannot be read, or announces a limit that version 1 does not allow.
    pub fn decode(header: &FrameHeader, payload: &[u8]) -> Result<Self, HandshakeError> {
        if header.flags & FLAG_REFUSED != 0 {
            let status = Status::decode(payload)
                .map_err(|_| HandshakeError::Malformed { what: "the refusal's status is not one" })?;
            return Ok(Reply::Refused(status));
        }
        let mut cursor = item::cursor(payload);
        let supported = Capabilities::from_bits(cursor.u64("supported capabilities")?);
        let required = Capabilities::from_bits(cursor.u64("required capabilities")?);
        let mut welcome =
            Welcome { supported, required, agent: String::new(), ..Welcome::new(Limits::default(), Vec::new()) };
        let mut seen = item::Seen::default();
        while let Some((tag, value)) = item::next(&mut cursor)? {
            seen.once(tag)?;
            match tag {
                item::AGENT => {
                    welcome.agent = item::text(value, item::AGENT_BYTES_MAX, "the agent is not a short text")?;
                }
                item::COMPRESSION => welcome.compression = compression::read(value)?,
                item::SERVICE => welcome.services.push(read_service(value)?),
                tag => {
                    item::read_limit(tag, value, &mut welcome.limits)?;
                }
            }
            if welcome.services.len() > SERVICES_MAX {
                return Err(HandshakeError::Malformed { what: "more than 1024 services" });
            }
        }
        check_services(&welcome.services)?;
        hello::check(welcome.supported, welcome.required, &welcome.limits)?;
        Ok(Reply::Welcome(welcome))
    }
}

fn put_welcome(welcome: &Welcome, payload: &mut Vec<u8>) -> Result<(), HandshakeError> {
    check_services(&welcome.services)?;
    payload.put_u64_le(welcome.supported.bits());
    payload.put_u64_le(welcome.required.bits());
    item::put_limits(&welcome.limits, payload)?;
    if !welcome.agent.is_empty() {
        item::put(item::AGENT, crate::status::cut_text(&welcome.agent, item::AGENT_BYTES_MAX).as_bytes(), payload)?;
    }
    if !welcome.compression.is_empty() {
        item::put(item::COMPRESSION, &compression::put(&welcome.compression)?, payload)?;
    }
    let mut value = Vec::new();
    for service in &welcome.services {
        value.clear();
        value.extend_from_slice(&service.contract);
        value.extend_from_slice(service.name.as_bytes());
        item::put(item::SERVICE, &value, payload)?;
    }
    Ok(())
}

fn read_service(value: &[u8]) -> Result<ServiceEntry, HandshakeError> {
    let (contract, name) = value
        .split_first_chunk::<16>()
        .ok_or(HandshakeError::Malformed { what: "a service is shorter than its contract hash" })?;
    let name = item::text(name, SERVICE_NAME_BYTES_MAX as usize, "a service's name is not a text of 1 to 255 bytes")?;
    Ok(ServiceEntry { name, contract: *contract })
}

fn check_services(services: &[ServiceEntry]) -> Result<(), HandshakeError> {
    if services.len() > SERVICES_MAX {
        return Err(HandshakeError::Malformed { what: "more than 1024 services" });
    }
    let mut names: Vec<&str> = services.iter().map(|entry| entry.name.as_str()).collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| matches!(pair, [one, other] if one == other)) {
        return Err(HandshakeError::Malformed { what: "a service is listed twice" });
    }
    let fine = |name: &&str| (1..=SERVICE_NAME_BYTES_MAX as usize).contains(&name.len());
    if !names.iter().all(fine) {
        return Err(HandshakeError::Malformed { what: "a service's name is not a text of 1 to 255 bytes" });
    }
    Ok(())
}
