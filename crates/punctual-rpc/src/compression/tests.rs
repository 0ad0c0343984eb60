//! Tests of `compression`.

use super::*;
use crate::compression::agreed::Rules;
use std::collections::HashMap;

/// A profile that says it saved one byte more than it costs to say the length, or exactly as many.
#[derive(Debug)]
struct Saves(usize);

impl Compress for Saves {
    fn profile(&self) -> Profile {
        Profile(200)
    }

    fn compress(&self, plain: &[u8]) -> Option<Vec<u8>> {
        Some(vec![1; plain.len() - self.0])
    }

    fn inflate(&self, compressed: &[u8], plain_bytes: usize) -> Result<Vec<u8>, Corrupt> {
        Ok(vec![0; plain_bytes + compressed.len()])
    }
}

fn agreed(profile: impl Compress) -> Agreed {
    let methods = HashMap::from([(1, None), (2, Some(10))]);
    Agreed::new(Arc::new(profile), Rules { bytes_min: 100, methods })
}

/// What the call says comes before what is set for its method, and that before the rest; an empty body is never compressed.
#[test]
fn the_nearest_word_counts() {
    let agreed = agreed(Saves(5));
    let shrinks = |method, said, len: usize| agreed.shrink(method, said, &vec![0; len]).is_some();
    assert_eq!((shrinks(0, None, 99), shrinks(0, None, 100)), (false, true));
    assert!(!shrinks(1, None, 1_000_000) && shrinks(1, Some(true), 20));
    assert_eq!((shrinks(2, None, 9), shrinks(2, None, 10)), (false, true));
    assert!(!shrinks(2, Some(false), 10) && !shrinks(2, Some(true), 0));
}

/// The length before costs four bytes: what does not save more goes as it is.
#[test]
fn what_is_not_shorter_on_the_wire_goes_as_it_is() {
    assert!(agreed(Saves(4)).shrink(0, None, &[0; 200]).is_none());
    let shrunk = agreed(Saves(5)).shrink(0, None, &[0; 200]).unwrap();
    assert_eq!((shrunk.bytes.len(), shrunk.plain), (195, 200));
}

/// A profile that gives another length than was announced is not believed.
#[test]
fn other_lengths_are_refused() {
    let error = agreed(Saves(5)).inflate(b"x", 7).unwrap_err();
    assert!(error.to_string().contains("8 bytes came out where 7 were announced"), "{error}");
}

#[cfg(any(feature = "zstd", feature = "lz4"))]
mod real {
    use super::*;
    use allocation_counter::measure;

    fn profiles() -> Vec<Box<dyn Compress>> {
        vec![
            #[cfg(feature = "zstd")]
            Box::new(Zstd::default()),
            #[cfg(feature = "lz4")]
            Box::new(Lz4),
        ]
    }

    /// What was compressed comes back, at every level and of every length.
    #[test]
    fn bodies_survive() {
        for profile in profiles() {
            for len in [1, 10, 100, 1_000, 70_000, 3_000_000] {
                let plain: Vec<u8> = (0..len).map(|at: usize| u8::try_from(at / 7 % 200).unwrap()).collect();
                let Some(compressed) = profile.compress(&plain) else {
                    assert!(len <= 100, "{profile:?}: {len} bytes");
                    continue;
                };
                assert!(compressed.len() < len);
                assert_eq!(profile.inflate(&compressed, len).unwrap(), plain, "{profile:?}: {len} bytes");
                assert!(
                    profile.inflate(&compressed, len - 1).is_err() && profile.inflate(&compressed, len + 1).is_err()
                );
            }
        }
    }

    /// Inflating takes memory for what was announced and not for what would come out; nor for what was announced where that
    /// cannot be true.
    #[test]
    fn a_bomb_takes_no_memory() {
        const SLACK: u64 = 1 << 20;
        for profile in profiles() {
            let bomb = profile.compress(&vec![0; 256 << 20]).unwrap();
            // Contexts are kept from here on.
            let _ = profile.inflate(&bomb, 10);
            let mut most = 0;
            for said in [1, 1_000, 100_000, 1_000_000] {
                let taken = measure(|| assert!(profile.inflate(&bomb, said).is_err(), "{profile:?}"));
                most = taken.bytes_max.max(most);
                assert!(taken.bytes_max <= said as u64 + SLACK, "{profile:?} took {} of {said}", taken.bytes_max);
            }
        }
        #[cfg(feature = "lz4")]
        {
            let taken = measure(|| assert!(Lz4.inflate(&[1, 2, 3], 64 << 20).is_err()));
            assert!(taken.bytes_max < SLACK, "{}", taken.bytes_max);
        }
    }

    /// Random bytes are refused, or give what was announced; nothing panics.
    #[test]
    fn random_bytes_never_panic() {
        use punctual_clock::{Entropy, SeededEntropy};
        let entropy = SeededEntropy::new(3);
        for profile in profiles() {
            let plain: Vec<u8> = b"a body that compresses ".repeat(40);
            let whole = profile.compress(&plain).unwrap();
            for _ in 0..20_000 {
                let mut bytes = whole.clone();
                for _ in 0..=entropy.below(4) {
                    let at = usize::try_from(entropy.below(bytes.len() as u64)).unwrap();
                    bytes[at] = u8::try_from(entropy.below(256)).unwrap();
                }
                bytes.truncate(usize::try_from(entropy.below(bytes.len() as u64 + 1)).unwrap());
                let said = usize::try_from(entropy.below(2_000) + 1).unwrap();
                if let Ok(inflated) = profile.inflate(&bytes, said) {
                    assert_eq!(inflated.len(), said);
                }
            }
        }
    }
}
