//! Compressed bodies: off unless both sides are told to, agreed on in the handshake, and then decided body by body.
//!
//! A body is compressed in the task that made it, outside of every lock and before the gate, and inflated in the task that
//! reads it. What does not get shorter goes as it is. Limits and windows count the bytes before compression, and what is
//! inflated is bounded by the length that the frame announced, which is within the message limit.
//!
//! The length of a compressed body tells how much its parts have in common. Do not compress what is secret beside what an
//! attacker chooses.

mod agreed;
#[cfg(feature = "lz4")]
mod lz4;
#[cfg(test)]
mod tests;
#[cfg(feature = "zstd")]
mod zstd;

pub(crate) use agreed::{Agreed, Shrink};
#[cfg(feature = "lz4")]
pub use lz4::Lz4;
pub use punctual_proto::handshake::Profile;
#[cfg(feature = "zstd")]
pub use zstd::Zstd;

use agreed::Rules;
use punctual_proto::contract::method_id;
use punctual_proto::handshake::PROFILES_MAX;
use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::sync::Arc;

/// Bodies below this are sent as they are: what compression saves of one packet is not worth its time.
pub const BYTES_MIN: usize = 1_024;

/// A way of compressing bodies.
pub trait Compress: Debug + Send + Sync + 'static {
    /// Its number on the wire; from 128 on for one of your own.
    fn profile(&self) -> Profile;

    /// The compressed form of `plain`, which is not empty; `None` where that would not be shorter. Takes as long as it takes
    /// in the task of the caller or of the handler.
    fn compress(&self, plain: &[u8]) -> Option<Vec<u8>>;

    /// What was compressed. It had `plain_bytes`, which the peer said and which is within the message limit.
    ///
    /// The bytes come from the peer and may be anything: this must neither panic nor produce, or make room for, much more
    /// than `plain_bytes`.
    ///
    /// # Errors
    /// Where `compressed` does not inflate to exactly so many bytes.
    fn inflate(&self, compressed: &[u8], plain_bytes: usize) -> Result<Vec<u8>, Corrupt>;
}

/// A compressed body that cannot be inflated. Its call fails alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corrupt(String);

impl Corrupt {
    /// For this reason.
    #[must_use]
    pub fn new(why: impl Into<String>) -> Self {
        Corrupt(why.into())
    }
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the compressed body cannot be read: {}", self.0)
    }
}

impl std::error::Error for Corrupt {}

/// What one side compresses, and what it can inflate. Off where no profile was added, which is the default.
///
/// ```
/// # #[cfg(feature = "lz4")] {
/// use punctual_rpc::compression::{Compression, Lz4};
///
/// let compression = Compression::new().with(Lz4).bytes_min(4 * 1024).method("Album/thumbnail", None);
/// # let _ = compression;
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Compression {
    profiles: Vec<Arc<dyn Compress>>,
    bytes_min: usize,
    methods: BTreeMap<String, Option<usize>>,
}

impl Default for Compression {
    fn default() -> Self {
        Compression { profiles: Vec::new(), bytes_min: BYTES_MIN, methods: BTreeMap::new() }
    }
}

impl Compression {
    /// Off, until a profile is added.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With this way of compressing behind those that are preferred to it. The client's order counts.
    #[must_use]
    pub fn with(mut self, profile: impl Compress) -> Self {
        self.profiles.push(Arc::new(profile));
        self
    }

    /// Compresses bodies from this length on. [`BYTES_MIN`].
    #[must_use]
    pub fn bytes_min(mut self, bytes: usize) -> Self {
        self.bytes_min = bytes;
        self
    }

    /// Compresses the bodies of `Service/method` from this length on, or with `None` never.
    #[must_use]
    pub fn method(mut self, full_name: impl Into<String>, bytes_min: impl Into<Option<usize>>) -> Self {
        self.methods.insert(full_name.into(), bytes_min.into());
        self
    }

    /// Refuses what no handshake could say.
    pub(crate) fn validate(&self) -> Result<(), String> {
        if self.profiles.len() > PROFILES_MAX {
            return Err(format!("there are {} compression profiles; keep at most {PROFILES_MAX}", self.profiles.len()));
        }
        let mut numbers: Vec<u8> = self.profiles.iter().map(|profile| profile.profile().0).collect();
        numbers.sort_unstable();
        if numbers.first() == Some(&0) {
            return Err("compression profile 0 does not exist; take a number from 128 on".to_owned());
        }
        match numbers.windows(2).find(|pair| pair.first() == pair.last()) {
            Some(twice) => {
                Err(format!("{} is there twice among the compression profiles; drop one", Profile(twice[0])))
            }
            None => Ok(()),
        }
    }

    /// What the handshake says.
    pub(crate) fn profiles(&self) -> Vec<Profile> {
        self.profiles.iter().map(|profile| profile.profile()).collect()
    }

    /// What holds on a connection that agreed on this profile.
    pub(crate) fn agreed(&self, profile: Option<Profile>) -> Option<Agreed> {
        let profile = self.profiles.iter().find(|one| Some(one.profile()) == profile)?;
        let methods = self.methods.iter().map(|(name, bytes_min)| (method_id(name), *bytes_min)).collect();
        Some(Agreed::new(Arc::clone(profile), Rules { bytes_min: self.bytes_min, methods }))
    }
}
