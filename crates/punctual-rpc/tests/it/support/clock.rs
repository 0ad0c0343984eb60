//! Channels and servers under clocks that a test owns.

use punctual_clock::{Clock, Instant, Timestamp};
use punctual_rpc::{ChannelConfig, ServerConfig};
use punctual_testkit::{TokioClock, VirtualClock};
use std::sync::Arc;
use std::time::Duration;

pub(crate) fn virtual_clock() -> Arc<VirtualClock> {
    Arc::new(VirtualClock::starting_at(Timestamp::EPOCH))
}

/// A clock that follows tokio's paused time.
pub(crate) fn tokio_clock() -> Arc<TokioClock> {
    Arc::new(TokioClock::starting_at(Timestamp::EPOCH))
}

pub(crate) fn channel_under(clock: Arc<dyn Clock>) -> ChannelConfig {
    let mut config = ChannelConfig::default();
    config.clock = clock;
    config
}

pub(crate) fn server_under(clock: Arc<dyn Clock>) -> ServerConfig {
    let mut config = ServerConfig::default();
    config.clock = clock;
    config
}

/// Measures tokio's paused time.
pub(crate) struct Stopwatch(Arc<TokioClock>, Instant);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        let clock = tokio_clock();
        let start = clock.now();
        Stopwatch(clock, start)
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.now().since(self.1)
    }
}
