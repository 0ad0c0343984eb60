//! The memory of a link before it is mapped: a `memfd` whose size is sealed, made by one side and checked by the other.

use crate::ring_bytes::RingBytes;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What lies in front of the rings: a page with the header, a page with the words of both.
pub(crate) const FRONT_BYTES: usize = 8 * 1024;

/// The seals without which a peer could take mapped memory away, which would end a process that touches it. The last one
/// keeps the others.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Memory whose size is what its rings need, and cannot change any more.
#[derive(Debug)]
pub(crate) struct Sealed {
    file: OwnedFd,
    ring: RingBytes,
}

impl Sealed {
    /// Makes it. Its pages are zero, and take memory once they are touched.
    pub(crate) fn create(ring: RingBytes) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = match memfd_create("punctual", flags | MemfdFlags::NOEXEC_SEAL) {
            // Before Linux 6.3.
            Err(Errno::INVAL) => memfd_create("punctual", flags)?,
            other => other?,
        };
        ftruncate(&file, whole(ring) as u64)?;
        fcntl_add_seals(&file, SEALS)?;
        Ok(Sealed { file, ring })
    }

    /// Takes what a peer says is such memory, once it is known to be.
    pub(crate) fn check(file: OwnedFd, ring: RingBytes) -> io::Result<Self> {
        // First the seals: a size that is not sealed says nothing.
        let seals = fcntl_get_seals(&file)
            .map_err(|error| refused(&format!("what it handed over is no memory that can be sealed ({error})")))?;
        if !seals.contains(SEALS) {
            return Err(refused("the size of the memory that it handed over is not sealed"));
        }
        let (size, needed) = (fstat(&file)?.st_size, whole(ring));
        if u64::try_from(size).ok() != Some(needed as u64) {
            return Err(refused(&format!(
                "the memory that it handed over has {size} bytes, and two rings of {ring} need {needed}"
            )));
        }
        Ok(Sealed { file, ring })
    }

    pub(crate) fn ring(&self) -> RingBytes {
        self.ring
    }
}

impl AsFd for Sealed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The bytes of the whole memory.
pub(crate) const fn whole(ring: RingBytes) -> usize {
    FRONT_BYTES + 2 * ring.get()
}

/// An error of a peer that did not hand over what it must.
pub(crate) fn refused(why: &str) -> io::Error {
    io::Error::other(format!("the peer broke the opening of shared memory: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::FallocateFlags;
    use rustix::fs::fallocate;

    fn ring() -> RingBytes {
        RingBytes::new(64 * 1024).unwrap()
    }

    /// Guards that nobody who has the memory can change its size, so that no access to it can fail.
    #[test]
    fn the_size_is_sealed() {
        let sealed = Sealed::create(ring()).unwrap();
        for bytes in [0, 1, whole(ring()) as u64 - 1, whole(ring()) as u64 + 1] {
            assert_eq!(ftruncate(&sealed, bytes), Err(Errno::PERM), "{bytes}");
        }
        assert_eq!(fallocate(&sealed, FallocateFlags::empty(), 0, whole(ring()) as u64 * 2), Err(Errno::PERM));
        assert_eq!(fcntl_add_seals(&sealed, SealFlags::WRITE), Err(Errno::PERM), "nor the seals");
        Sealed::check(sealed.file, ring()).unwrap();
    }

    /// Guards that memory which could be cut short, has another size, or is no memory is refused by name.
    #[test]
    fn other_memory_is_refused() {
        let size = whole(ring()) as u64;
        let make = |size: u64, seals: SealFlags| {
            let file = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
            ftruncate(&file, size).unwrap();
            fcntl_add_seals(&file, seals).unwrap();
            file
        };
        let pipe = rustix::pipe::pipe().unwrap().0;
        let plain = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        for (file, why) in [
            (make(size, SealFlags::empty()), "not sealed"),
            (make(size, SealFlags::GROW | SealFlags::SEAL), "not sealed"),
            (make(size, SealFlags::SHRINK | SealFlags::GROW), "not sealed"),
            (plain, "not sealed"),
            (make(size - 1, SEALS), "bytes, and two rings of 65536 need"),
            (make(size * 2, SEALS), "bytes, and two rings of 65536 need"),
            (make(0, SEALS), "has 0 bytes"),
            (pipe, "no memory that can be sealed"),
        ] {
            let error = Sealed::check(file, ring()).unwrap_err().to_string();
            assert!(error.contains(why), "{why}: {error}");
        }
    }
}
