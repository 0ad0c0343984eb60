//! The connection's own window, in both directions, and what all its streams share.

use crate::frame::{CallId, Violation};
use crate::handshake::Agreement;
use crate::session::effects::Effects;
use crate::session::outbox::Outbox;
use crate::session::stream::inlet::{Consumed, Inlet, StreamItem};
use crate::session::stream::{UNCHARGED_BYTES_MAX, fits};

/// What the streams of one side of a connection have in common.
#[derive(Debug)]
pub(crate) struct Flow {
    /// What the peer holds of one stream and of all.
    pub(crate) peer_stream: u64,
    pub(crate) peer_connection: u64,
    /// What this side holds.
    own_stream: u64,
    own_connection: u64,
    /// Bytes under way to the peer that count against its connection window.
    pub(crate) charged: u64,
    /// Such bytes from the peer that no consumer has taken.
    held: u64,
    /// Such bytes that were taken and not yet given back.
    owed: u64,
    /// Open streams.
    open: usize,
    open_max: usize,
    /// Calls whose producers wait for the queue, or for the connection's window, by their places.
    queue: Vec<u32>,
    window: Vec<u32>,
    /// Credit could not be queued; it is when the peer has read some.
    stuck: bool,
    /// So much is held that streams are given their credit back without gathering it.
    pressed: bool,
}

/// What of a connection's streams can be counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlowStats {
    /// Open streams.
    pub open: usize,
    /// Bytes sent that count against the peer's connection window and that it did not give back.
    pub sent_bytes: u64,
    /// Such bytes received that no consumer has taken.
    pub held_bytes: u64,
    /// Such bytes received and taken, not given back yet.
    pub owed_bytes: u64,
}

/// What of everything that streams share a producer waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waits {
    /// Room in the queue, or in the ring of big messages.
    Queue,
    /// The connection's window.
    Window,
}

impl Flow {
    pub(crate) fn new(agreement: &Agreement) -> Self {
        Flow {
            peer_stream: u64::from(agreement.limits.stream_window_bytes),
            peer_connection: u64::from(agreement.limits.connection_window_bytes),
            own_stream: u64::from(agreement.own.stream_bytes),
            own_connection: u64::from(agreement.own.connection_bytes),
            charged: 0,
            held: 0,
            owed: 0,
            open: 0,
            open_max: usize::try_from(agreement.limits.streams_max).unwrap_or(usize::MAX),
            queue: Vec::new(),
            window: Vec::new(),
            stuck: false,
            pressed: false,
        }
    }

    pub(crate) fn stats(&self) -> FlowStats {
        FlowStats { open: self.open, sent_bytes: self.charged, held_bytes: self.held, owed_bytes: self.owed }
    }

    /// Whether so many more streams may be open; else the limit.
    pub(crate) fn check(&self, more: usize) -> Result<(), u64> {
        if self.open + more <= self.open_max { Ok(()) } else { Err(self.open_max as u64) }
    }

    pub(crate) fn opened(&mut self, streams: usize) {
        self.open += streams;
    }

    pub(crate) fn closed(&mut self, streams: usize) {
        self.open -= streams.min(self.open);
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.open > 0
    }

    /// The peer gives connection credit. What it grants beyond what is under way counts for nothing.
    pub(crate) fn credit(&mut self, bytes: u64) {
        self.charged = self.charged.saturating_sub(bytes);
    }

    /// Puts the call at `at` into a line, where it waits for something that is shared.
    pub(crate) fn wait(&mut self, at: u32, waits: Waits) {
        match waits {
            Waits::Queue => self.queue.push(at),
            Waits::Window => self.window.push(at),
        }
    }

    /// Whether somebody waits in that line.
    #[inline]
    pub(crate) fn has_waiters(&self, waits: Waits) -> bool {
        match waits {
            Waits::Queue => !self.queue.is_empty(),
            Waits::Window => !self.window.is_empty(),
        }
    }

    /// Empties a line.
    pub(crate) fn take_waiters(&mut self, waits: Waits) -> Vec<u32> {
        std::mem::take(match waits {
            Waits::Queue => &mut self.queue,
            Waits::Window => &mut self.window,
        })
    }

