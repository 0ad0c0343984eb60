//! A message on its way out: the fields in front of its body, and the body, copied or linked.

use crate::frame::{CallId, DescribeHead, Prefix, RequestHead, ResponseHead};
use bytes::Bytes;

/// The body of an outgoing message. One of the two parts is empty.
#[derive(Debug, Default)]
pub struct Body<'a> {
    copied: &'a [u8],
    linked: Bytes,
}

impl<'a> Body<'a> {
    /// A body that is copied into the batch. Bodies over one frame must be [`Body::shared`].
    #[must_use]
    pub fn copied(bytes: &'a [u8]) -> Self {
        Body { copied: bytes, linked: Bytes::new() }
    }

    /// A body that is linked, or copied where it is so short that a copy is cheaper.
    #[must_use]
    pub fn shared(bytes: Bytes) -> Self {
        Body { copied: &[], linked: bytes }
    }

    /// Its bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.copied.len() + self.linked.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes to keep: shared if they were, else copied.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        if self.copied.is_empty() { self.linked } else { Bytes::copy_from_slice(self.copied) }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        if self.copied.is_empty() { &self.linked } else { self.copied }
    }

    /// The linked part, which is gone afterwards.
    pub(crate) fn take_linked(&mut self) -> Bytes {
        std::mem::take(&mut self.linked)
    }

    pub(crate) fn is_linked(&self) -> bool {
        !self.linked.is_empty()
    }
}

/// What stands in front of a body.
pub(crate) trait MessageHead {
    /// Says that the body is cut, and how long it is in all.
    fn announce(&mut self, total: u32);
    /// Payload bytes in front of the body.
    fn head_bytes(&self) -> usize;
    /// The header and the fixed fields.
    fn prefix(&self, call: CallId, body_bytes: usize) -> Prefix;
    /// What comes between the fixed fields and the body.
    fn metadata(&self) -> &[u8];
}

impl MessageHead for RequestHead<'_> {
    fn announce(&mut self, total: u32) {
        self.total = Some(total);
    }

    fn head_bytes(&self) -> usize {
        RequestHead::head_bytes(self)
    }

    fn prefix(&self, call: CallId, body_bytes: usize) -> Prefix {
        RequestHead::prefix(self, call, body_bytes)
    }

    fn metadata(&self) -> &[u8] {
        self.metadata
    }
}

impl MessageHead for ResponseHead<'_> {
    fn announce(&mut self, total: u32) {
        self.total = Some(total);
    }

    fn head_bytes(&self) -> usize {
        ResponseHead::head_bytes(self)
    }

    fn prefix(&self, call: CallId, body_bytes: usize) -> Prefix {
        ResponseHead::prefix(self, call, body_bytes)
    }

    fn metadata(&self) -> &[u8] {
        self.metadata
    }
}

impl MessageHead for DescribeHead<'_> {
    fn announce(&mut self, announced: u32) {
        if let DescribeHead::Reply { total, .. } = self {
            *total = Some(announced);
        }
    }

    fn head_bytes(&self) -> usize {
        match self {
            DescribeHead::Reply { total: Some(_), .. } => 4,
            _ => 0,
        }
    }

    fn prefix(&self, call: CallId, body_bytes: usize) -> Prefix {
        DescribeHead::prefix(self, call, body_bytes)
    }

    fn metadata(&self) -> &[u8] {
        &[]
    }
}
