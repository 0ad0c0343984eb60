//! REQUEST: the head of a call, and its body or the first piece of it.

use crate::codec::Codec;
use crate::frame::{CallId, CallStreams, Cursor, FrameHeader, FrameRules, HEADER_BYTES, Kind, Prefix, Violation};
use bytes::BufMut;
use std::num::NonZeroU64;
use std::time::Duration;

const FLAG_BUDGET: u8 = 1;
const FLAG_METADATA: u8 = 1 << 1;
const CODEC_SHIFT: u8 = 2;
const FLAG_MORE: u8 = super::FRAGMENT_FLAG_MORE;
pub(super) const FLAG_ONEWAY: u8 = 1 << 5;
/// Where the streams capability was agreed.
pub(super) const FLAG_STREAMS: u8 = 1 << 6;
/// Where the compression capability was agreed.
pub(super) const FLAG_COMPRESSED: u8 = 1 << 7;
pub(super) const FLAGS: u8 = FLAG_BUDGET | FLAG_METADATA | 0b11 << CODEC_SHIFT | FLAG_MORE | FLAG_ONEWAY;

/// The flags of a request that is whole in its frame and awaits a reply; each goes with each.
pub(super) const PLAIN_FLAGS: u8 = FLAG_BUDGET | FLAG_METADATA | 0b11 << CODEC_SHIFT;

/// Bytes of the fields whose length the flags alone decide.
pub(super) const fn fixed_bytes(flags: u8) -> u32 {
    let budget = if flags & FLAG_BUDGET != 0 { 8 } else { 0 };
    let total = if flags & FLAG_MORE != 0 { 4 } else { 0 };
    let plain = if flags & FLAG_COMPRESSED != 0 { 4 } else { 0 };
    let metadata = if flags & FLAG_METADATA != 0 { 4 } else { 0 };
    let streams = if flags & FLAG_STREAMS != 0 { 2 } else { 0 };
    8 + budget + total + plain + streams + metadata
}

/// The head of a call: `method u64 · [budget u64] · [total u32] · [plain u32] · [streams u16] ·
/// [metadata length u32 · metadata] · body`.
///
/// The head and all its metadata lie in the one frame; only the body is cut into fragments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHead<'a> {
    /// The id of the method ([`contract::method_id`](crate::contract)).
    pub method: u64,
    /// What is left of the call's budget, in microseconds, sampled when the frame was completed; `None` is unbounded.
    pub budget_micros: Option<NonZeroU64>,
    /// Whether no reply is awaited.
    pub oneway: bool,
    /// How the body is encoded.
    pub codec: Codec,
    /// Encoded metadata, checked for its length only; empty where there is none.
    pub metadata: &'a [u8],
    /// The streams of the call.
    pub streams: CallStreams,
    /// Where fragments follow, the bytes of the whole body.
    pub total: Option<u32>,
    /// Where the body is compressed, the bytes that it had before.
    pub plain: Option<u32>,
    /// The body, or its first piece.
    pub body: &'a [u8],
}

