//! DATA, END and CREDIT: the frames of streams. They exist on connections that agreed on the streams capability.

use crate::codec::Codec;
use crate::frame::{CallId, Cursor, FrameHeader, FrameRules, Kind, Outcome, Prefix, Violation, response};
use bytes::BufMut;

/// The item counts against the connection's window.
const FLAG_CHARGED: u8 = 1;
const CODEC_SHIFT: u8 = 2;
const FLAG_MORE: u8 = super::FRAGMENT_FLAG_MORE;
const FLAG_METADATA: u8 = 1 << 5;
/// Of an item, where the compression capability was agreed.
pub(super) const FLAG_COMPRESSED: u8 = 1 << 5;
const OUTCOME_MASK: u8 = 0b11;
pub(super) const DATA_FLAGS: u8 = FLAG_CHARGED | 0b11 << CODEC_SHIFT | FLAG_MORE;
pub(super) const END_FLAGS: u8 = OUTCOME_MASK | 0b11 << CODEC_SHIFT | FLAG_METADATA;

const RETURNED: u16 = 1 << 15;

/// Bytes of the fields of a DATA frame whose length the flags alone decide.
pub(super) const fn data_fixed_bytes(flags: u8) -> u32 {
    let total = if flags & FLAG_MORE != 0 { 4 } else { 0 };
    let plain = if flags & FLAG_COMPRESSED != 0 { 4 } else { 0 };
    total + plain
}

/// Bytes of the fields of an END frame whose length the flags alone decide.
pub(super) const fn end_fixed_bytes(flags: u8) -> u32 {
    if flags & FLAG_METADATA != 0 { 4 } else { 0 }
}

/// The rule that the flags of an END frame break, if any.
pub(super) const fn check_end_flags(flags: u8) -> Option<&'static str> {
    match response::check_flags(flags & !FLAG_METADATA) {
        None if flags & OUTCOME_MASK == 0 && flags & !FLAG_METADATA != 0 => Some("a clean end sends codec 0"),
        rule => rule,
    }
}

/// The streams that a call has, as its request announces them: bits 0 to 14 the arguments that are streams, bit 15 whether
/// it returns one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct CallStreams(u16);

impl CallStreams {
    /// None.
    pub const NONE: CallStreams = CallStreams(0);

    /// The most argument streams of a call.
    pub const ARGUMENTS_MAX: u16 = RETURNED - 1;

    /// So many arguments are streams, at most [`CallStreams::ARGUMENTS_MAX`]; `returned` where the result is one.
    #[must_use]
    pub const fn new(arguments: u16, returned: bool) -> Self {
        CallStreams((arguments & (RETURNED - 1)) | if returned { RETURNED } else { 0 })
    }

    /// How many arguments are streams.
    #[must_use]
    pub const fn arguments(self) -> u16 {
        self.0 & (RETURNED - 1)
    }

    /// Whether the result is a stream.
    #[must_use]
    pub const fn returned(self) -> bool {
        self.0 & RETURNED != 0
    }

    /// How many they are in all.
    #[must_use]
    pub const fn count(self) -> usize {
        self.arguments() as usize + self.returned() as usize
    }

    pub(super) const fn bits(self) -> u16 {
        self.0
    }

    pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Self, Violation> {
        let (kind, field) = (Kind::Request, "number of streams");
        match cursor.u16(field)? {
            0 => Err(Violation::FieldValue { kind, field, value: 0, expected: "at least one, or no streams flag" }),
            bits => Ok(CallStreams(bits)),
        }
    }
}

/// One item of a stream: `[total u32] · [plain u32] · item`, whole or its first piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataHead<'a> {
    /// The stream.
    pub stream: u16,
    /// Whether the item counts against the connection's window, beside that of its stream.
    pub charged: bool,
    /// How the item is encoded.
    pub codec: Codec,
    /// Where fragments follow, the bytes of the whole item.
    pub total: Option<u32>,
    /// Where the item is compressed, the bytes that it had before: what it costs.
    pub plain: Option<u32>,
    /// The item, or its first piece.
    pub body: &'a [u8],
}

impl<'a> DataHead<'a> {
    fn flags(&self) -> u8 {
        let charged = if self.charged { FLAG_CHARGED } else { 0 };
        let more = if self.total.is_some() { FLAG_MORE } else { 0 };
        let compressed = if self.plain.is_some() { FLAG_COMPRESSED } else { 0 };
        compressed | charged | self.codec.bits() << CODEC_SHIFT | more
    }

    /// Payload bytes in front of the item.
    #[must_use]
    pub fn head_bytes(&self) -> usize {
        data_fixed_bytes(self.flags()) as usize
    }

    /// The header and fixed fields of the frame, to be followed by `body_bytes` of the item. [`Self::body`] is not read.
    #[must_use]
    pub fn prefix(&self, call: CallId, body_bytes: usize) -> Prefix {
        let len = u32::try_from(self.head_bytes() + body_bytes).unwrap_or(u32::MAX);
        let header =
            FrameHeader { flags: self.flags(), stream: self.stream, ..FrameHeader::new(Kind::Data, call, len) };
        let mut prefix = Prefix::new(header.encode());
        if let Some(total) = self.total {
            prefix.put(total.to_le_bytes());
        }
        if let Some(plain) = self.plain {
            prefix.put(plain.to_le_bytes());
        }
        prefix
    }

