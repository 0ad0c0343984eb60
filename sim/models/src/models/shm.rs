//! Models of a ring of shared memory: what its two sides tell each other, and when they sleep.

use super::check;
use crate::shm::indices::{Reader, Words, Writer};
use crate::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use std::sync::Arc;

/// A bell that a side waits on, and that rings once for however many times it was rung.
#[derive(Default)]
struct Bell {
    rings: Mutex<bool>,
    rung: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.rings.lock().expect("no panic") = true;
        self.rung.notify_one();
    }

    fn wait(&self) {
        let mut rings = self.rings.lock().expect("no panic");
        while !*rings {
            rings = self.rung.wait(rings).expect("no panic");
        }
        *rings = false;
    }
}

/// A ring between two threads. Its bytes are words that are written and read with no order of their own: one that came before
/// its time would be seen.
struct Ring {
    words: Words,
    bytes: Vec<AtomicUsize>,
    for_writer: Bell,
    for_reader: Bell,
}

/// How often a side said that it sleeps, and how often it rang.
#[derive(Debug, Default)]
struct Count {
    announced: usize,
    rings: usize,
}

impl Ring {
    fn new(capacity: usize) -> Arc<Self> {
        let bytes = (0..capacity).map(|_| AtomicUsize::new(0)).collect();
        Arc::new(Ring { words: Words::default(), bytes, for_writer: Bell::default(), for_reader: Bell::default() })
    }

    fn place(&self, at: u64) -> &AtomicUsize {
        &self.bytes[usize::try_from(at).expect("few bytes") % self.bytes.len()]
    }

    /// Writes the numbers up to `last`, in pieces of at most so many, and sleeps where there is no room.
    fn write(&self, last: usize, piece: u64) -> Count {
        let mut writer = Writer::new(self.bytes.len() as u64);
        let mut count = Count::default();
        let mut next = 1;
        while next <= last {
            let left = (last - next + 1) as u64;
            let room = writer.room(&self.words, 1).expect("an honest peer").min(piece).min(left);
            if room == 0 {
                count.announced += 1;
                if writer.sleep(&self.words).expect("an honest peer") {
                    self.for_writer.wait();
                }
                continue;
            }
            writer.rouse(&self.words);
            for at in 0..room {
                self.place(writer.at() + at).store(next, Ordering::Relaxed);
                next += 1;
            }
            if writer.publish(&self.words, room) {
                count.rings += 1;
                self.for_reader.ring();
            }
        }
        count
    }

    /// Reads the numbers up to `last`, in pieces of at most so many, and sleeps where there is nothing.
    fn read(&self, last: usize, piece: u64) -> Count {
        let mut reader = Reader::new(self.bytes.len() as u64);
        let mut count = Count::default();
        let mut next = 1;
        while next <= last {
            let there = reader.available(&self.words, 1).expect("an honest peer").min(piece);
            if there == 0 {
                count.announced += 1;
                if reader.sleep(&self.words).expect("an honest peer") {
                    self.for_reader.wait();
                }
                continue;
            }
            reader.rouse(&self.words);
            for at in 0..there {
                assert_eq!(self.place(reader.at() + at).load(Ordering::Relaxed), next, "out of order, or too early");
                next += 1;
            }
            if reader.release(&self.words, there) {
                count.rings += 1;
                self.for_writer.ring();
            }
        }
        count
    }

    /// Both sides; nobody may sleep for ever, which the model checker sees, and nobody is rung for more often than he said that he sleeps.
    fn pass(capacity: usize, last: usize, writes: u64, reads: u64) {
        let ring = Ring::new(capacity);
        let writing = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || ring.write(last, writes))
        };
        let reader = ring.read(last, reads);
        let writer = writing.join().expect("a thread of the model panicked");
        assert!(writer.rings <= reader.announced, "{writer:?} {reader:?}: rung for a reader that did not say so");
        assert!(reader.rings <= writer.announced, "{writer:?} {reader:?}: rung for a writer that did not say so");
    }
}

/// Bytes come whole and in order through a ring that is now empty, now full; both sides sleep, and neither for ever.
pub fn bytes_come_in_order_and_nobody_sleeps_for_ever() {
    check(|| Ring::pass(2, 3, 1, 1));
}

/// A writer that is woken only for a quarter of its ring is woken.
pub fn a_writer_that_waits_for_a_quarter_is_woken() {
    check(|| Ring::pass(8, 9, 8, 3));
}

/// A side that something else woke takes back that it sleeps: whoever rings meanwhile costs it nothing but a look.
pub fn a_side_that_wakes_by_itself_loses_nothing() {
    check(|| {
        let ring = Ring::new(2);
        let writing = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || ring.write(2, 1))
        };
        let mut reader = Reader::new(2);
        // It said that it sleeps, and was woken by a timer.
        if reader.sleep(&ring.words).expect("an honest peer") {
            reader.rouse(&ring.words);
        }
        let mut next = 1;
        while next <= 2 {
            let there = reader.available(&ring.words, 1).expect("an honest peer");
            if there == 0 && reader.sleep(&ring.words).expect("an honest peer") {
                // The ring of its first sleep may come late: then it looks, and sleeps again.
                ring.for_reader.wait();
            }
            for at in 0..there {
                assert_eq!(ring.place(reader.at() + at).load(Ordering::Relaxed), next, "out of order, or too early");
                next += 1;
            }
            if there > 0 {
                reader.release(&ring.words, there);
            }
        }
        writing.join().expect("a thread of the model panicked");
    });
}
