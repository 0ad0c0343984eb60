//! LZ4: fast both ways, for links on which bytes are cheap.

use crate::compression::{Compress, Corrupt, Profile};
use lz4_flex::block;

/// What one byte of a block inflates to at most, and what a short one does beside that. Room is made for no more, whatever
/// a peer announces.
const RATIO_MAX: usize = 255;
const SLACK_BYTES: usize = 64;

/// LZ4 blocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lz4;

impl Compress for Lz4 {
    fn profile(&self) -> Profile {
        Profile::LZ4
    }

    fn compress(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let mut out = vec![0; block::get_maximum_output_size(plain.len())];
        let written = block::compress_into(plain, &mut out).ok().filter(|written| *written < plain.len())?;
        out.truncate(written);
        // What it is kept with is what it takes.
        out.shrink_to_fit();
        Some(out)
    }

    fn inflate(&self, compressed: &[u8], plain_bytes: usize) -> Result<Vec<u8>, Corrupt> {
        let possible = compressed.len().saturating_mul(RATIO_MAX).saturating_add(SLACK_BYTES);
        if plain_bytes > possible {
            let text = format!("{} bytes cannot have been {plain_bytes} before", compressed.len());
            return Err(Corrupt::new(text));
        }
        let mut plain = vec![0; plain_bytes];
        let written =
            block::decompress_into(compressed, &mut plain).map_err(|error| Corrupt::new(format!("lz4: {error}")))?;
        plain.truncate(written);
        if plain.len() == plain_bytes {
            return Ok(plain);
        }
        Err(Corrupt::new(format!("lz4: {} bytes came out where {plain_bytes} were announced", plain.len())))
    }
}
