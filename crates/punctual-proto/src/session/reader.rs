//! From bytes to frames and whole messages, outside of any lock: the reader belongs to the driver alone.

use crate::frame::{DataHead, DescribeHead, Phase};
use crate::frame::{FrameHeader, FrameRules, HEADER_BYTES, Kind, RequestHead, ResponseHead, Violation};
use crate::limits::Limits;
use crate::session::assembly::Assembly;
use bytes::Bytes;
use std::ops::Range;

/// Something for the session to take in.
#[derive(Debug)]
pub enum Item {
    /// A frame that is whole by itself: its payload lies in the bytes that were read.
    Frame(FrameHeader, Range<usize>),
    /// The first frame of a request in pieces: the fields in front of its body. Its place in the order of calls is here.
    Begun(Box<(FrameHeader, Bytes)>),
    /// A message in pieces that is whole now: the first frame's header, the fields in front of the body, the body.
    Whole(Box<(FrameHeader, Bytes, Bytes)>),
}

/// An item of a stream keeps at most so many times its own length alive.
const ITEM_OF_BLOCK: usize = 8;

/// How far a read came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that were used up.
    pub consumed: usize,
    /// Frames that were read.
    pub frames: usize,
    /// Whether a payload was long enough to be worth sharing instead of copying.
    pub has_large: bool,
}

/// Cuts what came from the transport into frames, checks each by the rules of the connection, and assembles messages.
#[derive(Debug)]
pub struct Reader {
    rules: FrameRules,
    assembly: Assembly,
    large_bytes_min: usize,
}

impl Reader {
    /// A reader under `rules`, holding unfinished messages within `limits`. Payloads from `large_bytes_min` count as
    /// large.
    #[must_use]
    pub fn new(rules: FrameRules, limits: &Limits, large_bytes_min: usize) -> Self {
        debug_assert_eq!(rules.phase, Phase::Open);
        let bytes_max = usize::try_from(limits.assembling_bytes_max()).unwrap_or(usize::MAX);
        Reader { rules, assembly: Assembly::new(bytes_max), large_bytes_min }
    }

    /// The rules.
    #[must_use]
    pub fn rules(&self) -> &FrameRules {
        &self.rules
    }

    /// Bytes of unfinished messages.
    #[must_use]
    pub fn assembling_bytes(&self) -> usize {
        self.assembly.bytes()
    }

    /// Whether `bytes` begin with a whole frame, as far as its header can be trusted.
    #[must_use]
    pub fn has_frame(bytes: &[u8]) -> bool {
        match bytes.first_chunk::<4>() {
            Some(len) if bytes.len() >= HEADER_BYTES => {
                bytes.len() - HEADER_BYTES >= usize::try_from(u32::from_le_bytes(*len)).unwrap_or(usize::MAX)
            }
            _ => false,
        }
    }

    /// Reads up to `frames_max` frames from the front of `bytes` into `items`.
    ///
    /// A header is judged as soon as its 16 bytes are there: a payload that would not be accepted is never waited for.
    ///
    /// # Errors
    /// The first rule that was broken. The items before it stand.
    pub fn read(
        &mut self,
        bytes: &[u8],
        frames_max: usize,
        items: &mut Vec<Item>,
        progress: &mut Progress,
    ) -> Result<(), Violation> {
        while progress.frames < frames_max {
            let Some(rest) = bytes.get(progress.consumed..) else { break };
            let Some((head, rest)) = rest.split_first_chunk::<HEADER_BYTES>() else { break };
            let header = FrameHeader::decode(head, &self.rules)?;
            let len = usize::try_from(header.len).unwrap_or(usize::MAX);
            let Some(payload) = rest.get(..len) else { break };
            let start = progress.consumed + HEADER_BYTES;
            progress.consumed = start + len;
            progress.frames += 1;
            match header.kind {
                Kind::Fragment => {
                    if let Some(whole) = self.assembly.fragment(&header, payload)? {
                        items.push(Item::Whole(Box::new(whole)));
                    }
                }
                _ if header.has_more() => self.begin(header, payload, items)?,
                kind => {
                    if kind == Kind::Cancel {
                        self.assembly.forget(header.call);
                    }
                    progress.has_large |= len >= self.large_bytes_min;
                    items.push(Item::Frame(header, start..start + len));
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, header: FrameHeader, payload: &[u8], items: &mut Vec<Item>) -> Result<(), Violation> {
        let (total, body) = match header.kind {
            Kind::Request => {
                let head = RequestHead::decode(&header, payload, &self.rules)?;
                (head.total, head.body)
            }
            Kind::Response => {
                let head = ResponseHead::decode(&header, payload, &self.rules)?;
                (head.total, head.body)
            }
            Kind::Data => {
                let head = DataHead::decode(&header, payload, &self.rules)?;
                (head.total, head.body)
            }
            _ => match DescribeHead::decode(&header, payload, &self.rules)? {
                DescribeHead::Reply { total, body, .. } => (total, body),
                DescribeHead::Query(_) => (None, &[][..]),
            },
        };
        let head = payload.get(..payload.len().saturating_sub(body.len())).unwrap_or_default();
        let head = Bytes::copy_from_slice(head);
        self.assembly.begin(header, head.clone(), total.unwrap_or(0), body)?;
        if header.kind == Kind::Request {
            items.push(Item::Begun(Box::new((header, head))));
        }
        Ok(())
    }
}

/// The bytes that a run's items point into.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// The same bytes, where parts of them may be kept without a copy.
    pub shared: Option<&'a Bytes>,
}

impl<'a> Block<'a> {
    /// The bytes of `range`; empty where it lies outside, which no item of the same read does.
    #[must_use]
    pub fn get(&self, range: &Range<usize>) -> &'a [u8] {
        self.bytes.get(range.clone()).unwrap_or_default()
    }

    /// The bytes of a stream's item, to keep. They may be kept for long, so that they are shared only where they are much
    /// of the block that would be kept with them.
    #[must_use]
    pub(crate) fn keep_item(&self, part: &[u8]) -> Bytes {
        if part.len() >= self.bytes.len() / ITEM_OF_BLOCK { self.keep(part) } else { Bytes::copy_from_slice(part) }
    }

    /// `part`, which must lie in these bytes, to keep: shared if it can be, else copied.
    #[must_use]
    pub fn keep(&self, part: &[u8]) -> Bytes {
        match self.shared {
            Some(shared) if !part.is_empty() => shared.slice_ref(part),
            _ => Bytes::copy_from_slice(part),
        }
    }
}