    /// Takes an item in for a consumer, or finds that it was sent without credit.
    pub(crate) fn accept(
        &mut self,
        inlet: &mut Inlet,
        item: StreamItem,
        call: CallId,
        stream: u16,
    ) -> Result<(), Violation> {
        let (cost, under_way) = (item.cost(), inlet.under_way());
        let exceeded = |limit, window, under_way| Violation::WindowExceeded {
            call,
            stream,
            limit,
            window,
            bytes: under_way + cost,
        };
        if !fits(under_way, cost, self.own_stream) {
            return Err(exceeded("stream_window_bytes", self.own_stream, under_way));
        }
        if item.charged {
            if !fits(self.held + self.owed, cost, self.own_connection) {
                return Err(exceeded("connection_window_bytes", self.own_connection, self.held + self.owed));
            }
            self.held += cost;
        } else if under_way + cost > UNCHARGED_BYTES_MAX {
            return Err(exceeded(
                "the part of a stream that the connection does not count",
                UNCHARGED_BYTES_MAX,
                under_way,
            ));
        }
        inlet.put(item);
        Ok(())
    }

    /// An item that nobody consumes gives back what it took of the connection's window.
    pub(crate) fn discard(&mut self, item: &StreamItem, out: &mut Outbox) {
        if item.charged {
            self.owed += item.cost();
            self.settle_connection(out);
        }
    }

    /// Notes what a consumer took, and gives credit back where enough came together.
    pub(crate) fn consume(
        &mut self,
        inlet: &mut Inlet,
        consumed: Consumed,
        call: CallId,
        stream: u16,
        out: &mut Outbox,
    ) {
        let charged = inlet.consume(consumed);
        self.held -= charged.min(self.held);
        self.owed += charged;
        self.settle(inlet, call, stream, out);
        self.settle_connection(out);
    }

    /// Gives a stream's credit back: at half a window, and at once where the connection holds so much that the peer may
    /// have none left but this.
    fn settle(&mut self, inlet: &mut Inlet, call: CallId, stream: u16, out: &mut Outbox) {
        let enough = inlet.owed() >= self.own_stream / 2 || self.pressed && inlet.is_drained() && inlet.owed() > 0;
        if enough && inlet.wants_more() {
            if out.push_credit(call, stream, inlet.owed()) {
                inlet.credited();
            } else {
                self.stuck = true;
            }
        }
    }

    /// The same for the connection: at half a window or, where more than half of it is held, at half of what is left.
    fn settle_connection(&mut self, out: &mut Outbox) {
        self.note_pressure();
        let half = (self.own_connection / 2).min(self.own_connection.saturating_sub(self.held) / 2);
        if self.owed > 0 && self.owed >= half {
            if out.push_credit(CallId::NONE, 0, self.owed) {
                self.owed = 0;
            } else {
                self.stuck = true;
            }
        }
    }

    fn note_pressure(&mut self) -> bool {
        let before = std::mem::replace(&mut self.pressed, self.held >= self.own_connection / 4);
        self.pressed && !before
    }

    /// Whether every stream should be asked for credit to give back: since items came that put the connection under
    /// pressure, or since the peer reads again.
    pub(crate) fn must_sweep(&mut self, out: &Outbox) -> bool {
        let pressed = self.note_pressure();
        let freed = self.stuck && out.has_progress_room();
        if freed {
            self.stuck = false;
        }
        pressed || freed
    }

    /// One stream of such a sweep.
    pub(crate) fn sweep(&mut self, inlet: &mut Inlet, call: CallId, stream: u16, out: &mut Outbox) {
        self.settle(inlet, call, stream, out);
    }

    /// The end of such a sweep.
    pub(crate) fn end_sweep(&mut self, out: &mut Outbox) {
        self.settle_connection(out);
    }

    /// A consumer is gone, or its call over: nothing more is given back for the stream, and everything for the connection.
    pub(crate) fn abandon(&mut self, inlet: &mut Inlet, out: &mut Outbox, effects: &mut Effects) {
        let charged = inlet.abandon(effects);
        self.held -= charged.min(self.held);
        self.owed += charged;
        self.settle_connection(out);
    }
}
