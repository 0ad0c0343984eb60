//! Call metadata: ordered name and value pairs, kept in the form in which they cross the wire.
//!
//! One entry is a length byte, the name, a little-endian u16 length and the value. Keeping the encoded form makes a
//! clone a reference count, an empty value free, and passing it on a copy.

use bytes::{BufMut, Bytes, BytesMut};
use std::fmt;

/// Name and value pairs that travel with a call. Names may repeat; order is kept.
///
/// Names are 1 to 255 bytes of `a-z 0-9 - _ .`; values are up to 65,535 bytes of anything. The whole is bounded by the
/// connection's metadata limit (16 KiB by default).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Metadata(Bytes);

impl Metadata {
    /// No entries.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Checks and takes the encoded form.
    ///
    /// # Errors
    /// Where an entry is cut short, or a name is empty or has a byte outside the allowed set.
    pub fn from_encoded(encoded: Bytes) -> Result<Self, MetadataError> {
        let mut rest = &encoded[..];
        while !rest.is_empty() {
            let (name, _, after) = split(rest).ok_or(MetadataError::Truncated)?;
            check_name(name)?;
            rest = after;
        }
        Ok(Metadata(encoded))
    }

    /// The encoded form; empty for no entries.
    #[must_use]
    pub fn as_encoded(&self) -> &Bytes {
        &self.0
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an entry behind the others.
    ///
    /// # Errors
    /// Where the name is empty, over 255 bytes or has a byte outside the allowed set, or the value is over 65,535 bytes.
    pub fn append(&mut self, name: &str, value: impl AsRef<[u8]>) -> Result<(), MetadataError> {
        let value = value.as_ref();
        check_name(name.as_bytes())?;
        let name_len = u8::try_from(name.len()).map_err(|_| MetadataError::NameTooLong(name.len()))?;
        let value_len = u16::try_from(value.len()).map_err(|_| MetadataError::ValueTooLong(value.len()))?;
        let mut grown = BytesMut::with_capacity(self.0.len() + 3 + name.len() + value.len());
        grown.put_slice(&self.0);
        grown.put_u8(name_len);
        grown.put_slice(name.as_bytes());
        grown.put_u16_le(value_len);
        grown.put_slice(value);
        self.0 = grown.freeze();
        Ok(())
    }

    /// The first value of `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(entry, _)| *entry == name).map(|(_, value)| value)
    }

    /// The first value of `name`, if it is UTF-8.
    #[must_use]
    pub fn get_str(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// All entries in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || {
            let (name, value, after) = split(rest)?;
            rest = after;
            Some((std::str::from_utf8(name).unwrap_or_default(), value))
        })
    }
}

fn split(rest: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (name_len, rest) = rest.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(*name_len))?;
    let (value_len, rest) = rest.split_first_chunk::<2>()?;
    let (value, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*value_len)))?;
    Some((name, value, rest))
}

fn check_name(name: &[u8]) -> Result<(), MetadataError> {
    let fine = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.');
    if name.is_empty() || !name.iter().all(fine) {
        return Err(MetadataError::BadName(String::from_utf8_lossy(name).into_owned()));
    }
    Ok(())
}

impl fmt::Debug for Metadata {
    /// Names only: values may be tokens.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|(name, _)| name)).finish()
    }
}

/// Why metadata was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetadataError {
    /// An entry ends before its stated length.
    Truncated,
    /// A name is empty or has a byte outside `a-z 0-9 - _ .`.
    BadName(String),
    /// A name of this many bytes; the limit is 255.
    NameTooLong(usize),
    /// A value of this many bytes; the limit is 65,535.
    ValueTooLong(usize),
    /// All entries together have this many bytes.
    TooLong {
        /// With the new one.
        bytes: usize,
        /// The connection's `metadata_bytes_max`.
        max: usize,
    },
    /// There is no reply that metadata could go with.
    NoReply,
}

impl fmt::Display for MetadataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetadataError::Truncated => f.write_str("a metadata entry is cut short"),
            MetadataError::BadName(name) => {
                write!(f, "the metadata name {name:?} is not 1 or more of a-z 0-9 - _ .")
            }
            MetadataError::NameTooLong(len) => write!(f, "a metadata name has {len} bytes; the limit is 255"),
            MetadataError::ValueTooLong(len) => write!(f, "a metadata value has {len} bytes; the limit is 65535"),
            MetadataError::TooLong { bytes, max } => {
                write!(f, "the metadata have {bytes} bytes; metadata_bytes_max of this connection is {max}")
            }
            MetadataError::NoReply => f.write_str(
                "there is no reply that metadata could go with: the call is one-way, answered or over, or a durable task",
            ),
        }
    }
}

impl std::error::Error for MetadataError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was appended comes back in order, through the wire form, and lookups take the first.
    #[test]
    fn entries_survive_the_wire_form() {
        let mut metadata = Metadata::new();
        metadata.append("tenant", "a").unwrap();
        metadata.append("tenant", "b").unwrap();
        metadata.append("raw", [0u8, 255]).unwrap();
        let back = Metadata::from_encoded(metadata.as_encoded().clone()).unwrap();
        assert_eq!(back.get_str("tenant"), Some("a"));
        assert_eq!(back.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["tenant", "tenant", "raw"]);
        assert_eq!(back.get("raw"), Some(&[0u8, 255][..]));
    }

    /// Every cut of a valid encoding inside an entry is refused, never read past.
    #[test]
    fn cuts_are_refused() {
        let mut metadata = Metadata::new();
        metadata.append("name", "value").unwrap();
        let whole = metadata.as_encoded().clone();
        for end in 1..whole.len() {
            assert_eq!(Metadata::from_encoded(whole.slice(..end)), Err(MetadataError::Truncated), "cut at {end}");
        }
    }

    /// Names are checked on both ways in, and values never show in debug output.
    #[test]
    fn names_are_checked_and_values_hidden() {
        let mut metadata = Metadata::new();
        assert!(metadata.append("Bad", "x").is_err());
        assert!(metadata.append("", "x").is_err());
        assert!(Metadata::from_encoded(Bytes::from_static(b"\x01A\x00\x00")).is_err());
        metadata.append("token", "s3cret").unwrap();
        assert!(!format!("{metadata:?}").contains("s3cret"));
    }
}
