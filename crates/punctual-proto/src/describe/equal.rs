//! Which methods of two versions of a service are the same, as far as the wire goes.
//!
//! A client whose contract differs from the server's asks for a description once, and goes on in the compact codec with the
//! methods that [`equal_methods`] finds in it.

use crate::contract::ServiceDescriptor;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// The most bytes of a description that are compared. A contract of a thousand methods has less; what a peer can make a
/// client parse beside its calls must not depend on how large messages may be.
pub const COMPARED_BYTES_MAX: usize = 1 << 20;

/// Why a description cannot be compared with a contract. All methods then count as different.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Incomparable {
    /// It is over [`COMPARED_BYTES_MAX`].
    TooLong {
        /// The bytes that it has.
        bytes: usize,
    },
    /// It is no JSON array of descriptions.
    Unreadable,
    /// It describes something else than the one service that was asked for.
    OtherService,
    /// A method's id or hash is not 16 hexadecimal digits.
    Digits,
    /// A method is described twice.
    Twice,
}

impl Incomparable {
    /// A short stable name, for logs and test vectors.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Incomparable::TooLong { .. } => "too_long",
            Incomparable::Unreadable => "unreadable",
            Incomparable::OtherService => "other_service",
            Incomparable::Digits => "digits",
            Incomparable::Twice => "twice",
        }
    }
}

impl fmt::Display for Incomparable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Incomparable::TooLong { bytes } => {
                write!(f, "the description has {bytes} bytes; at most {COMPARED_BYTES_MAX} are compared")
            }
            Incomparable::Unreadable => f.write_str("the description is no JSON array of services"),
            Incomparable::OtherService => f.write_str("the description is not that of the one service asked for"),
            Incomparable::Digits => f.write_str("a method's id or schema hash is not 16 hexadecimal digits"),
            Incomparable::Twice => f.write_str("a method is described twice"),
        }
    }
}

impl std::error::Error for Incomparable {}

/// What is read of a description: the rest of it is skipped, and takes no memory.
#[derive(Deserialize)]
struct Outline<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    methods: Vec<MethodOutline<'a>>,
}

#[derive(Deserialize)]
struct MethodOutline<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    schema_hash: Cow<'a, str>,
}

/// The ids of the methods of `ours` that the described service has with the same schema hash, in ascending order: those
/// that may go in the compact codec although the contracts differ. `body` is a describe reply for that one service. The
/// memory taken is at most a few times the bytes of `body`.
///
/// # Errors
/// Where `body` is not such a reply, or one that contradicts itself.
pub fn equal_methods(ours: &ServiceDescriptor, body: &[u8]) -> Result<Vec<u64>, Incomparable> {
    if body.len() > COMPARED_BYTES_MAX {
        return Err(Incomparable::TooLong { bytes: body.len() });
    }
    let services: Vec<Outline<'_>> = serde_json::from_slice(body).map_err(|_| Incomparable::Unreadable)?;
    let [theirs] = services.as_slice() else { return Err(Incomparable::OtherService) };
    if theirs.name != ours.name {
        return Err(Incomparable::OtherService);
    }
    let mut hashes = BTreeMap::new();
    for method in &theirs.methods {
        if hashes.insert(digits(&method.id)?, digits(&method.schema_hash)?).is_some() {
            return Err(Incomparable::Twice);
        }
    }
    let same = ours.methods.iter().filter(|method| hashes.get(&method.id) == Some(&method.schema_hash()));
    let mut ids: Vec<u64> = same.map(|method| method.id).collect();
    ids.sort_unstable();
    Ok(ids)
}

fn digits(text: &str) -> Result<u64, Incomparable> {
    // The standard parser also takes a sign.
    let fine = text.len() == 16 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    u64::from_str_radix(text, 16).ok().filter(|_| fine).ok_or(Incomparable::Digits)
}
