//! The receiving end of one stream.

use crate::codec::Codec;
use crate::frame::Outcome;
use crate::session::effects::Effects;
use crate::session::stream::cost;
use bytes::Bytes;
use punctual_context::CancelReason;
use std::collections::VecDeque;
use std::task::Waker;

/// One item, as it came.
#[derive(Debug, Clone)]
pub struct StreamItem {
    /// Its bytes.
    pub bytes: Bytes,
    /// How they are encoded.
    pub codec: Codec,
    /// Where it is compressed, the bytes that it had before.
    pub plain: Option<u32>,
    /// Whether it counts against the connection's window.
    pub(crate) charged: bool,
}

impl StreamItem {
    pub(crate) fn cost(&self) -> u64 {
        cost(self.plain.map_or(self.bytes.len(), |plain| plain as usize))
    }
}

/// How a stream ended.
#[derive(Debug, Clone)]
pub struct StreamEnd {
    /// Whether it came to its end, or with what it failed.
    pub outcome: Outcome,
    /// How the application's error is encoded.
    pub codec: Codec,
    /// The encoded trailers.
    pub metadata: Bytes,
    /// The error.
    pub body: Bytes,
}

/// What a consumer has taken since it last said so.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Consumed {
    bytes: u64,
    charged: u64,
}

impl Consumed {
    /// Adds an item that was taken.
    pub fn add(&mut self, item: &StreamItem) {
        self.bytes += item.cost();
        if item.charged {
            self.charged += item.cost();
        }
    }

    /// What the items cost.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// How a poll for items ended.
#[derive(Debug)]
pub enum ItemsPoll {
    /// There are some, in the buffer that came with the poll.
    Items,
    /// Not yet; the waker is parked.
    Pending,
    /// Not yet, and another waker is parked: poll again with a clone of this one.
    NeedsWaker,
    /// The stream ended.
    End(StreamEnd),
    /// The call is over for another reason than the stream's end, on the client.
    Failed(crate::session::Ending),
    /// The call is over for another reason than the stream's end, on the server.
    Over(CancelReason),
}

/// What this side holds of a stream that the peer sends.
#[derive(Debug, Default)]
pub(crate) struct Inlet {
    items: VecDeque<StreamItem>,
    /// The cost of items that no consumer has taken, also of those that it fetched; and the part of it that counts
    /// against the connection's window.
    held: u64,
    charged: u64,
    /// The cost of items that were taken and not given back.
    owed: u64,
    end: Option<StreamEnd>,
    waker: Option<Waker>,
    /// Nobody consumes it.
    gone: bool,
}

impl Inlet {
    /// Bytes that the sender has under way, as far as this side can tell.
    pub(super) fn under_way(&self) -> u64 {
        self.held + self.owed
    }

    pub(super) fn owed(&self) -> u64 {
        self.owed
    }

    pub(super) fn credited(&mut self) {
        self.owed = 0;
    }

    /// Everything that came was taken.
    pub(super) fn is_drained(&self) -> bool {
        self.held == 0
    }

    /// Whether more may come and would be consumed.
    pub(super) fn wants_more(&self) -> bool {
        self.end.is_none() && !self.gone
    }

    /// Whether items are still taken in.
    pub(crate) fn is_taking(&self) -> bool {
        self.wants_more()
    }

    pub(super) fn put(&mut self, item: StreamItem) {
        self.held += item.cost();
        if item.charged {
            self.charged += item.cost();
        }
        self.items.push_back(item);
    }

    /// Returns the part that counts against the connection's window.
    pub(super) fn consume(&mut self, consumed: Consumed) -> u64 {
        let bytes = consumed.bytes.min(self.held);
        let charged = consumed.charged.min(self.charged);
        self.held -= bytes;
        self.owed += bytes;
        self.charged -= charged;
        charged
    }

    /// Forgets everything; returns what of it counts against the connection's window.
    pub(super) fn abandon(&mut self, effects: &mut Effects) -> u64 {
        self.gone = true;
        effects.wakers.extend(self.waker.take());
        effects.garbage.extend(self.items.drain(..).map(|item| item.bytes));
        if let Some(end) = self.end.take() {
            effects.garbage.extend([end.metadata, end.body]);
        }
        self.held = 0;
        self.owed = 0;
        std::mem::take(&mut self.charged)
    }

    pub(crate) fn end(&mut self, end: StreamEnd) {
        self.end = Some(end);
    }

    pub(crate) fn wake(&mut self, effects: &mut Effects) {
        effects.wakers.extend(self.waker.take());
    }

    /// Everything that came, exchanged with an empty buffer; else the end, if it came. `None` while there is neither.
    pub(crate) fn take(&mut self, buffer: &mut VecDeque<StreamItem>) -> Option<ItemsPoll> {
        if !self.items.is_empty() {
            std::mem::swap(&mut self.items, buffer);
            return Some(ItemsPoll::Items);
        }
        self.end.take().map(ItemsPoll::End)
    }

    /// Parks the consumer.
    pub(crate) fn park(&mut self, waker: &Waker, fresh: &mut Option<Waker>) -> ItemsPoll {
        if self.waker.as_ref().is_some_and(|parked| parked.will_wake(waker)) {
            return ItemsPoll::Pending;
        }
        let Some(new) = fresh.take() else { return ItemsPoll::NeedsWaker };
        *fresh = self.waker.replace(new);
        ItemsPoll::Pending
    }
}
