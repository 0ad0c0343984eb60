//! The sending ends of the streams of one call.

use crate::codec::Codec;
use crate::frame::{CallId, DataHead};
use crate::session::effects::Effects;
use crate::session::message::Body;
use crate::session::outbox::Outbox;
use crate::session::stream::flow::{Flow, Waits};
use crate::session::stream::{UNCHARGED_BYTES_MAX, cost, fits};
use std::task::Waker;

/// How an attempt to send on a stream ended.
#[derive(Debug)]
pub enum SendPoll {
    /// It is queued; the driver's waker is to be woken.
    Sent(Option<Waker>),
    /// Not now; the waker is parked.
    Wait,
    /// Not now, and another waker is parked: try again with a clone of this one.
    NeedsWaker,
    /// The call is over, or the stream: nothing is sent on it any more.
    Over,
}

/// What this side sends on one stream.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Outlet {
    /// Bytes for which no credit came back.
    pub(crate) under_way: u64,
    pub(crate) ended: bool,
}

/// What an item waits for.
pub(crate) enum Blocked {
    /// Credit of its stream.
    Credit,
    /// Something that is shared.
    Shared(Waits),
}

impl Outlet {
    /// Queues an item, if everything that bounds it has room.
    pub(crate) fn send(
        &mut self,
        call: CallId,
        stream: u16,
        codec: Codec,
        body: &mut Body<'_>,
        flow: &mut Flow,
        out: &mut Outbox,
    ) -> Result<(), Blocked> {
        // What the item is to its consumer, however few bytes it goes as.
        let cost = cost(body.plain().map_or(body.len(), |plain| plain as usize));
        if !fits(self.under_way, cost, flow.peer_stream) {
            return Err(Blocked::Credit);
        }
        let charged = self.under_way + cost > UNCHARGED_BYTES_MAX;
        if charged && !fits(flow.charged, cost, flow.peer_connection) {
            return Err(Blocked::Shared(Waits::Window));
        }
        let head = DataHead { stream, charged, codec, total: None, plain: body.plain(), body: &[] };
        if !out.stream_fits() || out.has_bulk(call) || out.is_bulk(&head, body) && !out.bulk_fits(body.len()) {
            return Err(Blocked::Shared(Waits::Queue));
        }
        let big = out.is_bulk(&head, body);
        self.under_way += cost;
        if charged {
            flow.charged += cost;
        }
        out.push_message(call, head, body, None);
        if big && charged {
            out.charge_bulk(call, cost);
        }
        Ok(())
    }
}

/// The sending ends of a call, and who moves them.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    pub(crate) outlets: Vec<Outlet>,
    /// The producers' task.
    waker: Option<Waker>,
    /// It stands in the line for the queue, or for the connection's window.
    in_queue: bool,
    in_window: bool,
}

impl Outgoing {
    pub(crate) fn new(streams: usize) -> Self {
        Outgoing { outlets: vec![Outlet::default(); streams], ..Outgoing::default() }
    }

    pub(crate) fn wake(&mut self, effects: &mut Effects) {
        effects.wakers.extend(self.waker.take());
    }

    /// The line that it stood in was emptied.
    pub(crate) fn left(&mut self, waits: Waits) {
        match waits {
            Waits::Queue => self.in_queue = false,
            Waits::Window => self.in_window = false,
        }
    }

    /// Puts the call's place into the line for what it waits for, once.
    pub(crate) fn wait(&mut self, at: u32, waits: Waits, flow: &mut Flow) {
        let stands = match waits {
            Waits::Queue => &mut self.in_queue,
            Waits::Window => &mut self.in_window,
        };
        if !std::mem::replace(stands, true) {
            flow.wait(at, waits);
        }
    }

    /// Parks the producers' task; `false` where another waker is parked and no fresh one was given.
    pub(crate) fn park(&mut self, waker: &Waker, fresh: &mut Option<Waker>) -> bool {
        if self.waker.as_ref().is_some_and(|parked| parked.will_wake(waker)) {
            return true;
        }
        let Some(new) = fresh.take() else { return false };
        *fresh = self.waker.replace(new);
        true
    }

    /// Credit of a stream came.
    pub(crate) fn credit(&mut self, index: usize, bytes: u64, effects: &mut Effects) -> bool {
        let Some(outlet) = self.outlets.get_mut(index) else { return false };
        // What the peer grants beyond what is under way counts for nothing.
        outlet.under_way = outlet.under_way.saturating_sub(bytes);
        self.wake(effects);
        true
    }
}
