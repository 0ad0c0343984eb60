//! What both ends count, for metrics and tests. Reading it takes each connection's lock once.

use punctual_proto::session::FlowStats;

/// What a channel counted over all its connections, past and present.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChannelStats {
    /// Requests published.
    pub published: u64,
    /// Replies that came for a call that was over.
    pub late_replies: u64,
    /// Cancels sent.
    pub cancels: u64,
    /// Attempts beyond the first that a retry policy made.
    pub retries: u64,
    /// Attempts that joined one that took long.
    pub hedges: u64,
    /// Endpoints whose circuit breaker is not closed now.
    pub open_breakers: u64,
    /// Calls that were sent again because a server went away before it took them.
    pub resends: u64,
    /// Connections that were opened.
    pub connections: u64,
    /// Connections open now.
    pub open_connections: u64,
    /// Sets of endpoints that a resolver published and that were not taken, and lookups that failed.
    pub bad_snapshots: u64,
    /// Tries to connect that failed.
    pub failed_connects: u64,
    /// Connections closed because the peer broke the protocol.
    pub violations: u64,
    /// Bytes written to transports, in connections that finished their handshake.
    pub sent_bytes: u64,
    /// Bytes read from transports, as far.
    pub received_bytes: u64,
    /// Turns of the connections' drivers.
    pub turns: u64,
    /// Calls that wait for a reply now.
    pub pending: u64,
    /// Bytes queued for the transport now.
    pub queued_bytes: u64,
    /// Streams open now.
    pub streams: u64,
    /// Bytes of received items that no consumer has taken, as far as they count against connections' windows.
    pub unconsumed_bytes: u64,
    /// Bytes sent on streams for which the server has not given credit back, as far as they count against connections'
    /// windows.
    pub uncredited_bytes: u64,
}

impl ChannelStats {
    pub(crate) fn add_flow(&mut self, flow: &FlowStats) {
        self.streams += flow.open as u64;
        self.unconsumed_bytes += flow.held_bytes;
        self.uncredited_bytes += flow.sent_bytes;
    }
}

/// What a server counted over all its connections, past and present.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerStats {
    /// Request heads accepted.
    pub accepted: u64,
    /// Calls refused for a limit.
    pub refused: u64,
    /// Results that came for a call that was over.
    pub late_results: u64,
    /// Calls that the client cancelled.
    pub cancelled: u64,
    /// Calls whose budget ended here.
    pub expired: u64,
    /// Calls that the admission control refused.
    pub admission_refused: u64,
    /// Calls that wait at the admission control now.
    pub admission_waiting: u64,
    /// Handlers that panicked.
    pub panics: u64,
    /// Connections that finished their handshake.
    pub connections: u64,
    /// Handshakes that failed.
    pub failed_handshakes: u64,
    /// Connections closed because the peer broke the protocol.
    pub violations: u64,
    /// Bytes written to transports, in connections that finished their handshake.
    pub sent_bytes: u64,
    /// Bytes read from transports, as far.
    pub received_bytes: u64,
    /// Turns of the connections' drivers.
    pub turns: u64,
    /// Handlers that run now.
    pub running: u64,
    /// Threads that handlers of blocking methods have now.
    pub blocking: u64,
    /// Connections open now.
    pub open_connections: u64,
    /// Streams open now.
    pub streams: u64,
    /// Bytes of received items that no handler has taken, as far as they count against connections' windows.
    pub unconsumed_bytes: u64,
    /// Bytes sent on streams for which the clients have not given credit back, as far as they count against connections'
    /// windows.
    pub uncredited_bytes: u64,
}

impl ServerStats {
    pub(crate) fn add_flow(&mut self, flow: &FlowStats) {
        self.streams += flow.open as u64;
        self.unconsumed_bytes += flow.held_bytes;
        self.uncredited_bytes += flow.sent_bytes;
    }
}
