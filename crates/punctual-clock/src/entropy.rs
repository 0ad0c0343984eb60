//! Chance: what jitter, ids and tie-breaks draw from.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

/// A source of random numbers. Not for secrets unless it is [`SystemEntropy`].
pub trait Entropy: Debug + Send + Sync + 'static {
    /// Sixty-four random bits.
    fn next_u64(&self) -> u64;

    /// A number in `0..bound`, or 0 if `bound` is 0. The bias is below `bound / 2^64`.
    fn below(&self, bound: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }
}

/// The operating system's entropy, drawn anew each time.
///
/// # Panics
/// If the operating system has none to give, which it says of itself cannot happen after boot.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn next_u64(&self) -> u64 {
        getrandom::u64().expect("the operating system gives random bytes")
    }
}

/// A repeatable sequence (SplitMix64; Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
#[derive(Debug)]
pub struct SeededEntropy(AtomicU64);

impl SeededEntropy {
    /// The sequence of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        SeededEntropy(AtomicU64::new(seed))
    }

    /// A sequence that begins at a number from the operating system: cheap where many numbers are drawn.
    #[must_use]
    pub fn from_system() -> Self {
        Self::new(SystemEntropy.next_u64())
    }
}

impl Entropy for SeededEntropy {
    fn next_u64(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A seed names one sequence: replays depend on it.
    #[test]
    fn a_seed_repeats_its_sequence() {
        let (a, b) = (SeededEntropy::new(7), SeededEntropy::new(7));
        let first: Vec<u64> = (0..4).map(|_| a.next_u64()).collect();
        assert_eq!(first, (0..4).map(|_| b.next_u64()).collect::<Vec<_>>());
        assert!((0..1000).all(|_| a.below(10) < 10));
        assert_eq!(a.below(0), 0);
    }
}