    /// Appends the whole frame.
    pub fn put(&self, call: CallId, out: &mut impl BufMut) {
        out.put_slice(self.prefix(call, self.body.len()).as_slice());
        out.put_slice(self.body);
    }

    /// Reads the payload of a DATA frame whose header was decoded under the same rules.
    ///
    /// # Errors
    /// The first rule that was broken.
    pub fn decode(header: &FrameHeader, payload: &'a [u8], rules: &FrameRules) -> Result<Self, Violation> {
        let mut cursor = Cursor::new(Kind::Data, payload);
        let max = super::fragment::body_bytes_max(false, rules);
        let total = super::fragment::read_total(&mut cursor, Kind::Data, header.flags & FLAG_MORE != 0, max)?;
        let compressed = header.flags & FLAG_COMPRESSED != 0;
        let plain = super::fragment::read_plain(&mut cursor, Kind::Data, compressed, rules)?;
        let body = cursor.rest();
        super::fragment::check_body(header, total, body, max)?;
        Ok(DataHead {
            stream: header.stream,
            charged: header.flags & FLAG_CHARGED != 0,
            codec: Codec::from_bits(header.flags >> CODEC_SHIFT),
            total,
            plain,
            body,
        })
    }
}

/// The end of a stream: `[metadata length u32 · metadata] · body`. The metadata are the stream's trailers. A clean end has
/// no body, another one the error that a response would have. That of the returned stream ends the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndHead<'a> {
    /// The stream.
    pub stream: u16,
    /// Whether the stream came to its end, or with what it failed.
    pub outcome: Outcome,
    /// How the application's error is encoded; [`Codec::Compact`] where it is none.
    pub codec: Codec,
    /// Encoded trailers, checked for their length only; empty where there are none.
    pub metadata: &'a [u8],
    /// The error. It lies in the one frame with everything else.
    pub body: &'a [u8],
}

impl<'a> EndHead<'a> {
    fn flags(&self) -> u8 {
        let codec = if self.outcome == Outcome::App { self.codec.bits() } else { 0 };
        let metadata = if self.metadata.is_empty() { 0 } else { FLAG_METADATA };
        self.outcome as u8 | codec << CODEC_SHIFT | metadata
    }

    /// Appends the whole frame.
    pub fn put(&self, call: CallId, out: &mut impl BufMut) {
        let fixed = end_fixed_bytes(self.flags()) as usize;
        let len = u32::try_from(fixed + self.metadata.len() + self.body.len()).unwrap_or(u32::MAX);
        let header = FrameHeader { flags: self.flags(), stream: self.stream, ..FrameHeader::new(Kind::End, call, len) };
        out.put_slice(&header.encode());
        if !self.metadata.is_empty() {
            out.put_u32_le(u32::try_from(self.metadata.len()).unwrap_or(u32::MAX));
            out.put_slice(self.metadata);
        }
        out.put_slice(self.body);
    }

    /// Reads the payload of an END frame whose header was decoded under the same rules.
    ///
    /// # Errors
    /// The first rule that was broken.
    pub fn decode(header: &FrameHeader, payload: &'a [u8], rules: &FrameRules) -> Result<Self, Violation> {
        let kind = Kind::End;
        let mut cursor = Cursor::new(kind, payload);
        let outcome = Outcome::from_bits(header.flags).ok_or(Violation::FlagCombination {
            kind,
            flags: header.flags,
            rule: "outcome 3 does not exist",
        })?;
        let metadata = super::fragment::read_metadata(&mut cursor, kind, header.flags & FLAG_METADATA != 0, rules)?;
        let body = cursor.rest();
        if outcome == Outcome::Ok && !body.is_empty() {
            return Err(Violation::TrailingBytes { kind, extra: body.len() as u64 });
        }
        super::fragment::check_body(header, None, body, super::fragment::body_bytes_max(true, rules))?;
        let codec = Codec::from_bits(header.flags >> CODEC_SHIFT);
        Ok(EndHead { stream: header.stream, outcome, codec, metadata, body })
    }
}

/// Permission to send this many more bytes; call id 0 and stream 0 is the connection's own window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Credit(pub u32);

impl Credit {
    /// Appends the frame.
    pub fn put(self, call: CallId, stream: u16, out: &mut impl BufMut) {
        out.put_slice(&FrameHeader { stream, ..FrameHeader::new(Kind::Credit, call, 4) }.encode());
        out.put_u32_le(self.0);
    }

    /// Reads the payload of a credit frame.
    ///
    /// # Errors
    /// Where it is not four bytes.
    pub fn decode(payload: &[u8]) -> Result<Self, Violation> {
        let mut cursor = Cursor::new(Kind::Credit, payload);
        let credit = Credit(cursor.u32("credit")?);
        cursor.end()?;
        Ok(credit)
    }
}
