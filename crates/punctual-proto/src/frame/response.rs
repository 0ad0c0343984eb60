//! RESPONSE: the one answer to a call, whole or its first piece.

use crate::codec::Codec;
use crate::frame::{CallId, Cursor, FrameHeader, FrameRules, Kind, Prefix, Violation};
use bytes::BufMut;

const OUTCOME_MASK: u8 = 0b11;
const CODEC_SHIFT: u8 = 2;
const FLAG_MORE: u8 = super::FRAGMENT_FLAG_MORE;
const FLAG_METADATA: u8 = 1 << 5;
/// Where the streams capability was agreed.
pub(super) const FLAG_STREAM: u8 = 1 << 6;
/// Where the compression capability was agreed.
pub(super) const FLAG_COMPRESSED: u8 = 1 << 7;
pub(super) const FLAGS: u8 = OUTCOME_MASK | 0b11 << CODEC_SHIFT | FLAG_MORE | FLAG_METADATA;

/// The flags of a result that is whole in its frame; each goes with each.
pub(super) const PLAIN_FLAGS: u8 = 0b11 << CODEC_SHIFT;

/// The rule that a response's flags break, if any.
pub(super) const fn check_flags(flags: u8) -> Option<&'static str> {
    match Outcome::from_bits(flags) {
        None => Some("outcome 3 does not exist"),
        Some(Outcome::Status) if flags >> CODEC_SHIFT & 0b11 != 0 => {
            Some("a status has an encoding of its own and sends codec 0")
        }
        Some(Outcome::Status) if flags & FLAG_COMPRESSED != 0 => Some("a status is never compressed"),
        Some(_) if flags & FLAG_STREAM != 0 && flags & !(FLAG_STREAM | FLAG_METADATA) != 0 => {
            Some("the opening of a stream has outcome 0, codec 0 and no body")
        }
        Some(_) => None,
    }
}

/// Bytes of the fields whose length the flags alone decide.
pub(super) const fn fixed_bytes(flags: u8) -> u32 {
    let total = if flags & FLAG_MORE != 0 { 4 } else { 0 };
    let metadata = if flags & FLAG_METADATA != 0 { 4 } else { 0 };
    let plain = if flags & FLAG_COMPRESSED != 0 { 4 } else { 0 };
    total + plain + metadata
}

/// How a call ended, and so what its response's body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Outcome {
    /// The handler's value.
    Ok = 0,
    /// The handler's own, typed error.
    App = 1,
    /// A [`Status`](crate::status::Status) in its wire form.
    Status = 2,
}

impl Outcome {
    /// The name in metrics and test vectors.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::App => "app",
            Outcome::Status => "status",
        }
    }

    pub(super) const fn from_bits(flags: u8) -> Option<Outcome> {
        match flags & OUTCOME_MASK {
            0 => Some(Outcome::Ok),
            1 => Some(Outcome::App),
            2 => Some(Outcome::Status),
            _ => None,
        }
    }
}

/// The answer to a call: `[total u32] · [plain u32] · [metadata length u32 · metadata] · body`. With a returned stream it opens that, has
/// no body, and the stream's END ends the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseHead<'a> {
    /// What the body is.
    pub outcome: Outcome,
    /// How the body is encoded; [`Codec::Compact`] where the outcome is a status.
    pub codec: Codec,
    /// Encoded metadata, checked for its length only; empty where there is none.
    pub metadata: &'a [u8],
    /// Whether the returned stream follows.
    pub streamed: bool,
    /// Where fragments follow, the bytes of the whole body.
    pub total: Option<u32>,
    /// Where the body is compressed, the bytes that it had before.
    pub plain: Option<u32>,
    /// The body, or its first piece.
    pub body: &'a [u8],
}

impl<'a> ResponseHead<'a> {
    fn flags(&self) -> u8 {
        let codec = if self.outcome == Outcome::Status { 0 } else { self.codec.bits() };
        let more = if self.total.is_some() { FLAG_MORE } else { 0 };
        let metadata = if self.metadata.is_empty() { 0 } else { FLAG_METADATA };
        if self.streamed {
            return FLAG_STREAM | metadata;
        }
        let compressed = if self.plain.is_some() { FLAG_COMPRESSED } else { 0 };
        compressed | self.outcome as u8 | codec << CODEC_SHIFT | more | metadata
    }

