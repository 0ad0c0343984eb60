//! The 64-bit id of a call.

use std::fmt;

/// Bits of an id that name the client's slot. Wider than the 65,536 pending calls of version 1, so that a later version
/// can raise the limit without moving the generation.
pub const SLOT_BITS: u32 = 20;

const SLOT_MASK: u64 = (1 << SLOT_BITS) - 1;
const NO_REPLY: u64 = 1 << 63;

/// The id of a call, chosen by the client.
///
/// Top bit 0: a call that waits for a reply; bits 0..20 are its slot in the client's table and bits 20..63 the slot's
/// generation, so that a late reply can never reach the slot's next call. Top bit 1: no reply is awaited under this id in
/// the table (a plain one-way call, a describe or a health query); the rest is a counter. Ids have no order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct CallId(u64);

impl CallId {
    /// The id 0, in frames that are about no call.
    pub const NONE: CallId = CallId(0);

    /// The id of a call in `slot` of the client's table; bits of either that do not fit are dropped.
    #[must_use]
    pub const fn pending(slot: u32, generation: u64) -> Self {
        CallId(((generation << SLOT_BITS) & !NO_REPLY) | (slot as u64 & SLOT_MASK))
    }

    /// The id of something that has no entry in the client's table.
    #[must_use]
    pub const fn counted(counter: u64) -> Self {
        CallId(NO_REPLY | counter)
    }

    /// From the number on the wire; every number is an id.
    #[must_use]
    pub const fn from_u64(id: u64) -> Self {
        CallId(id)
    }

    /// The number on the wire.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Whether a reply is awaited in the client's table.
    #[must_use]
    pub const fn is_pending(self) -> bool {
        self.0 & NO_REPLY == 0
    }

    /// The slot. Meaningless where [`is_pending`](Self::is_pending) is false.
    #[must_use]
    pub const fn slot(self) -> u32 {
        (self.0 & SLOT_MASK) as u32
    }

    /// The generation of the slot. Meaningless where [`is_pending`](Self::is_pending) is false.
    #[must_use]
    pub const fn generation(self) -> u64 {
        (self.0 & !NO_REPLY) >> SLOT_BITS
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_pending() {
            write!(f, "{}.{}", self.slot(), self.generation())
        } else {
            write!(f, "#{}", self.0 & !NO_REPLY)
        }
    }
}

impl fmt::Debug for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallId({self})")
    }
}
