//! The arguments of a method, which may be bytes and nothing else.

use bytes::Bytes;

/// The struct of a method's arguments. The service macro implements it; for a method whose only argument is `Bytes` it
/// gives the bytes away as they are, so that no codec touches them.
pub trait Args: Sized {
    /// The bytes, where they are all there is.
    fn raw(&self) -> Option<&Bytes> {
        None
    }

    /// From the bytes, where they are all there is.
    #[must_use]
    fn from_raw(raw: Bytes) -> Option<Self> {
        let _ = raw;
        None
    }
}

/// A method without arguments.
impl Args for () {}

/// Bytes that were encoded elsewhere, as tools send them.
impl Args for Bytes {
    fn raw(&self) -> Option<&Bytes> {
        Some(self)
    }

    fn from_raw(raw: Bytes) -> Option<Self> {
        Some(raw)
    }
}