    /// Payload bytes in front of the body: how much of a frame is left for the body's first piece.
    #[must_use]
    pub fn head_bytes(&self) -> usize {
        fixed_bytes(self.flags()) as usize + self.metadata.len()
    }

    /// The header and fixed fields of the frame, to be followed by the metadata and by `body_bytes` of the body, which
    /// the caller appends or links. [`Self::body`] is not read.
    #[must_use]
    pub fn prefix(&self, call: CallId, body_bytes: usize) -> Prefix {
        let len = u32::try_from(self.head_bytes() + body_bytes).unwrap_or(u32::MAX);
        let header = FrameHeader { flags: self.flags(), ..FrameHeader::new(Kind::Response, call, len) };
        let mut prefix = Prefix::new(header.encode());
        if let Some(total) = self.total {
            prefix.put(total.to_le_bytes());
        }
        if let Some(plain) = self.plain {
            prefix.put(plain.to_le_bytes());
        }
        if !self.metadata.is_empty() {
            prefix.put(u32::try_from(self.metadata.len()).unwrap_or(u32::MAX).to_le_bytes());
        }
        prefix
    }

    /// Begins the frame in an empty buffer, with everything in front of the body and room for what is known later: the
    /// call's id and the length. Returns where the body begins.
    pub fn open_frame(&self, out: &mut Vec<u8>) -> usize {
        if self.metadata.is_empty() && self.total.is_none() && self.plain.is_none() && !self.streamed {
            // What nearly every answer looks like.
            let header = FrameHeader { flags: self.flags(), ..FrameHeader::new(Kind::Response, CallId::NONE, 0) };
            out.extend_from_slice(&header.encode());
            return out.len();
        }
        out.extend_from_slice(self.prefix(CallId::NONE, 0).as_slice());
        if !self.metadata.is_empty() {
            out.extend_from_slice(self.metadata);
        }
        out.len()
    }

    /// Ends a frame that [`Self::open_frame`] began and the body was appended to: its length, with `linked` bytes to
    /// follow.
    pub fn close_frame(frame: &mut [u8], linked: usize) {
        super::set_len(frame, linked);
    }

    /// Appends the whole frame, body included.
    pub fn put(&self, call: CallId, out: &mut impl BufMut) {
        out.put_slice(self.prefix(call, self.body.len()).as_slice());
        if !self.metadata.is_empty() {
            out.put_slice(self.metadata);
        }
        out.put_slice(self.body);
    }

    /// Reads the payload of a RESPONSE whose header was decoded under the same rules.
    ///
    /// # Errors
    /// The first rule that was broken.
    pub fn decode(header: &FrameHeader, payload: &'a [u8], rules: &FrameRules) -> Result<Self, Violation> {
        let kind = Kind::Response;
        let mut cursor = Cursor::new(kind, payload);
        let outcome = Outcome::from_bits(header.flags).ok_or(Violation::FlagCombination {
            kind,
            flags: header.flags,
            rule: "outcome 3 does not exist",
        })?;
        let max = super::fragment::body_bytes_max(outcome == Outcome::Status, rules);
        let total = super::fragment::read_total(&mut cursor, kind, header.flags & FLAG_MORE != 0, max)?;
        let plain = super::fragment::read_plain(&mut cursor, kind, header.flags & FLAG_COMPRESSED != 0, rules)?;
        let metadata = super::fragment::read_metadata(&mut cursor, kind, header.flags & FLAG_METADATA != 0, rules)?;
        let body = cursor.rest();
        super::fragment::check_body(header, total, body, max)?;
        let streamed = header.flags & FLAG_STREAM != 0;
        if streamed && !body.is_empty() {
            return Err(Violation::TrailingBytes { kind, extra: body.len() as u64 });
        }
        let codec = Codec::from_bits(header.flags >> CODEC_SHIFT);
        Ok(ResponseHead { outcome, codec, metadata, streamed, total, plain, body })
    }
}