impl<'a> RequestHead<'a> {
    /// The wire form of what is left of a budget: microseconds, rounded up, so that a budget that is not over is never 0.
    /// `None` for a budget that is over.
    #[must_use]
    pub fn budget(left: Duration) -> Option<NonZeroU64> {
        let micros = left.as_nanos().div_ceil(1_000);
        NonZeroU64::new(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// The budget as a duration.
    #[must_use]
    pub fn budget_duration(&self) -> Option<Duration> {
        self.budget_micros.map(|micros| Duration::from_micros(micros.get()))
    }

    fn flags(&self) -> u8 {
        let budget = if self.budget_micros.is_some() { FLAG_BUDGET } else { 0 };
        let metadata = if self.metadata.is_empty() { 0 } else { FLAG_METADATA };
        let more = if self.total.is_some() { FLAG_MORE } else { 0 };
        let oneway = if self.oneway { FLAG_ONEWAY } else { 0 };
        let streams = if self.streams == CallStreams::NONE { 0 } else { FLAG_STREAMS };
        let compressed = if self.plain.is_some() { FLAG_COMPRESSED } else { 0 };
        compressed | budget | metadata | self.codec.bits() << CODEC_SHIFT | more | oneway | streams
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
        let header = FrameHeader { flags: self.flags(), ..FrameHeader::new(Kind::Request, call, len) };
        let mut prefix = Prefix::new(header.encode());
        prefix.put(self.method.to_le_bytes());
        if let Some(budget) = self.budget_micros {
            prefix.put(budget.get().to_le_bytes());
        }
        if let Some(total) = self.total {
            prefix.put(total.to_le_bytes());
        }
        if let Some(plain) = self.plain {
            prefix.put(plain.to_le_bytes());
        }
        if self.streams != CallStreams::NONE {
            prefix.put(self.streams.bits().to_le_bytes());
        }
        if !self.metadata.is_empty() {
            prefix.put(u32::try_from(self.metadata.len()).unwrap_or(u32::MAX).to_le_bytes());
        }
        prefix
    }

    /// Begins the frame in an empty buffer, with everything in front of the body and room for what is known later: the
    /// call's id, the length and, where there is one, the budget. Returns where the body begins.
    pub fn open_frame(&self, out: &mut Vec<u8>) -> usize {
        let usual = self.metadata.is_empty()
            && self.total.is_none()
            && self.plain.is_none()
            && self.streams == CallStreams::NONE;
        if let (Some(budget), true) = (self.budget_micros, usual) {
            // What nearly every call looks like, in one piece.
            let header = FrameHeader { flags: self.flags(), ..FrameHeader::new(Kind::Request, CallId::NONE, 0) };
            let mut prefix = [0; HEADER_BYTES + 16];
            let (head, fields) = prefix.split_at_mut(HEADER_BYTES);
            head.copy_from_slice(&header.encode());
            let (method, micros) = fields.split_at_mut(8);
            method.copy_from_slice(&self.method.to_le_bytes());
            micros.copy_from_slice(&budget.get().to_le_bytes());
            out.extend_from_slice(&prefix);
            return out.len();
        }
        out.extend_from_slice(self.prefix(CallId::NONE, 0).as_slice());
        if !self.metadata.is_empty() {
            out.extend_from_slice(self.metadata);
        }
        out.len()
    }

    /// Ends a frame that [`Self::open_frame`] began and the body was appended to: its length, with `linked` bytes to
    /// follow, and its budget, which must be there exactly where it was when the frame was begun.
    pub fn close_frame(frame: &mut [u8], linked: usize, budget_micros: Option<NonZeroU64>) {
        super::set_len(frame, linked);
        if let (Some(micros), Some(hole)) = (budget_micros, frame.get_mut(HEADER_BYTES + 8..HEADER_BYTES + 16)) {
            hole.copy_from_slice(&micros.get().to_le_bytes());
        }
    }

    /// Appends the whole frame, body included.
    pub fn put(&self, call: CallId, out: &mut impl BufMut) {
        out.put_slice(self.prefix(call, self.body.len()).as_slice());
        if !self.metadata.is_empty() {
            out.put_slice(self.metadata);
        }
        out.put_slice(self.body);
    }

    /// Reads the payload of a REQUEST whose header was decoded under the same rules.
    ///
    /// # Errors
    /// The first rule that was broken.
    pub fn decode(header: &FrameHeader, payload: &'a [u8], rules: &FrameRules) -> Result<Self, Violation> {
        let kind = Kind::Request;
        let mut cursor = Cursor::new(kind, payload);
        let method = cursor.u64("method id")?;
        let budget_micros = match header.flags & FLAG_BUDGET {
            0 => None,
            _ => Some(NonZeroU64::new(cursor.u64("budget")?).ok_or(Violation::FieldValue {
                kind,
                field: "budget",
                value: 0,
                expected: "at least 1 microsecond; a budget that is over is never sent",
            })?),
        };
        let max = super::fragment::body_bytes_max(false, rules);
        let total = super::fragment::read_total(&mut cursor, kind, header.flags & FLAG_MORE != 0, max)?;
        let plain = super::fragment::read_plain(&mut cursor, kind, header.flags & FLAG_COMPRESSED != 0, rules)?;
        let streams = match header.flags & FLAG_STREAMS {
            0 => CallStreams::NONE,
            _ => CallStreams::read(&mut cursor)?,
        };
        let metadata = super::fragment::read_metadata(&mut cursor, kind, header.flags & FLAG_METADATA != 0, rules)?;
        let body = cursor.rest();
        super::fragment::check_body(header, total, body, max)?;
        let codec = Codec::from_bits(header.flags >> CODEC_SHIFT);
        let oneway = header.flags & FLAG_ONEWAY != 0;
        Ok(RequestHead { method, budget_micros, oneway, codec, metadata, streams, total, plain, body })
    }
}
