//! The indices of one ring, and the sleep of its two sides: all of a ring but its bytes.
//!
//! Each side keeps its own index and the last one that it saw of the other privately, and writes only copies into the shared
//! [`Words`]. Indices count bytes from the beginning of the connection and never go back, so whatever a peer writes there is
//! either a step that is possible or [`Broken`].
//!
//! ```text
//!   writer                                    reader
//!     copy bytes in                             load `written`        (acquire: the bytes are there)
//!     store `written` (release)                 copy bytes out
//!     full fence                                store `read` (release: the bytes are not needed any more)
//!     `reader_sleeps`? take it back, ring       full fence
//!                                               `writer_sleeps`, and room enough? take it back, ring
//! ```
//! **Nobody sleeps through what he waits for.** A reader that finds its ring empty stores 1 into `reader_sleeps`, passes a full
//! fence, and looks at `written` once more; it sleeps only if that is unchanged. A writer stores `written`, passes a full fence,
//! and then looks at `reader_sleeps`. Of the two fences one comes first in their one total order. Is it the writer's, then
//! the reader's second look comes behind the store and sees it: it does not sleep. Is it the reader's, then the writer's look
//! comes behind the announcement and sees it: it rings. For a writer that waits for room the same holds with the words
//! exchanged; there the reader rings only once a quarter of the ring is free, which happens at the latest when it has read
//! everything, and a reader sleeps only then. `sim/models` moves this file through all orders.
//!
//! **Nobody rings for one who is awake**: an announcement is taken back by an exchange, by whoever rings for it, or by its own
//! side when something else woke it, so that at most one ring belongs to each. All changes of an announcement are exchanges:
//! each then follows the one before it in the word's order, whoever made it.

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::fmt;

/// The writer is woken once one part in so many of its ring is free: a reader that takes small pieces wakes it seldom.
const WAKE_PARTS: u64 = 4;

/// One word on cache lines of its own: two of the usual 64 bytes, since neighbours are fetched in pairs.
#[repr(C, align(128))]
#[derive(Debug, Default)]
struct Line<T>(T);

/// What the two sides of a ring tell each other, in shared memory.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct Words {
    /// Bytes written since the beginning. The writer's.
    written: Line<AtomicU64>,
    /// Bytes read since the beginning. The reader's.
    read: Line<AtomicU64>,
    /// 1 while the reader sleeps until there is something.
    reader_sleeps: Line<AtomicU32>,
    /// 1 while the writer sleeps until there is room.
    writer_sleeps: Line<AtomicU32>,
    /// The core that the writer last ran on, and one; 0 where it is not known. A hint.
    writer_core: Line<AtomicU32>,
}

impl Words {
    /// Says where the writer runs.
    pub(crate) fn set_writer_core(&self, core: u32) {
        self.writer_core.0.store(core, Ordering::Relaxed);
    }

    /// Where the writer said that it runs.
    pub(crate) fn writer_core(&self) -> u32 {
        self.writer_core.0.load(Ordering::Relaxed)
    }

    /// Says something of both indices, as a hostile peer may.
    #[cfg(test)]
    pub(crate) fn say(&self, written: u64, read: u64) {
        self.written.0.store(written, Ordering::Release);
        self.read.0.store(read, Ordering::Release);
    }
}

/// A peer said something impossible of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken {
    index: &'static str,
    seen: u64,
    said: u64,
    most: u64,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Broken { index, seen, said, most } = self;
        write!(
            f,
            "the peer broke the shared memory: its {index} index went from {seen} to {said}, and could go to {most} at \
             most; the connection cannot go on"
        )
    }
}

impl std::error::Error for Broken {}

/// The step from `seen` to what the peer says now, where it is possible. A step back is a huge one.
fn step(index: &'static str, seen: u64, said: u64, most: u64) -> Result<u64, Broken> {
    let step = said.wrapping_sub(seen);
    if step > most {
        return Err(Broken { index, seen, said, most: seen.wrapping_add(most) });
    }
    Ok(step)
}

/// The writing side of a ring.
#[derive(Debug)]
pub(crate) struct Writer {
    capacity: u64,
    /// Bytes written.
    at: u64,
    /// Bytes that the reader has not taken, as far as is known: at most `capacity`.
    unread: u64,
    /// An announcement of ours may stand.
    announced: bool,
}

