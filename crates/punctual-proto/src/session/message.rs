//! A message on its way out: the fields in front of its body, and the body, copied or linked.

use crate::frame::{CallId, DataHead, DescribeHead, Prefix, RequestHead, ResponseHead, set_call};
use bytes::{Bytes, BytesMut};

/// The body of an outgoing message, or the whole frame of one that fits a frame.
#[derive(Debug, Default)]
pub struct Body<'a> {
    /// A frame that is complete but for its call, up to what follows it.
    frame: &'a mut [u8],
    /// Where in the frame the body begins.
    body_at: usize,
    /// What is copied behind the frame, or as the body.
    copied: &'a [u8],
    /// What is linked behind that.
    linked: Bytes,
    /// Where it is compressed, the bytes that it had before.
    plain: Option<u32>,
}

impl<'a> Body<'a> {
    /// A body that is copied into the batch. Bodies over one frame must be [`Body::shared`].
    #[must_use]
    pub fn copied(bytes: &'a [u8]) -> Self {
        Body { copied: bytes, ..Body::default() }
    }

    /// A body that is linked, or copied where it is so short that a copy is cheaper.
    #[must_use]
    pub fn shared(bytes: Bytes) -> Self {
        Body { linked: bytes, ..Body::default() }
    }

    /// A body that had `plain` bytes before it was compressed.
    #[must_use]
    pub fn compressed(bytes: Bytes, plain: u32) -> Self {
        Body { plain: Some(plain), ..Body::shared(bytes) }
    }

    /// Where it is compressed, the bytes that it had before.
    #[must_use]
    #[inline]
    pub fn plain(&self) -> Option<u32> {
        self.plain
    }

    /// A frame that was closed with the length of what follows it: the rest of the body, copied or linked. The message's
    /// head must be the one that the frame was opened with.
    #[must_use]
    #[inline]
    pub fn framed(frame: &'a mut [u8], body_at: usize, copied: &'a [u8], linked: Bytes) -> Self {
        Body { frame, body_at, copied, linked, plain: None }
    }

    /// Its bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.frame.len() - self.body_at.min(self.frame.len()) + self.copied.len() + self.linked.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of the body alone, appended.
    pub(crate) fn copy_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.frame.get(self.body_at..).unwrap_or_default());
        out.extend_from_slice(self.copied);
        out.extend_from_slice(&self.linked);
    }

    /// The bytes to keep: shared if they all were, else copied.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        let framed = self.frame.get(self.body_at..).unwrap_or_default();
        if framed.is_empty() && self.copied.is_empty() {
            return self.linked;
        }
        let mut all = BytesMut::with_capacity(framed.len() + self.copied.len() + self.linked.len());
        all.extend_from_slice(framed);
        all.extend_from_slice(self.copied);
        all.extend_from_slice(&self.linked);
        all.freeze()
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        if self.copied.is_empty() { &self.linked } else { self.copied }
    }

    /// Forgets the frame but for the body in it: its head changes, and so must be written anew.
    pub(crate) fn unframe(&mut self) {
        if self.frame.is_empty() {
            return;
        }
        if self.copied.is_empty() && self.linked.is_empty() {
            let frame: &'a mut [u8] = std::mem::take(&mut self.frame);
            let frame: &'a [u8] = frame;
            self.copied = frame.get(self.body_at..).unwrap_or_default();
        } else {
            *self = Body::shared(std::mem::take(self).into_bytes());
        }
    }

    /// The frame, ready to be sent for `call`, and what is copied behind it.
    #[inline]
    pub(crate) fn frame_for(&mut self, call: CallId) -> Option<(&[u8], &[u8])> {
        if self.frame.is_empty() {
            return None;
        }
        set_call(self.frame, call);
        Some((self.frame, self.copied))
    }

    /// The bytes of the whole frame, where it is one.
    #[inline]
    pub(crate) fn framed_len(&self) -> Option<usize> {
        (!self.frame.is_empty()).then(|| self.frame.len() + self.copied.len() + self.linked.len())
    }

    /// The linked part, which is gone afterwards.
    #[inline]
    pub(crate) fn take_linked(&mut self) -> Bytes {
        std::mem::take(&mut self.linked)
    }

    #[inline]
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

impl MessageHead for DataHead<'_> {
    fn announce(&mut self, total: u32) {
        self.total = Some(total);
    }

    fn head_bytes(&self) -> usize {
        DataHead::head_bytes(self)
    }

    fn prefix(&self, call: CallId, body_bytes: usize) -> Prefix {
        DataHead::prefix(self, call, body_bytes)
    }

    fn metadata(&self) -> &[u8] {
        &[]
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
