//! The streams of calls: what each side holds of them, and the two windows that bound it.
//!
//! ```text
//!  producer ─▶ Outlet ─ DATA ─▶ Inlet ─▶ consumer
//!                 ▲                │ takes or drops an item
//!                 └──── CREDIT ────┘
//! ```
//! An item costs its length and a little more. It is under way from when it is queued until credit for it comes back, and
//! a stream sends while what it has under way fits the receiver's window. The connection's window bounds the same for all
//! streams together. What a stream has under way of its first bytes is not counted there, so that streams whose consumers
//! stand still cannot hold back the others for good.

mod flow;
mod inlet;
mod outlet;

pub use flow::FlowStats;
pub(crate) use flow::{Flow, Waits};
pub(crate) use inlet::Inlet;
pub use inlet::{Consumed, ItemsPoll, StreamEnd, StreamItem};
pub use outlet::SendPoll;
pub(crate) use outlet::{Blocked, Outgoing};

/// What an item costs beside its length: about what holding it takes, so that empty items are bounded too.
pub const ITEM_OVERHEAD_BYTES: u64 = 32;

/// Bytes that a stream may have under way without using the connection's window.
pub const UNCHARGED_BYTES_MAX: u64 = 32 * 1024;

/// What an item of this length costs.
pub(crate) fn cost(len: usize) -> u64 {
    len as u64 + ITEM_OVERHEAD_BYTES
}

/// Whether an item may join what is under way. One that does not fit may still go while at least half of the window is
/// free: credit comes in halves of a window, so that an emptier one cannot be waited for. This is how an item larger than
/// a window borrows, once.
pub(crate) fn fits(under_way: u64, cost: u64, window: u64) -> bool {
    under_way + cost <= window || under_way <= window / 2
}
