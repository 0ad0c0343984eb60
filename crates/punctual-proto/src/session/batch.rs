//! A batch of finished frames: one growing buffer with large payloads linked in between.

use bytes::Bytes;
use std::io::IoSlice;

/// Slices of one vectored write. Linux refuses more than 1,024; past a few dozen the call itself no longer shows.
pub const SLICES_MAX: usize = 64;

/// Bytes of one vectored write: what a socket buffer takes at once, so that more would only be offered again.
pub const WRITE_BYTES_MAX: usize = 256 * 1024;

/// From this length a `Bytes` payload is linked: below it a copy is cheaper than a slice of its own in the write.
pub const LINK_BYTES_MIN: usize = 1024;

/// What a batch's buffer keeps of its room once it was written.
const KEPT_BYTES_MAX: usize = 256 * 1024;

/// Frames in the order in which they go out.
#[derive(Debug, Default)]
pub struct Batch {
    buf: Vec<u8>,
    links: Vec<Link>,
    /// Bytes of buffer and links together.
    total: usize,
    /// How far the writer has come: bytes of the buffer, links, and bytes of the next link.
    written: Position,
}

#[derive(Debug)]
struct Link {
    /// The bytes of the buffer that go out before it.
    at: usize,
    bytes: Bytes,
}

#[derive(Debug, Default, Clone, Copy)]
struct Position {
    buf: usize,
    link: usize,
    inside: usize,
    total: usize,
}

impl Batch {
    /// Appends bytes by copy.
    #[inline]
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.buf.extend_from_slice(bytes);
        self.total += bytes.len();
    }

    /// Appends bytes without a copy; none for an empty piece.
    pub(crate) fn link(&mut self, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        self.total += bytes.len();
        self.links.push(Link { at: self.buf.len(), bytes });
    }

    /// The buffer, for writers that append to a `BufMut`. What they append is counted when they are done.
    pub(crate) fn put_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        let before = self.buf.len();
        write(&mut self.buf);
        let added = self.buf.len() - before;
        self.total += added;
        added
    }

    /// Whether everything was written (or nothing was appended).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.written.total == self.total
    }

    /// Bytes appended since the batch was cleared.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.total
    }

    /// Fills `slices` with what is still to be written, at most [`WRITE_BYTES_MAX`] bytes; returns how many were filled.
    pub fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>; SLICES_MAX]) -> usize {
        let mut filled = 0;
        let mut room = WRITE_BYTES_MAX;
        let mut position = self.written;
        while filled < SLICES_MAX && room > 0 {
            let Some(piece) = self.piece(&position) else { break };
            let piece = piece.get(..room).unwrap_or(piece);
            let Some(slice) = slices.get_mut(filled) else { break };
            *slice = IoSlice::new(piece);
            filled += 1;
            room -= piece.len();
            self.step(&mut position, piece.len());
        }
        filled
    }

    /// All that is still to be written, where it is one piece of a size for one write.
    #[must_use]
    pub fn only_slice(&self) -> Option<&[u8]> {
        let rest = if self.links.is_empty() { self.buf.get(self.written.buf..)? } else { return None };
        (rest.len() <= WRITE_BYTES_MAX).then_some(rest)
    }

    /// The contiguous piece at `position`, or `None` at the end.
    fn piece(&self, position: &Position) -> Option<&[u8]> {
        match self.links.get(position.link) {
            Some(link) if link.at == position.buf => link.bytes.get(position.inside..),
            Some(link) => self.buf.get(position.buf..link.at),
            None => self.buf.get(position.buf..).filter(|rest| !rest.is_empty()),
        }
    }

    fn step(&self, position: &mut Position, bytes: usize) {
        position.total += bytes;
        match self.links.get(position.link) {
            Some(link) if link.at == position.buf => {
                position.inside += bytes;
                if position.inside == link.bytes.len() {
                    position.link += 1;
                    position.inside = 0;
                }
            }
            _ => position.buf += bytes,
        }
    }

    /// Notes that `bytes` more were written.
    pub fn advance(&mut self, mut bytes: usize) {
        while bytes > 0 {
            let mut position = self.written;
            let Some(piece) = self.piece(&position) else { break };
            let step = piece.len().min(bytes);
            self.step(&mut position, step);
            self.written = position;
            bytes -= step;
        }
    }

    /// Forgets everything and keeps the room for the next frames. It drops the links: call it outside of any lock.
    pub fn clear(&mut self) {
        self.buf.clear();
        if self.buf.capacity() > KEPT_BYTES_MAX {
            self.buf.shrink_to(KEPT_BYTES_MAX);
        }
        self.links.clear();
        self.total = 0;
        self.written = Position::default();
    }

    /// Gives the room back, for a connection that has been idle.
    pub fn release(&mut self) {
        if self.is_empty() {
            *self = Batch::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(batch: &mut Batch, step: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while !batch.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let filled = batch.slices(&mut slices);
            let offered: Vec<u8> = slices[..filled].iter().flat_map(|slice| slice.iter().copied()).collect();
            let taken = step.min(offered.len());
            assert!(taken > 0, "a batch that is not empty offers bytes");
            all.extend_from_slice(&offered[..taken]);
            batch.advance(taken);
        }
        all
    }

    /// The bytes go out in the order of their appending, wherever a write stops.
    #[test]
    fn order_survives_partial_writes() {
        for step in [1, 2, 3, 5, 1000] {
            let mut batch = Batch::default();
            batch.link(Bytes::from_static(b"ab"));
            batch.put(b"cde");
            batch.link(Bytes::from_static(b"f"));
            batch.link(Bytes::from_static(b"ghi"));
            batch.link(Bytes::new());
            batch.put(b"j");
            assert_eq!(batch.bytes(), 10);
            assert_eq!(drain(&mut batch, step), b"abcdefghij", "step {step}");
            batch.clear();
            batch.put(b"xy");
            assert_eq!(drain(&mut batch, step), b"xy");
        }
    }

    /// One write is bounded in slices and in bytes.
    #[test]
    fn a_write_is_bounded() {
        let mut batch = Batch::default();
        for _ in 0..100 {
            batch.put(b"head");
            batch.link(Bytes::from_static(b"link"));
        }
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        assert_eq!(batch.slices(&mut slices), SLICES_MAX);
        let mut batch = Batch::default();
        batch.put(&vec![0; WRITE_BYTES_MAX + 1]);
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        assert_eq!(batch.slices(&mut slices), 1);
        assert_eq!(slices[0].len(), WRITE_BYTES_MAX);
    }
}
