//! How much a ring holds.

use std::fmt;

/// The least that a ring holds: a frame's fragment fits with room for the next.
pub const RING_BYTES_MIN: usize = 64 * 1024;

/// The most that a ring holds. More hides a peer that does not read, and is memory that each connection may come to use.
pub const RING_BYTES_MAX: usize = 256 * 1024 * 1024;

/// What a ring holds unless something else is asked for: a megabyte passes without waiting, and both rings fit a core's
/// share of common caches.
pub const RING_BYTES_DEFAULT: usize = 1024 * 1024;

/// The bytes that a ring of one direction holds: a power of two from [`RING_BYTES_MIN`] to [`RING_BYTES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingBytes(usize);

impl RingBytes {
    /// `None` where `bytes` is no power of two or out of bounds.
    pub const fn new(bytes: usize) -> Option<Self> {
        if bytes.is_power_of_two() && bytes >= RING_BYTES_MIN && bytes <= RING_BYTES_MAX {
            Some(RingBytes(bytes))
        } else {
            None
        }
    }

    /// The number.
    pub const fn get(self) -> usize {
        self.0
    }
}

impl Default for RingBytes {
    fn default() -> Self {
        RingBytes(RING_BYTES_DEFAULT)
    }
}

impl fmt::Display for RingBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards that no ring has a size for which its arithmetic does not hold.
    #[test]
    fn only_powers_of_two_within_bounds() {
        for good in [RING_BYTES_MIN, RING_BYTES_DEFAULT, RING_BYTES_MAX] {
            assert_eq!(RingBytes::new(good).map(RingBytes::get), Some(good));
        }
        for bad in [0, 1, RING_BYTES_MIN / 2, RING_BYTES_MIN + 1, RING_BYTES_MAX + 1, RING_BYTES_MAX * 2, usize::MAX] {
            assert_eq!(RingBytes::new(bad), None, "{bad}");
        }
    }
}
