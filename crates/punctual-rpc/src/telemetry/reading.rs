//! What a channel or a server counts, by name: one list for every adapter.

use crate::stats::{ChannelStats, ServerStats};

/// Whether a reading only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReadingKind {
    /// It counts since the beginning.
    Counter,
    /// It is what is in use now.
    Gauge,
}

/// One number with its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reading {
    /// In the words of the statistics: `late_replies`, `pending`.
    pub name: &'static str,
    /// What it says, in a sentence.
    pub help: &'static str,
    /// Whether it only grows.
    pub kind: ReadingKind,
    /// The number.
    pub value: u64,
}

const fn counter(name: &'static str, help: &'static str, value: u64) -> Reading {
    Reading { name, help, kind: ReadingKind::Counter, value }
}

const fn gauge(name: &'static str, help: &'static str, value: u64) -> Reading {
    Reading { name, help, kind: ReadingKind::Gauge, value }
}

impl ChannelStats {
    /// Every number with its name, always the same ones in the same order.
    #[must_use]
    pub fn readings(&self) -> Vec<Reading> {
        vec![
            counter("published", "Requests published", self.published),
            counter("retries", "Attempts made again by a retry policy", self.retries),
            counter("hedges", "Attempts that joined one that took long", self.hedges),
            counter("resends", "Calls sent again because a server went away before it took them", self.resends),
            counter("late_replies", "Replies that came for a call that was over", self.late_replies),
            counter("cancels", "Cancels sent", self.cancels),
            counter("connections", "Connections that were opened", self.connections),
            counter(
                "bad_snapshots",
                "Sets of endpoints that were not taken, and lookups that failed",
                self.bad_snapshots,
            ),
            counter("failed_connects", "Tries to connect that failed", self.failed_connects),
            counter("violations", "Connections closed because the peer broke the protocol", self.violations),
            counter("sent_bytes", "Bytes written to transports", self.sent_bytes),
            counter("received_bytes", "Bytes read from transports", self.received_bytes),
            gauge("open_connections", "Connections open", self.open_connections),
            gauge("open_breakers", "Endpoints whose circuit breaker is not closed", self.open_breakers),
            gauge("pending", "Calls that wait for a reply", self.pending),
            gauge("queued_bytes", "Bytes queued for transports", self.queued_bytes),
            gauge("streams", "Streams open", self.streams),
            gauge("unconsumed_bytes", "Bytes of received items that no consumer has taken", self.unconsumed_bytes),
            gauge("uncredited_bytes", "Bytes sent on streams and not credited back", self.uncredited_bytes),
        ]
    }
}

impl ServerStats {
    /// Every number with its name, always the same ones in the same order.
    #[must_use]
    pub fn readings(&self) -> Vec<Reading> {
        vec![
            counter("accepted", "Request heads accepted", self.accepted),
            counter("refused", "Calls refused for a limit", self.refused),
            counter("late_results", "Results that came for a call that was over", self.late_results),
            counter("cancelled", "Calls that the client cancelled", self.cancelled),
            counter("expired", "Calls whose budget ended here", self.expired),
            counter("panics", "Handlers that panicked", self.panics),
            counter("connections", "Connections that finished their handshake", self.connections),
            counter("failed_handshakes", "Handshakes that failed", self.failed_handshakes),
            counter("violations", "Connections closed because the peer broke the protocol", self.violations),
            counter("sent_bytes", "Bytes written to transports", self.sent_bytes),
            counter("received_bytes", "Bytes read from transports", self.received_bytes),
            gauge("running", "Handlers that run", self.running),
            gauge("blocking", "Threads that handlers of blocking methods have", self.blocking),
            gauge("open_connections", "Connections open", self.open_connections),
            gauge("streams", "Streams open", self.streams),
            gauge("unconsumed_bytes", "Bytes of received items that no handler has taken", self.unconsumed_bytes),
            gauge("uncredited_bytes", "Bytes sent on streams and not credited back", self.uncredited_bytes),
        ]
    }
}
