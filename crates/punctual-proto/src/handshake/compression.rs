//! What a side can inflate, and what the two agree on.

use crate::handshake::HandshakeError;
use std::fmt;

/// The most profiles that a side may list.
pub const PROFILES_MAX: usize = 16;

/// A way of compressing bodies, by its number on the wire. Numbers from 128 on are free for who runs both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Profile(pub u8);

impl Profile {
    /// One Zstandard frame (RFC 8878) with a window of at most 8 MiB and no dictionary.
    pub const ZSTD: Profile = Profile(1);
    /// One LZ4 block, without a frame around it.
    pub const LZ4: Profile = Profile(2);
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Profile::ZSTD => f.write_str("zstd"),
            Profile::LZ4 => f.write_str("lz4"),
            Profile(number) => write!(f, "profile {number}"),
        }
    }
}

/// The profile that holds on a connection: the first of the client's that the server has, too.
pub(super) fn agree(client: &[Profile], server: &[Profile]) -> Option<Profile> {
    client.iter().copied().find(|profile| server.contains(profile))
}

/// The item's value.
pub(super) fn put(profiles: &[Profile]) -> Result<Vec<u8>, HandshakeError> {
    check(profiles)?;
    Ok(profiles.iter().map(|profile| profile.0).collect())
}

pub(super) fn read(value: &[u8]) -> Result<Vec<Profile>, HandshakeError> {
    let profiles: Vec<Profile> = value.iter().copied().map(Profile).collect();
    check(&profiles)?;
    Ok(profiles)
}

fn check(profiles: &[Profile]) -> Result<(), HandshakeError> {
    let twice = profiles.iter().enumerate().any(|(at, profile)| profiles.iter().skip(at + 1).any(|one| one == profile));
    let malformed = |what| Err(HandshakeError::Malformed { what });
    match profiles {
        [] => malformed("a list of no compression profiles"),
        _ if profiles.len() > PROFILES_MAX => malformed("more than 16 compression profiles"),
        _ if profiles.contains(&Profile(0)) => malformed("compression profile 0 does not exist"),
        _ if twice => malformed("a compression profile is listed twice"),
        _ => Ok(()),
    }
}
