//! The wire form of a status, the same for every codec so that it can be read whatever else failed.
//!
//! `code u8 · retry_after u64 µs (0 none) · message length u32 · message · limit name length u8 · [limit name · limit
//! value u64] · detail count u8 · (name length u8 · name · value length u16 · value)*`

use crate::status::{Code, DETAILS_BYTES_MAX, DETAILS_MAX, Inner, MESSAGE_BYTES_MAX, NAME_BYTES_MAX, Status, cut_text};
use bytes::BufMut;
use std::fmt;
use std::time::Duration;

/// Bytes of the shortest wire form: everything empty.
pub(crate) const WIRE_BYTES_MIN: u32 = 1 + 8 + 4 + 1 + 1;

/// Bytes of the longest.
const WIRE_BYTES_MAX: usize =
    WIRE_BYTES_MIN as usize + MESSAGE_BYTES_MAX + NAME_BYTES_MAX + 8 + DETAILS_MAX * 3 + DETAILS_BYTES_MAX;

/// Whole microseconds, rounded up, at least one: zero means "none" on the wire.
pub(super) fn micros_up(wait: Duration) -> Duration {
    let micros = wait.as_nanos().div_ceil(1_000).max(1);
    Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

impl Status {
    /// The most bytes that [`encode`](Self::encode) appends.
    pub const WIRE_BYTES_MAX: usize = WIRE_BYTES_MAX;

    /// The bytes that [`encode`](Self::encode) appends.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        let limit = self.limit().map_or(0, |(name, _)| name.len() + 8);
        let details: usize = self.details().map(|(name, value)| 3 + name.len() + value.len()).sum();
        WIRE_BYTES_MIN as usize + self.message().len() + limit + details
    }

    /// Appends the wire form.
    pub fn encode(&self, out: &mut impl BufMut) {
        out.put_u8(self.0.code as u8);
        let micros = self.0.retry_after.map_or(0, |wait| u64::try_from(wait.as_micros()).unwrap_or(u64::MAX));
        out.put_u64_le(micros);
        // The constructors bound every length below, so none of these conversions can lose anything.
        out.put_u32_le(u32::try_from(self.0.message.len()).unwrap_or(u32::MAX));
        out.put_slice(self.0.message.as_bytes());
        match &self.0.limit {
            Some((name, value)) => {
                out.put_u8(u8::try_from(name.len()).unwrap_or(u8::MAX));
                out.put_slice(name.as_bytes());
                out.put_u64_le(*value);
            }
            None => out.put_u8(0),
        }
        out.put_u8(u8::try_from(self.0.details.len()).unwrap_or(u8::MAX));
        for (name, value) in &self.0.details {
            out.put_u8(u8::try_from(name.len()).unwrap_or(u8::MAX));
            out.put_slice(name.as_bytes());
            out.put_u16_le(u16::try_from(value.len()).unwrap_or(u16::MAX));
            out.put_slice(value);
        }
    }

    /// Reads the wire form.
    ///
    /// # Errors
    /// Where it is cut short, has bytes behind its end, is over one of its limits, is not UTF-8 or has code 0.
    pub fn decode(bytes: &[u8]) -> Result<Status, StatusError> {
        let mut rest = bytes;
        let code = Code::from_byte(take_u8(&mut rest, "code")?).ok_or(StatusError::CodeZero)?;
        let retry_after = match u64::from_le_bytes(take_array(&mut rest, "retry_after")?) {
            0 => None,
            micros => Some(Duration::from_micros(micros)),
        };
        let message_len = u32::from_le_bytes(take_array(&mut rest, "message length")?);
        let message = take_str(&mut rest, "message", message_len as usize, MESSAGE_BYTES_MAX)?.to_owned();
        let limit = match take_u8(&mut rest, "limit name length")? {
            0 => None,
            len => {
                let name = take_str(&mut rest, "limit name", usize::from(len), NAME_BYTES_MAX)?.to_owned();
                Some((name, u64::from_le_bytes(take_array(&mut rest, "limit value")?)))
            }
        };
        let count = usize::from(take_u8(&mut rest, "detail count")?);
        if count > DETAILS_MAX {
            return Err(StatusError::TooLong { field: "detail count", value: count, max: DETAILS_MAX });
        }
        let mut details = Vec::new();
        let mut held = 0;
        for _ in 0..count {
            let name_len = usize::from(take_u8(&mut rest, "detail name length")?);
            if name_len == 0 {
                return Err(StatusError::EmptyName);
            }
            let name = take_str(&mut rest, "detail name", name_len, NAME_BYTES_MAX)?;
            let value_len = usize::from(u16::from_le_bytes(take_array(&mut rest, "detail value length")?));
            held += name_len + value_len;
            if held > DETAILS_BYTES_MAX {
                return Err(StatusError::TooLong { field: "details", value: held, max: DETAILS_BYTES_MAX });
            }
            details.push((name.to_owned(), take(&mut rest, "detail value", value_len)?.to_vec()));
        }
        match rest.len() {
            0 => Ok(Status(Box::new(Inner { code, message, retry_after, limit, details }))),
            extra => Err(StatusError::Trailing { extra }),
        }
    }

    /// The same status with its text cut further, so that the wire form fits `bytes_max` where that is possible at all:
    /// for a peer whose message limit is smaller than a long text.
    #[must_use]
    pub fn fitted(mut self, bytes_max: usize) -> Status {
        let over = self.encoded_len().saturating_sub(bytes_max);
        if over > 0 {
            let mark = crate::status::CUT_MARK;
            let keep = self.0.message.len().saturating_sub(over + mark.len());
            self.0.message.truncate(cut_text(&self.0.message, keep).len());
            self.0.message.push_str(mark);
        }
        self
    }
}