impl Writer {
    pub(crate) fn new(capacity: u64) -> Self {
        Writer { capacity, at: 0, unread: 0, announced: false }
    }

    /// Where the next byte goes, counted from the beginning.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// The bytes that there is room for. The peer is asked only where less than `wanted` is known of.
    pub(crate) fn room(&mut self, words: &Words, wanted: u64) -> Result<u64, Broken> {
        if self.capacity - self.unread < wanted.min(self.capacity) {
            let read = words.read.0.load(Ordering::Acquire);
            self.unread -= step("read", self.at.wrapping_sub(self.unread), read, self.unread)?;
        }
        Ok(self.capacity - self.unread)
    }

    /// Gives `bytes`, which were copied in and were within the room, to the reader. True where it is to be woken.
    pub(crate) fn publish(&mut self, words: &Words, bytes: u64) -> bool {
        self.at = self.at.wrapping_add(bytes);
        self.unread += bytes;
        words.written.0.store(self.at, Ordering::Release);
        // The first half of the proof above: behind this fence an announcement is seen, or our store by who announces.
        fence(Ordering::SeqCst);
        take_back(&words.reader_sleeps.0)
    }

    /// Announces that this side sleeps until there is room. False where there is some.
    pub(crate) fn sleep(&mut self, words: &Words) -> Result<bool, Broken> {
        self.announced = true;
        words.writer_sleeps.0.swap(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let must = self.room(words, 1)? == 0;
        if !must {
            self.rouse(words);
        }
        Ok(must)
    }

    /// This side is awake, whatever woke it.
    pub(crate) fn rouse(&mut self, words: &Words) {
        if std::mem::take(&mut self.announced) {
            words.writer_sleeps.0.swap(0, Ordering::Relaxed);
        }
    }
}

/// The reading side of a ring.
#[derive(Debug)]
pub(crate) struct Reader {
    capacity: u64,
    /// Bytes read.
    at: u64,
    /// Bytes that are there to be read, as far as is known: at most `capacity`.
    unread: u64,
    /// An announcement of ours may stand.
    announced: bool,
}

impl Reader {
    pub(crate) fn new(capacity: u64) -> Self {
        Reader { capacity, at: 0, unread: 0, announced: false }
    }

    /// Where the next byte is, counted from the beginning.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// The bytes that are there. The peer is asked only where less than `wanted` is known of.
    pub(crate) fn available(&mut self, words: &Words, wanted: u64) -> Result<u64, Broken> {
        if self.unread < wanted {
            let written = words.written.0.load(Ordering::Acquire);
            self.unread += step("written", self.at.wrapping_add(self.unread), written, self.capacity - self.unread)?;
        }
        Ok(self.unread)
    }

    /// Gives the room of `bytes`, which were copied out and were among those that are there, back to the writer. True where it
    /// is to be woken.
    pub(crate) fn release(&mut self, words: &Words, bytes: u64) -> bool {
        self.at = self.at.wrapping_add(bytes);
        self.unread -= bytes;
        words.read.0.store(self.at, Ordering::Release);
        fence(Ordering::SeqCst);
        self.capacity - self.unread >= self.capacity / WAKE_PARTS && take_back(&words.writer_sleeps.0)
    }

    /// Announces that this side sleeps until there is something. False where there is.
    pub(crate) fn sleep(&mut self, words: &Words) -> Result<bool, Broken> {
        self.announced = true;
        words.reader_sleeps.0.swap(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let must = self.available(words, 1)? == 0;
        if !must {
            self.rouse(words);
        }
        Ok(must)
    }

    /// This side is awake, whatever woke it.
    pub(crate) fn rouse(&mut self, words: &Words) {
        if std::mem::take(&mut self.announced) {
            words.reader_sleeps.0.swap(0, Ordering::Relaxed);
        }
    }
}

/// Takes an announcement of the other side back, if there is one. It is looked at before, since an exchange would fetch the
/// cache line each time.
fn take_back(sleeps: &AtomicU32) -> bool {
    sleeps.load(Ordering::Relaxed) != 0 && sleeps.swap(0, Ordering::Relaxed) != 0
}

// Named, since the models compile this file from another place.
#[cfg(test)]
#[path = "indices/tests.rs"]
mod tests;
