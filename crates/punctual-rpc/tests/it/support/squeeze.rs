//! Ways of compressing that a test owns.

use punctual_rpc::compression::{Compress, Corrupt, Profile};
use std::fmt;
use std::sync::Arc;

/// Runs of equal bytes as (length, byte). A profile of an application's own, which needs no feature.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Runs;

impl Compress for Runs {
    fn profile(&self) -> Profile {
        Profile(200)
    }

    fn compress(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let runs = plain.chunk_by(|one, other| one == other).flat_map(|run| run.chunks(255));
        let out: Vec<u8> = runs.flat_map(|run| [u8::try_from(run.len()).unwrap(), run[0]]).collect();
        (out.len() < plain.len()).then_some(out)
    }

    fn inflate(&self, compressed: &[u8], plain_bytes: usize) -> Result<Vec<u8>, Corrupt> {
        let mut out = Vec::new();
        for run in compressed.chunks(2) {
            let [length, byte] = run else { return Err(Corrupt::new("half a run")) };
            if out.len() + usize::from(*length) > plain_bytes {
                return Err(Corrupt::new("too many bytes"));
            }
            out.extend(std::iter::repeat_n(*byte, usize::from(*length)));
        }
        Ok(out)
    }
}

/// A profile that takes time: it runs `during` before it compresses.
#[derive(Clone)]
pub(crate) struct Slow {
    pub(crate) profile: Arc<dyn Compress>,
    pub(crate) during: Arc<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.profile.fmt(f)
    }
}

impl Compress for Slow {
    fn profile(&self) -> Profile {
        self.profile.profile()
    }

    fn compress(&self, plain: &[u8]) -> Option<Vec<u8>> {
        (self.during)();
        self.profile.compress(plain)
    }

    fn inflate(&self, compressed: &[u8], plain_bytes: usize) -> Result<Vec<u8>, Corrupt> {
        self.profile.inflate(compressed, plain_bytes)
    }
}

/// Every profile of this build.
pub(crate) fn profiles() -> Vec<Arc<dyn Compress>> {
    vec![
        Arc::new(Runs),
        #[cfg(feature = "zstd")]
        Arc::new(punctual_rpc::compression::Zstd::default()),
        #[cfg(feature = "lz4")]
        Arc::new(punctual_rpc::compression::Lz4),
    ]
}