fn take<'a>(rest: &mut &'a [u8], field: &'static str, len: usize) -> Result<&'a [u8], StatusError> {
    let (taken, after) = rest.split_at_checked(len).ok_or(StatusError::Truncated { field })?;
    *rest = after;
    Ok(taken)
}

fn take_array<const N: usize>(rest: &mut &[u8], field: &'static str) -> Result<[u8; N], StatusError> {
    let (taken, after) = rest.split_first_chunk::<N>().ok_or(StatusError::Truncated { field })?;
    *rest = after;
    Ok(*taken)
}

fn take_u8(rest: &mut &[u8], field: &'static str) -> Result<u8, StatusError> {
    take_array::<1>(rest, field).map(|[byte]| byte)
}

fn take_str<'a>(rest: &mut &'a [u8], field: &'static str, len: usize, max: usize) -> Result<&'a str, StatusError> {
    if len > max {
        return Err(StatusError::TooLong { field, value: len, max });
    }
    std::str::from_utf8(take(rest, field, len)?).map_err(|_| StatusError::NotUtf8 { field })
}

/// Why the wire form of a status cannot be read. The call that it answers fails with DataLoss; the connection lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StatusError {
    /// The code is 0, which is no failure.
    CodeZero,
    /// A detail without a name.
    EmptyName,
    /// It ends inside this field.
    Truncated {
        /// The field.
        field: &'static str,
    },
    /// A field over its limit.
    TooLong {
        /// The field.
        field: &'static str,
        /// Its length or count.
        value: usize,
        /// The most allowed.
        max: usize,
    },
    /// A text field that is not UTF-8.
    NotUtf8 {
        /// The field.
        field: &'static str,
    },
    /// Bytes behind the end.
    Trailing {
        /// How many.
        extra: usize,
    },
}

impl StatusError {
    /// A short stable name, for metrics and test vectors.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            StatusError::CodeZero => "code_zero",
            StatusError::EmptyName => "empty_name",
            StatusError::Truncated { .. } => "truncated",
            StatusError::TooLong { .. } => "too_long",
            StatusError::NotUtf8 { .. } => "not_utf8",
            StatusError::Trailing { .. } => "trailing",
        }
    }
}

impl fmt::Display for StatusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StatusError::CodeZero => f.write_str("a status with code 0, which is no failure"),
            StatusError::EmptyName => f.write_str("a detail of a status has no name"),
            StatusError::Truncated { field } => write!(f, "a status ends inside its {field}"),
            StatusError::TooLong { field, value, max } => {
                write!(f, "the {field} of a status is {value}; the limit is {max}")
            }
            StatusError::NotUtf8 { field } => write!(f, "the {field} of a status is not UTF-8"),
            StatusError::Trailing { extra } => write!(f, "a status has {extra} bytes behind its end"),
        }
    }
}

impl std::error::Error for StatusError {}
