//! One negotiated connection, from either side: who is called, what waits, what goes out, who is told.
//!
//! A session is a plain structure whose methods take `now` and never wait. The runtime owns the one lock around it, and
//! a session keeps that lock short: whatever could run foreign code (waking or dropping a waker, dropping a buffer) is
//! handed back in [`Effects`] for after the lock, and what needs time to compute (encoding, cutting and assembling
//! frames) happens before it. The same code runs under the property tests and in production.
//!
//! ```text
//!  caller ── gate ──▶ slot + open batch ─┐            ┌─▶ Batch ──▶ transport
//!                     bulk ring ─────────┴─ Outbox::take
//!  transport ──▶ Reader ──▶ [Item] ──▶ Session::apply ──▶ slots, Effects ──▶ wakers
//! ```

mod assembly;
mod batch;
mod bulk;
mod client;
mod closure;
mod deadlines;
mod effects;
mod message;
mod outbox;
mod reader;
mod server;
mod stream;
#[cfg(any(test, feature = "_fuzzing"))]
pub(crate) mod tests;
mod turnstile;

pub use batch::{Batch, LINK_BYTES_MIN, SLICES_MAX, WRITE_BYTES_MAX};
pub use bulk::ASSEMBLED_MESSAGES_MAX;
pub use client::{
    CallKey, ClientCounters, ClientSession, Opened, Opening, PumpPoll, Refusal, Reply, ReplyHead, ReplyPoll,
};
pub use closure::{Closure, Ending};
pub use effects::Effects;
pub use message::Body;
pub use outbox::{Outbox, PROGRESS_BYTES_MAX, STREAM_QUEUE_BYTES_MAX, YIELD_ABOVE_BYTES};
pub use reader::{Block, Item, Progress, Reader};
pub use server::{
    BudgetPolicy, Finished, HandlerPoll, Incoming, Opened as ReturnOpened, Refused, Remains, RunKey, ServerCounters,
    ServerSession, Start,
};
pub use stream::{
    Consumed, FlowStats, ITEM_OVERHEAD_BYTES, ItemsPoll, SendPoll, StreamEnd, StreamItem, UNCHARGED_BYTES_MAX,
};
pub use turnstile::Ticket;

use crate::frame::{FrameRules, Violation};
use punctual_clock::Instant;

/// What a run of items is applied with.
#[derive(Debug, Clone, Copy)]
pub struct Turn<'a> {
    /// The bytes that the items point into.
    pub block: Block<'a>,
    /// The rules that they were read under.
    pub rules: &'a FrameRules,
    /// The driver's one clock sample of this turn.
    pub now: Instant,
}

/// What a driver needs of either side's session.
pub trait Session: Send + 'static {
    /// The send side.
    fn outbox(&mut self) -> &mut Outbox;

    /// Notes that `bytes` more were written to the transport.
    fn note_written(&mut self, bytes: usize, effects: &mut Effects);

    /// Applies a run of items in order.
    ///
    /// # Errors
    /// The first rule that an item broke; the items before it stand.
    fn apply(&mut self, items: &mut Vec<Item>, turn: &Turn<'_>, effects: &mut Effects) -> Result<(), Violation>;

    /// When [`Session::expire`] has something to do at the earliest.
    fn due_at(&self) -> Instant;

    /// Ends the calls whose deadline has passed.
    fn expire(&mut self, now: Instant, effects: &mut Effects);

    /// Closes: every call that is under way ends with `closure`. The batch that was open is returned, to be written once
    /// more where the transport still can, or dropped outside of the lock.
    fn close(&mut self, closure: Closure, effects: &mut Effects) -> Batch;

    /// Why the session is closed, if it is.
    fn closure(&self) -> Option<&Closure>;

    /// How many request heads this side accepted; zero on the client.
    fn accepted(&self) -> u64;

    /// Whether the connection is to be closed because nothing is left to do on it.
    fn is_finished(&self) -> bool;

    /// Whether the connection takes no new calls and is on its way to its end.
    fn is_draining(&self) -> bool;

    /// Calls under way on this side.
    fn load(&self) -> usize;

    /// Calls that both sides have under way between them, as far as this side can tell: what the length of a turn is
    /// taken from.
    fn in_flight(&self) -> usize;
}
