//! Shared memory as this process sees it: the one module with unsafe code.
//!
//! ```text
//!  0            header: what it is, its version, the bytes of a ring. Written before the memory is handed over
//!  4096         words of the ring client -> server
//!  4096 + 640   words of the ring server -> client
//!  8192         bytes of the ring client -> server
//!  8192 + ring  bytes of the ring server -> client
//! ```
//! Nobody ever has a reference to the bytes. They are copied by volatile accesses: the memory lies outside of what the
//! language allocates, another process may write to it at any time, and such an access gives what is there at that
//! moment and no more. Whether what was copied makes sense is asked of the copy. The words are atomics, of which a peer can
//! make any number but no harm.

#![expect(unsafe_code, reason = "memory that another process writes to is reached through pointers")]

use crate::indices::Words;
use crate::memory::{FRONT_BYTES, Sealed, refused, whole};
use crate::ring_bytes::RingBytes;
use bytes::BufMut;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::ptr::{self, NonNull};

/// `PNCTSHM` and the layout's version, as a number of this machine's: a peer of the other byte order is none.
const MAGIC: u64 = 0x504e_4354_5348_4d01;

/// Where the words begin.
const WORDS_AT: usize = 4096;

// The words of both rings fit into their page.
const _: () = assert!(WORDS_AT + 2 * size_of::<Words>() <= FRONT_BYTES && WORDS_AT.is_multiple_of(align_of::<Words>()));

/// One of the two rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    ToServer,
    ToClient,
}

impl Way {
    const fn index(self) -> usize {
        match self {
            Way::ToServer => 0,
            Way::ToClient => 1,
        }
    }
}

/// Mapped memory. It is whole for as long as this lives: its size was sealed before.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    ring: RingBytes,
}

// SAFETY: the pointer is owned by this value alone, and nothing about it belongs to a thread.
unsafe impl Send for Mapping {}

