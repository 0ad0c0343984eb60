//! What a side can do beyond the fixed core, as bits.

use std::fmt;

/// A set of capabilities. Bits that this version does not know are kept, so that they can be named when a peer requires
/// them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Capabilities(u64);

impl Capabilities {
    /// None.
    pub const NONE: Capabilities = Capabilities(0);
    /// CANCEL frames carry a reason byte.
    pub const CANCEL_REASON: Capabilities = Capabilities(1);
    /// DATA, END and CREDIT frames exist.
    pub const STREAMS: Capabilities = Capabilities(1 << 1);
    /// Bodies may be compressed, in a way that both sides list.
    pub const COMPRESSION: Capabilities = Capabilities(1 << 2);
    /// Requests may carry a priority. Reserved.
    pub const PRIORITY: Capabilities = Capabilities(1 << 3);
    /// The authentication payload may be renewed on an open connection. Reserved.
    pub const TOKEN_REFRESH: Capabilities = Capabilities(1 << 4);

    /// What this version of the library can do by itself; [`COMPRESSION`](Self::COMPRESSION) takes a profile beside it.
    pub const IMPLEMENTED: Capabilities = Capabilities::CANCEL_REASON.union(Capabilities::STREAMS);

    const NAMES: [(Capabilities, &'static str); 5] = [
        (Capabilities::CANCEL_REASON, "cancel-reason"),
        (Capabilities::STREAMS, "streams"),
        (Capabilities::COMPRESSION, "compression"),
        (Capabilities::PRIORITY, "priority"),
        (Capabilities::TOKEN_REFRESH, "token-refresh"),
    ];

    /// From the bits on the wire.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Capabilities(bits)
    }

    /// The bits on the wire.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether every one of `other` is in here.
    #[must_use]
    pub const fn contains(self, other: Capabilities) -> bool {
        other.0 & !self.0 == 0
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those of either.
    #[must_use]
    pub const fn union(self, other: Capabilities) -> Self {
        Capabilities(self.0 | other.0)
    }

    /// Those of both.
    #[must_use]
    pub const fn intersection(self, other: Capabilities) -> Self {
        Capabilities(self.0 & other.0)
    }

    /// Those in here that `other` has not.
    #[must_use]
    pub const fn without(self, other: Capabilities) -> Self {
        Capabilities(self.0 & !other.0)
    }
}

impl fmt::Display for Capabilities {
    /// Names, joined by commas; `bit N` for one that this version does not know.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        let mut separator = "";
        for bit in (0..u64::BITS).filter(|bit| self.0 >> bit & 1 == 1) {
            let one = Capabilities(1 << bit);
            match Self::NAMES.iter().find(|(known, _)| *known == one) {
                Some((_, name)) => write!(f, "{separator}{name}")?,
                None => write!(f, "{separator}bit {bit}")?,
            }
            separator = ", ";
        }
        Ok(())
    }
}

impl fmt::Debug for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Capabilities({self})")
    }
}
