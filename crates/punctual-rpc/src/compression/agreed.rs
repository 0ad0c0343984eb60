//! What holds on one connection whose sides agreed on a profile.

use crate::compression::{Compress, Corrupt};
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::Arc;

/// From which length on what is compressed.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) bytes_min: usize,
    /// By the id of the method.
    pub(super) methods: HashMap<u64, Option<usize>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Agreed {
    profile: Arc<dyn Compress>,
    rules: Arc<Rules>,
}

/// The same for the bodies of one call.
#[derive(Debug, Clone)]
pub(crate) struct Shrink {
    profile: Arc<dyn Compress>,
    bytes_min: usize,
}

/// A body that got shorter.
pub(crate) struct Shrunk {
    pub(crate) bytes: Bytes,
    /// The bytes that it had before.
    pub(crate) plain: u32,
}

impl Agreed {
    pub(super) fn new(profile: Arc<dyn Compress>, rules: Rules) -> Self {
        Agreed { profile, rules: Arc::new(rules) }
    }

    /// From which length on the bodies of a method's call are compressed; `None` for never. What the call itself says comes
    /// first.
    fn bytes_min(&self, method: u64, said: Option<bool>) -> Option<usize> {
        match said {
            Some(said) => said.then_some(1),
            None if self.rules.methods.is_empty() => Some(self.rules.bytes_min),
            None => self.rules.methods.get(&method).copied().unwrap_or(Some(self.rules.bytes_min)),
        }
    }

    /// What a call's bodies go through, if anything.
    pub(crate) fn of_call(&self, method: u64, said: Option<bool>) -> Option<Shrink> {
        let bytes_min = self.bytes_min(method, said)?;
        Some(Shrink { profile: Arc::clone(&self.profile), bytes_min })
    }

    /// The same for one body at once.
    #[inline]
    pub(crate) fn shrink(&self, method: u64, said: Option<bool>, plain: &[u8]) -> Option<Shrunk> {
        shrink(&*self.profile, self.bytes_min(method, said)?, plain)
    }

    /// What was compressed.
    ///
    /// # Errors
    /// Where it does not inflate to exactly `plain` bytes.
    pub(crate) fn inflate(&self, compressed: &[u8], plain: u32) -> Result<Bytes, Corrupt> {
        let plain = usize::try_from(plain).unwrap_or(usize::MAX);
        let inflated = self.profile.inflate(compressed, plain)?;
        // A profile of the application's own may be wrong, too.
        if inflated.len() != plain {
            return Err(Corrupt::new(format!("{} bytes came out where {plain} were announced", inflated.len())));
        }
        Ok(Bytes::from(inflated))
    }
}

impl Shrink {
    pub(crate) fn shrink(&self, plain: &[u8]) -> Option<Shrunk> {
        shrink(&*self.profile, self.bytes_min, plain)
    }
}

fn shrink(profile: &dyn Compress, bytes_min: usize, plain: &[u8]) -> Option<Shrunk> {
    if plain.is_empty() || plain.len() < bytes_min {
        return None;
    }
    let length = u32::try_from(plain.len()).ok()?;
    // The frame says the length before, too.
    let bytes = profile.compress(plain).filter(|bytes| bytes.len() + size_of::<u32>() < plain.len())?;
    Some(Shrunk { bytes: Bytes::from(bytes), plain: length })
}
