//! Zstandard: small, for links on which bytes are dear.

use crate::compression::{Compress, Corrupt, Profile};
use std::fmt;
use std::sync::{Mutex, PoisonError};
use zstd::bulk::{Compressor, Decompressor};

/// The level of [`Zstd::default`]: about what is gained beyond it costs several times the time.
const LEVEL: i32 = 3;

/// Contexts that are kept of each kind. Making one takes longer than a short body.
const KEPT_MAX: usize = 8;

/// Zstandard frames.
pub struct Zstd {
    level: i32,
    compressors: Mutex<Vec<Compressor<'static>>>,
    inflaters: Mutex<Vec<Decompressor<'static>>>,
}

impl Zstd {
    /// With this level: 1 is the fastest, 19 the smallest. Others are taken as the nearest of these, since higher ones need
    /// windows that receivers do not have to hold.
    #[must_use]
    pub fn level(level: i32) -> Self {
        Zstd { level: level.clamp(1, 19), compressors: Mutex::default(), inflaters: Mutex::default() }
    }
}

impl Default for Zstd {
    fn default() -> Self {
        Self::level(LEVEL)
    }
}

impl fmt::Debug for Zstd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Zstd").field("level", &self.level).finish_non_exhaustive()
    }
}

fn take<T>(kept: &Mutex<Vec<T>>) -> Option<T> {
    kept.lock().unwrap_or_else(PoisonError::into_inner).pop()
}

fn keep<T>(kept: &Mutex<Vec<T>>, context: T) {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    let surplus = if kept.len() < KEPT_MAX {
        kept.push(context);
        None
    } else {
        Some(context)
    };
    drop(kept);
    drop(surplus);
}

impl Compress for Zstd {
    fn profile(&self) -> Profile {
        Profile::ZSTD
    }

    fn compress(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let mut compressor = take(&self.compressors).or_else(|| Compressor::new(self.level).ok())?;
        // What does not fit is not shorter. A context that failed is not used again.
        let mut out = Vec::with_capacity(plain.len());
        compressor.compress_to_buffer(plain, &mut out).ok().filter(|written| *written < plain.len())?;
        keep(&self.compressors, compressor);
        out.shrink_to_fit();
        Some(out)
    }

    fn inflate(&self, compressed: &[u8], plain_bytes: usize) -> Result<Vec<u8>, Corrupt> {
        let failed = |error: std::io::Error| Corrupt::new(format!("zstd: {error}"));
        let mut inflater = match take(&self.inflaters) {
            Some(inflater) => inflater,
            None => Decompressor::new().map_err(failed)?,
        };
        // The room is the bound: what would be more fails when it is full. It is no memory before it is written to.
        let mut plain = Vec::with_capacity(plain_bytes);
        inflater.decompress_to_buffer(compressed, &mut plain).map_err(failed)?;
        keep(&self.inflaters, inflater);
        if plain.len() == plain_bytes {
            return Ok(plain);
        }
        Err(Corrupt::new(format!("zstd: {} bytes came out where {plain_bytes} were announced", plain.len())))
    }
}
