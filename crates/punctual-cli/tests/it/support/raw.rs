//! A client of a daemon that is played byte by byte, as docs/protocol.md has it: what a setting changes on the wire.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// Kinds of frames.
pub(crate) const PING: u8 = 2;
const HANDSHAKE: u8 = 1;
const REQUEST: u8 = 4;
const RESPONSE: u8 = 5;
pub(crate) const GOAWAY: u8 = 10;

const PREFACE: &[u8; 8] = b"PNCTUAL\x01";

/// The capability of compressed bodies, and the item that lists profiles.
const COMPRESSION: u64 = 1 << 2;
const COMPRESSION_ITEM: u16 = 18;

/// A link to a daemon's Unix socket.
pub(crate) struct Raw {
    link: UnixStream,
    /// What the server said of itself: items by their tags, the last of each.
    pub(crate) welcome: BTreeMap<u16, Vec<u8>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) call: u64,
    pub(crate) payload: Vec<u8>,
}

/// What a call failed with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) code: u8,
    pub(crate) retry_after_micros: u64,
    pub(crate) message: String,
    pub(crate) limit: Option<(String, u64)>,
}

impl Raw {
    /// A link on which nothing was said yet.
    pub(crate) fn silent(address: &str) -> Self {
        let link = UnixStream::connect(address.strip_prefix("unix:").unwrap()).unwrap();
        Raw { link, welcome: BTreeMap::new() }
    }

    /// A connection that can do nothing beyond the fixed core.
    pub(crate) fn connect(address: &str) -> Self {
        Self::connect_with(address, &[]).unwrap()
    }

    /// One that can inflate these profiles.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) fn connect_with(address: &str, profiles: &[u8]) -> Result<Self, Failed> {
        Self::silent(address).open(profiles)
    }

    /// Whether the server closed a link on which it has said nothing.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.link.set_nonblocking(true).unwrap();
        let read = self.link.read(&mut [0; 1]);
        self.link.set_nonblocking(false).unwrap();
        match read {
            Ok(bytes) => {
                assert_eq!(bytes, 0, "the server spoke");
                true
            }
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
                false
            }
        }
    }

    /// Shakes hands on a silent link.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) fn open(self, profiles: &[u8]) -> Result<Self, Failed> {
        let mut raw = self;
        let mut hello = Vec::new();
        let capabilities = if profiles.is_empty() { 0 } else { COMPRESSION };
        hello.extend(capabilities.to_le_bytes());
        hello.extend(0_u64.to_le_bytes());
        if !profiles.is_empty() {
            hello.extend(COMPRESSION_ITEM.to_le_bytes());
            hello.extend(u16::try_from(profiles.len()).unwrap().to_le_bytes());
            hello.extend(profiles);
        }
        raw.link.write_all(PREFACE).unwrap();
        raw.send(HANDSHAKE, 0, 0, &hello);
        let mut preface = [0; 8];
        raw.link.read_exact(&mut preface).unwrap();
        assert_eq!(&preface, PREFACE);
        let reply = raw.frame().unwrap();
        assert_eq!(reply.kind, HANDSHAKE);
        if reply.flags == 1 {
            return Err(failed(&reply.payload));
        }
        let mut rest = &reply.payload[16..];
        while let [a, b, c, d, more @ ..] = rest {
            let (value, more) = more.split_at(usize::from(u16::from_le_bytes([*c, *d])));
            raw.welcome.insert(u16::from_le_bytes([*a, *b]), value.to_vec());
            rest = more;
        }
        Ok(raw)
    }

    /// A number that the server announced.
    pub(crate) fn announced(&self, tag: u16) -> u32 {
        u32::from_le_bytes(self.welcome[&tag].clone().try_into().unwrap())
    }

    fn send(&mut self, kind: u8, flags: u8, call: u64, payload: &[u8]) {
        let mut frame = u32::try_from(payload.len()).unwrap().to_le_bytes().to_vec();
        frame.extend([kind, flags, 0, 0]);
        frame.extend(call.to_le_bytes());
        frame.extend(payload);
        self.link.write_all(&frame).unwrap();
    }

    /// The next frame; none where the server closed.
    pub(crate) fn frame(&mut self) -> Option<Frame> {
        let mut header = [0; 16];
        self.link.read_exact(&mut header).ok()?;
        let [a, b, c, d, kind, flags, _, _, call @ ..] = header;
        let mut payload = vec![0; u32::from_le_bytes([a, b, c, d]) as usize];
        self.link.read_exact(&mut payload).ok()?;
        Some(Frame { kind, flags, call: u64::from_le_bytes(call), payload })
    }

    /// Waits until the server closes, and gives what it sent before.
    pub(crate) fn rest(&mut self) -> Vec<Frame> {
        std::iter::from_fn(|| self.frame()).collect()
    }

    /// Calls a method by name in this slot with a JSON object, within this budget.
    pub(crate) fn request(&mut self, slot: u64, method: &str, args: &str, budget_micros: Option<u64>) {
        let id = method
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        let json = 2 << 2;
        let mut payload = id.to_le_bytes().to_vec();
        payload.extend(budget_micros.map(u64::to_le_bytes).into_iter().flatten());
        payload.extend(args.as_bytes());
        self.send(REQUEST, json | u8::from(budget_micros.is_some()), slot, &payload);
    }

    /// The response in this slot, or what the call failed with. It may be compressed, and then has its flag.
    pub(crate) fn response(&mut self, slot: u64) -> Result<Frame, Failed> {
        loop {
            let frame = self.frame().unwrap();
            if frame.kind != RESPONSE {
                continue;
            }
            assert_eq!(frame.call, slot);
            return if frame.flags & 0b11 == 2 { Err(failed(&frame.payload)) } else { Ok(frame) };
        }
    }

    /// Both.
    pub(crate) fn call(&mut self, slot: u64, method: &str, args: &str) -> Result<Frame, Failed> {
        self.request(slot, method, args, None);
        self.response(slot)
    }
}

/// Reads a status.
fn failed(bytes: &[u8]) -> Failed {
    let (code, rest) = bytes.split_first().unwrap();
    let (retry, rest) = rest.split_first_chunk().unwrap();
    let (length, rest) = rest.split_first_chunk().unwrap();
    let (message, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
    let (length, rest) = rest.split_first().unwrap();
    let (name, rest) = rest.split_at(usize::from(*length));
    let limit = (!name.is_empty()).then(|| {
        let value = u64::from_le_bytes(*rest.first_chunk().unwrap());
        (String::from_utf8(name.to_vec()).unwrap(), value)
    });
    Failed {
        code: *code,
        retry_after_micros: u64::from_le_bytes(*retry),
        message: String::from_utf8(message.to_vec()).unwrap(),
        limit,
    }
}
