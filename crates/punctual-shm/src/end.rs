//! One end of a link: what it writes, what it reads, and when it may sleep.

use crate::indices::{Broken, Reader, Words, Writer};
use crate::mapping::{Mapping, Way};
use crate::ring_bytes::RingBytes;
use bytes::BufMut;
use std::io::IoSlice;
use std::os::fd::OwnedFd;

/// A link that was opened, from this side.
#[derive(Debug)]
pub struct Opened {
    /// This end.
    pub end: End,
    /// An `eventfd` that becomes readable when the peer rings. It need not be read: each ring is an event of its own to an edge-
    /// triggered wait.
    pub bell: OwnedFd,
}

/// One end of a link.
///
/// None of its functions waits. An end that finds nothing to read, or no room, asks whether it must sleep, which tells the peer
/// to ring, and then waits for its bell and for the hang-up of the socket.
#[derive(Debug)]
pub struct End {
    mapping: Mapping,
    out: Way,
    writer: Writer,
    reader: Reader,
    /// Wakes the peer.
    peer: OwnedFd,
    rings: u64,
    /// The core that the peer was last told of.
    core: u32,
}

impl End {
    pub(crate) fn client(mapping: Mapping, peer: OwnedFd) -> Self {
        End::of(mapping, Way::ToServer, peer)
    }

    pub(crate) fn server(mapping: Mapping, peer: OwnedFd) -> Self {
        End::of(mapping, Way::ToClient, peer)
    }

    fn of(mapping: Mapping, out: Way, peer: OwnedFd) -> Self {
        let capacity = mapping.ring().get() as u64;
        End { mapping, out, writer: Writer::new(capacity), reader: Reader::new(capacity), peer, rings: 0, core: 0 }
    }

    /// What each ring holds.
    pub fn ring_bytes(&self) -> RingBytes {
        self.mapping.ring()
    }

    /// Rings of the peer's bell so far: one for each time that it was asleep when there was news for it.
    pub fn rings(&self) -> u64 {
        self.rings
    }

    /// Writes what there is room for, from the front, and wakes the peer if it sleeps. 0 where there is no room, or nothing to
    /// write.
    ///
    /// # Errors
    /// Where the peer broke the ring. Every later call does, too, or writes nothing that matters: give the link up.
    pub fn write(&mut self, slices: &[IoSlice<'_>]) -> Result<usize, Broken> {
        let (out, core) = (self.out, core());
        let words = self.mapping.words(out);
        self.writer.rouse(words);
        let wanted = slices.iter().fold(0_u64, |sum, slice| sum.saturating_add(slice.len() as u64));
        let mut room = usize::try_from(self.writer.room(words, wanted)?).unwrap_or(usize::MAX);
        let (mut at, mut written) = (self.writer.at(), 0);
        for slice in slices {
            let Some(part) = slice.get(..slice.len().min(room)).filter(|part| !part.is_empty()) else { continue };
            self.mapping.copy_in(out, at, part);
            at = at.wrapping_add(part.len() as u64);
            written += part.len();
            room -= part.len();
        }
        if written > 0 {
            if self.core != core {
                self.core = core;
                words.set_writer_core(core);
            }
            if self.writer.publish(words, written as u64) {
                self.ring();
            }
        }
        Ok(written)
    }

    /// Appends what is there to `into`, up to its room in one piece. 0 where nothing is there, or no room.
    ///
    /// # Errors
    /// As [`End::write`].
    pub fn read(&mut self, into: &mut impl BufMut) -> Result<usize, Broken> {
        let (way, room) = (self.way_in(), into.chunk_mut().len());
        let words = self.mapping.words(way);
        self.reader.rouse(words);
        let there = self.reader.available(words, room as u64)?;
        if there == 0 || room == 0 {
            return Ok(0);
        }
        let count = usize::try_from(there).unwrap_or(usize::MAX);
        let read = self.mapping.copy_out(way, self.reader.at(), count, into);
        if self.reader.release(words, read as u64) {
            self.ring();
        }
        Ok(read)
    }

    /// Tells the peer to ring when there is something to read. False where there is already: then it will not ring.
    ///
    /// # Errors
    /// As [`End::write`].
    pub fn sleep_until_readable(&mut self) -> Result<bool, Broken> {
        let way = self.way_in();
        self.reader.sleep(self.mapping.words(way))
    }

    /// Tells the peer to ring when there is room. False where there is already: then it will not ring.
    ///
    /// # Errors
    /// As [`End::write`].
    pub fn sleep_until_writable(&mut self) -> Result<bool, Broken> {
        self.writer.sleep(self.mapping.words(self.out))
    }

    /// Tells the peer not to ring for what is there to read: this side is awake, and will look before it sleeps.
    pub fn rouse(&mut self) {
        let way = self.way_in();
        self.reader.rouse(self.mapping.words(way));
    }

    /// Whether the peer, by what it last said, runs on another core: to look again in a moment may then be worth it, and
    /// takes nothing from it.
    pub fn peer_is_elsewhere(&self) -> bool {
        let peer = self.words_in().writer_core();
        peer != 0 && peer != core()
    }

    fn way_in(&self) -> Way {
        match self.out {
            Way::ToServer => Way::ToClient,
            Way::ToClient => Way::ToServer,
        }
    }

    fn words_in(&self) -> &Words {
        self.mapping.words(self.way_in())
    }

    fn ring(&mut self) {
        self.rings += 1;
        // A bell that is full of rings is one that rings; nothing else can fail for a descriptor that is open.
        let _ = rustix::io::write(&self.peer, &1_u64.to_ne_bytes());
    }
}

/// The core that this thread runs on, and one.
fn core() -> u32 {
    u32::try_from(rustix::thread::sched_getcpu()).unwrap_or(u32::MAX - 1).saturating_add(1)
}

#[cfg(test)]
mod tests;
