//! A bounds-checked reader over one payload, which names the field that fails.

use crate::frame::{Kind, Violation};

/// Reads fields from the front of a payload.
pub(crate) struct Cursor<'a> {
    kind: Kind,
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(kind: Kind, payload: &'a [u8]) -> Self {
        Cursor { kind, rest: payload }
    }

    pub(crate) fn take(&mut self, field: &'static str, len: u64) -> Result<&'a [u8], Violation> {
        let cut = usize::try_from(len).ok().and_then(|len| self.rest.split_at_checked(len));
        let (taken, rest) = cut.ok_or_else(|| self.truncated(field, len))?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Violation> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or_else(|| self.truncated(field, N as u64))?;
        self.rest = rest;
        Ok(*taken)
    }

    #[cold]
    fn truncated(&self, field: &'static str, need: u64) -> Violation {
        Violation::Truncated { kind: self.kind, field, need, have: self.rest.len() as u64 }
    }

    #[inline]
    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, Violation> {
        self.array::<1>(field).map(|[byte]| byte)
    }

    #[inline]
    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, Violation> {
        self.array(field).map(u16::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, Violation> {
        self.array(field).map(u32::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u64(&mut self, field: &'static str) -> Result<u64, Violation> {
        self.array(field).map(u64::from_le_bytes)
    }

    pub(crate) fn str(&mut self, field: &'static str, len: u64) -> Result<&'a str, Violation> {
        let bytes = self.take(field, len)?;
        std::str::from_utf8(bytes).map_err(|_| Violation::NotUtf8 { kind: self.kind, field })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What is left; the cursor is at its end afterwards.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub(crate) fn rest_str(&mut self, field: &'static str) -> Result<&'a str, Violation> {
        self.str(field, self.rest.len() as u64)
    }

    pub(crate) fn end(&self) -> Result<(), Violation> {
        match self.rest.len() {
            0 => Ok(()),
            extra => Err(Violation::TrailingBytes { kind: self.kind, extra: extra as u64 }),
        }
    }
}
