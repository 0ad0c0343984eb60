//! DESCRIBE: the contract of a server, asked for and given.

use crate::frame::{CallId, Cursor, FrameHeader, FrameRules, Kind, Prefix, Violation};
use crate::handshake::SERVICE_NAME_BYTES_MAX;
use bytes::BufMut;

const FLAG_REPLY: u8 = 1;
const FLAG_FAILED: u8 = 1 << 1;
pub(super) const FLAG_MORE: u8 = super::FRAGMENT_FLAG_MORE;
pub(super) const FLAGS: u8 = FLAG_REPLY | FLAG_FAILED | FLAG_MORE;

/// The rule that the flags of a server's describe frame break, if any.
pub(super) const fn check_flags(flags: u8) -> Option<&'static str> {
    if flags & FLAG_REPLY == 0 { Some("a server sends DESCRIBE only as a reply") } else { None }
}

pub(super) const fn fixed_bytes(flags: u8) -> u32 {
    if flags & FLAG_MORE != 0 { 4 } else { 0 }
}

/// A describe frame: from a client the service's name (empty for all), from a server the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DescribeHead<'a> {
    /// Describe this service, or all of them.
    Query(&'a str),
    /// `[total u32] · body`.
    Reply {
        /// Whether the body is a [`Status`](crate::status::Status) in its wire form; else it is a JSON array of
        /// [`ServiceDescription`](crate::describe::ServiceDescription).
        failed: bool,
        /// Where fragments follow, the bytes of the whole body.
        total: Option<u32>,
        /// The body, or its first piece.
        body: &'a [u8],
    },
}

impl<'a> DescribeHead<'a> {
    /// The header and fixed fields of the frame, to be followed by `body_bytes` of the name or the body.
    #[must_use]
    pub fn prefix(&self, call: CallId, body_bytes: usize) -> Prefix {
        let (flags, total) = match *self {
            DescribeHead::Query(_) => (0, None),
            DescribeHead::Reply { failed, total, .. } => {
                let failed = if failed { FLAG_FAILED } else { 0 };
                let more = if total.is_some() { FLAG_MORE } else { 0 };
                (FLAG_REPLY | failed | more, total)
            }
        };
        let len = u32::try_from(fixed_bytes(flags) as usize + body_bytes).unwrap_or(u32::MAX);
        let mut prefix = Prefix::new(FrameHeader { flags, ..FrameHeader::new(Kind::Describe, call, len) }.encode());
        if let Some(total) = total {
            prefix.put(total.to_le_bytes());
        }
        prefix
    }

    /// Appends the whole frame. A name over its limit is cut, and so names no service.
    pub fn put(&self, call: CallId, out: &mut impl BufMut) {
        let body = match *self {
            DescribeHead::Query(service) => {
                crate::status::cut_text(service, SERVICE_NAME_BYTES_MAX as usize).as_bytes()
            }
            DescribeHead::Reply { body, .. } => body,
        };
        out.put_slice(self.prefix(call, body.len()).as_slice());
        out.put_slice(body);
    }

    /// Reads the payload of a describe frame whose header was decoded under the same rules.
    ///
    /// # Errors
    /// The first rule that was broken.
    pub fn decode(header: &FrameHeader, payload: &'a [u8], rules: &FrameRules) -> Result<Self, Violation> {
        let mut cursor = Cursor::new(Kind::Describe, payload);
        if header.flags & FLAG_REPLY == 0 {
            return Ok(DescribeHead::Query(cursor.rest_str("service name")?));
        }
        let failed = header.flags & FLAG_FAILED != 0;
        let max = super::fragment::body_bytes_max(failed, rules);
        let total = super::fragment::read_total(&mut cursor, Kind::Describe, header.flags & FLAG_MORE != 0, max)?;
        let body = cursor.rest();
        super::fragment::check_body(header, total, body, max)?;
        Ok(DescribeHead::Reply { failed, total, body })
    }
}