// SAFETY: through a shared reference there are only the words, which are atomics, and copies of bytes, which ask for nothing
// but that the memory is mapped.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the memory.
    pub(crate) fn of(memory: &Sealed) -> io::Result<Self> {
        let (ring, flags) = (memory.ring(), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: the kernel chooses the place, so nothing of this process is mapped over.
        let base = unsafe { mmap(ptr::null_mut(), whole(ring), flags, MapFlags::SHARED, memory, 0) }?;
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("memory was mapped at zero"))?;
        Ok(Mapping { base, ring })
    }

    pub(crate) fn ring(&self) -> RingBytes {
        self.ring
    }

    /// Writes the header.
    pub(crate) fn sign(&self) {
        let [magic, ring] = self.header();
        // SAFETY: `header` gives addresses within the mapping, aligned for what they point to.
        unsafe { magic.write_volatile(MAGIC) };
        // SAFETY: as above.
        unsafe { ring.write_volatile(self.ring.get() as u64) };
    }

    /// Checks the header that a peer wrote.
    pub(crate) fn check_header(&self) -> io::Result<()> {
        let [magic, ring] = self.header();
        // SAFETY: `header` gives addresses within the mapping, aligned for what they point to.
        let magic = unsafe { magic.read_volatile() };
        // SAFETY: as above.
        let ring = unsafe { ring.read_volatile() };
        if magic != MAGIC {
            return Err(refused(&format!("its memory begins with {magic:#018x}, and must with {MAGIC:#018x}")));
        }
        if ring != self.ring.get() as u64 {
            return Err(refused(&format!("its memory says rings of {ring} bytes, and it said {}", self.ring)));
        }
        Ok(())
    }

    /// The two fields of the header.
    fn header(&self) -> [*mut u64; 2] {
        let first = self.base.as_ptr().cast::<u64>();
        [first, first.wrapping_add(1)]
    }

    /// The words of a ring.
    pub(crate) fn words(&self, way: Way) -> &Words {
        let at = WORDS_AT + way.index() * size_of::<Words>();
        // SAFETY: the assertion above keeps it within the front, so within the mapping.
        let place = unsafe { self.base.as_ptr().add(at) }.cast::<Words>();
        // SAFETY: it is mapped for as long as `self` is borrowed; the mapping begins at a page and `at` is a multiple of the
        // alignment, which is asserted above; every pattern of bits is a value of an atomic, and only atomics lie there, so
        // that writes of others are allowed for.
        unsafe { &*place }
    }

    /// Copies `bytes` into a ring, its place `at` counted from the beginning.
    ///
    /// # Panics
    /// Where there are more than the ring holds.
    pub(crate) fn copy_in(&self, way: Way, at: u64, bytes: &[u8]) {
        let (place, first) = self.place(way, at, bytes.len());
        let (front, back) = bytes.split_at(first);
        // SAFETY: `place` gives as many bytes up to the ring's end, within the mapping; `front` is memory of ours elsewhere.
        unsafe { store(place, front) };
        // SAFETY: what is behind the end lies at the ring's beginning, and is no more than the ring in all.
        unsafe { store(self.start(way), back) };
    }

    /// Copies `count` bytes out of a ring to the end of `into`, which has room for them all in one piece or takes fewer. Returns
    /// how many it took.
    ///
    /// # Panics
    /// Where there are more than the ring holds.
    pub(crate) fn copy_out(&self, way: Way, at: u64, count: usize, into: &mut impl BufMut) -> usize {
        let room = into.chunk_mut();
        let count = count.min(room.len());
        let (place, first) = self.place(way, at, count);
        let target = room.as_mut_ptr();
        // SAFETY: `place` gives as many bytes up to the ring's end, within the mapping, and `target` has room for `count`.
        unsafe { load(place, target, first) };
        // SAFETY: `first` is at most `count`, for which there is room.
        let target = unsafe { target.add(first) };
        // SAFETY: what is behind the end lies at the ring's beginning, and is no more than the ring in all.
        unsafe { load(self.start(way), target, count - first) };
        // SAFETY: the two loads wrote as many bytes to its front.
        unsafe { into.advance_mut(count) };
        count
    }

    /// Where the bytes of a ring begin.
    fn start(&self, way: Way) -> *mut u8 {
        // SAFETY: both rings lie behind the front, within the mapping.
        unsafe { self.base.as_ptr().add(FRONT_BYTES + way.index() * self.ring.get()) }
    }

    /// Where `count` bytes from `at` on lie, and how many of them before the ring's end.
    fn place(&self, way: Way, at: u64, count: usize) -> (*mut u8, usize) {
        let ring = self.ring.get();
        assert!(count <= ring, "more bytes than the ring holds");
        // The ring is a power of two, so what is cut off here is a multiple of it.
        let offset = at as usize & (ring - 1);
        // SAFETY: the offset is below the ring's size, so within the ring.
        let place = unsafe { self.start(way).add(offset) };
        (place, count.min(ring - offset))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size and is unmapped once; references to the words do not outlive `self`. An error
        // would leave it mapped, which harms nobody.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), whole(self.ring)) };
    }
}

const WORD: usize = size_of::<u64>();

/// Copies into shared memory: bytes up to a word's beginning, words, bytes.
///
/// # Safety
/// `to` must be mapped for as many bytes as `from` has, and not overlap it.
unsafe fn store(to: *mut u8, from: &[u8]) {
    let (head, rest) = from.split_at(to.align_offset(WORD).min(from.len()));
    let (words, tail) = rest.as_chunks::<WORD>();
    let mut to = to;
    for byte in head {
        // SAFETY: the caller's word; `to` has moved over fewer bytes than `from` has.
        unsafe { to.write_volatile(*byte) };
        to = to.wrapping_add(1);
    }
    for word in words {
        // SAFETY: as above, and behind the head `to` is aligned to a word.
        unsafe { to.cast::<u64>().write_volatile(u64::from_ne_bytes(*word)) };
        to = to.wrapping_add(WORD);
    }
    for byte in tail {
        // SAFETY: as above.
        unsafe { to.write_volatile(*byte) };
        to = to.wrapping_add(1);
    }
}

/// Copies out of shared memory.
///
/// # Safety
/// `from` must be mapped for `count` bytes, `to` be memory of ours with room for them, and the two not overlap.
unsafe fn load(from: *const u8, to: *mut u8, count: usize) {
    let head = from.align_offset(WORD).min(count);
    let words = (count - head) / WORD;
    let (mut from, mut to) = (from, to);
    for _ in 0..head {
        // SAFETY: the caller's word; `from` has moved over fewer than `count` bytes.
        let byte = unsafe { from.read_volatile() };
        // SAFETY: the caller's word; `to` has moved as far.
        unsafe { to.write(byte) };
        (from, to) = (from.wrapping_add(1), to.wrapping_add(1));
    }
    for _ in 0..words {
        // SAFETY: as above, and behind the head `from` is aligned to a word.
        let word = unsafe { from.cast::<u64>().read_volatile() };
        // SAFETY: as above.
        unsafe { to.cast::<u64>().write_unaligned(word) };
        (from, to) = (from.wrapping_add(WORD), to.wrapping_add(WORD));
    }
    for _ in 0..count - head - words * WORD {
        // SAFETY: as above.
        let byte = unsafe { from.read_volatile() };
        // SAFETY: as above.
        unsafe { to.write(byte) };
        (from, to) = (from.wrapping_add(1), to.wrapping_add(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mapping() -> Mapping {
        Mapping::of(&Sealed::create(RingBytes::new(64 * 1024).unwrap()).unwrap()).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Guards the copies at every alignment and over the ring's end: what goes in comes out, and nothing beside it changes,
        /// in this ring or the other one.
        #[test]
        fn what_goes_in_comes_out(at in prop_oneof![0_u64..64, 65_500_u64..65_600, any::<u64>()], len in 0_usize..300, skew in 0_usize..8) {
            let mapping = mapping();
            let ring = mapping.ring().get();
            let bytes: Vec<u8> = (0..len).map(|index| (index % 255) as u8 + 1).collect();
            mapping.copy_in(Way::ToServer, at, &bytes);
            let mut out = vec![7; skew];
            out.reserve(ring + 8);
            prop_assert_eq!(mapping.copy_out(Way::ToServer, at, ring, &mut out), ring);
            prop_assert_eq!(&out[skew..skew + len], &bytes[..]);
            prop_assert!(out[skew + len..].iter().all(|byte| *byte == 0));
            let mut other = Vec::with_capacity(ring);
            mapping.copy_out(Way::ToClient, at, ring, &mut other);
            prop_assert!(other.iter().all(|byte| *byte == 0));
        }
    }

    /// Guards that a buffer is filled to its room, not beyond.
    #[test]
    fn a_small_buffer_takes_a_part() {
        let mapping = mapping();
        mapping.copy_in(Way::ToServer, 0, &[1; 100]);
        let mut space = [0; 10];
        let mut room = &mut space[..7];
        assert_eq!(mapping.copy_out(Way::ToServer, 0, 100, &mut room), 7);
        assert_eq!(space, [1, 1, 1, 1, 1, 1, 1, 0, 0, 0]);
    }

    /// Guards that memory of another kind, version or size is not taken for rings.
    #[test]
    fn a_header_is_checked() {
        let mapping = mapping();
        assert!(mapping.check_header().unwrap_err().to_string().contains("begins with 0x0000000000000000"));
        mapping.sign();
        mapping.check_header().unwrap();
        let [magic, ring] = mapping.header();
        // SAFETY: both lie within the mapping.
        unsafe { ring.write_volatile(1 << 20) };
        assert!(mapping.check_header().unwrap_err().to_string().contains("rings of 1048576 bytes, and it said 65536"));
        // SAFETY: as above.
        unsafe { magic.write_volatile(MAGIC + 1) };
        assert!(mapping.check_header().is_err());
    }
}
