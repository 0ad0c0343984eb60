//! How a server stops: not ready, stop accepting, go-away, wait for calls within the grace, cancel the rest, flush,
//! release; with a bound on the whole.

use crate::server::connection::Connection;
use crate::server::phase::{PhaseWatch, ServerPhase};
use crate::server::shared::Shared;
use crate::stats::ServerStats;
use punctual_context::CancelReason;
use punctual_proto::describe::HealthStatus;
use punctual_proto::frame::{GoAwayReason, Ping};
use punctual_proto::status::Status;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// How long the first go-away may take to come back as a pong. A peer that is slower loses only that calls which it sent
/// in between are sent again.
pub(crate) const PONG_WITHIN: Duration = Duration::from_secs(1);

pub(crate) const STOPPING: &str = "the server is stopping";

/// How a server stopped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stopped {
    /// Calls that were still running when the grace ended, and were cancelled.
    pub cancelled: usize,
    /// Handlers that did not end even then. Their tasks still run.
    pub stuck: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Phase {
    Bound,
    Serving,
    Stopping(Duration),
    /// Whoever served, or stopped, was dropped before its end.
    Left,
    Stopped(Stopped),
}

/// The duty to serve, and then to say that the server has stopped. Dropped before, it leaves that to who wants to know.
#[derive(Debug)]
pub(crate) struct Serving(pub(crate) watch::Sender<Phase>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.send_if_modified(|phase| {
            let early = !matches!(phase, Phase::Stopped(_));
            if early {
                *phase = Phase::Left;
            }
            early
        });
    }
}

/// A handle on a running server. Cloning is cheap.
#[derive(Clone)]
pub struct ServerHandle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) phase: watch::Sender<Phase>,
    pub(crate) addresses: Arc<[String]>,
}

impl ServerHandle {
    /// Stops the server, giving calls this long to end, and returns once it has stopped. A stop that is under way keeps
    /// its own grace.
    ///
    /// # Cancel safety
    /// The server stops also if the future is dropped, unless whoever served it was dropped before.
    pub async fn shutdown(&self, grace: Duration) -> Stopped {
        let mut phases = self.phase.subscribe();
        loop {
            let mut left = false;
            self.phase.send_if_modified(|phase| {
                left = *phase == Phase::Left;
                let changes = left || matches!(phase, Phase::Bound | Phase::Serving);
                if changes {
                    // Whoever hears of the phase and asks for the health hears the same.
                    self.shared.drain();
                    *phase = Phase::Stopping(grace);
                }
                changes
            });
            if left {
                // Nobody accepts any more, and nobody else stops what is open.
                let serving = Serving(self.phase.clone());
                let stopped = stop(&self.shared, grace).await;
                serving.0.send_replace(Phase::Stopped(stopped));
                return stopped;
            }
            let ended = phases.wait_for(|phase| matches!(phase, Phase::Stopped(_) | Phase::Left)).await;
            match ended.as_deref() {
                Ok(Phase::Left) => {}
                Ok(Phase::Stopped(stopped)) => return *stopped,
                _ => return Stopped::default(),
            }
        }
    }

    /// Where the server listens; ports that the system chose are filled in.
    #[must_use]
    pub fn local_addrs(&self) -> &[String] {
        &self.addresses
    }

    /// Where the server is on its way from its start to its stop.
    #[must_use]
    pub fn phase(&self) -> ServerPhase {
        ServerPhase::from(*self.phase.borrow())
    }

    /// Follows the server on that way.
    #[must_use]
    pub fn watch(&self) -> PhaseWatch {
        PhaseWatch::new(self.phase.subscribe())
    }

    /// Says how a service does, or the server as a whole with an empty name.
    pub fn set_health(&self, service: &str, health: HealthStatus) {
        self.shared.set_health(service, health);
    }

    /// What was counted so far.
    #[must_use]
    pub fn stats(&self) -> ServerStats {
        self.shared.stats()
    }

    /// The same for whoever must not keep the server's state alive.
    #[cfg(any(feature = "otel", feature = "prometheus"))]
    pub(crate) fn weak_stats(&self) -> impl Fn() -> Option<ServerStats> + Send + Sync + 'static {
        let shared = Arc::downgrade(&self.shared);
        move || shared.upgrade().map(|shared| shared.stats())
    }
}

impl fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerHandle").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

/// Tells the client to send no new calls.
pub(crate) fn begin_drain(connection: &Connection, why: GoAwayReason, text: &str) {
    let driver = connection.session().begin_drain(why, text, Ping(1));
    if let Some(driver) = driver {
        driver.wake();
    }
}

/// Tells the client which calls were accepted; behind them the connection closes.
pub(crate) fn end_drain(connection: &Connection, why: GoAwayReason, text: &str) {
    let driver = connection.session().end_drain(why, text);
    if let Some(driver) = driver {
        driver.wake();
    }
}

/// Waits until `done`, looking again whenever a connection came further; false where `within` passed before.
async fn settle(shared: &Shared, within: Duration, mut done: impl FnMut(&Shared) -> bool) -> bool {
    let wait = async {
        while !done(shared) {
            shared.changed.notified().await;
        }
    };
    timeout(within, wait).await.is_ok()
}

/// Says the last word to all that are open.
fn seal(shared: &Shared) {
    for connection in shared.seal() {
        end_drain(&connection, GoAwayReason::Shutdown, STOPPING);
    }
}

/// The stop, from the go-away on: accepting has ended already.
pub(crate) async fn stop(shared: &Shared, grace: Duration) -> Stopped {
    shared.drain();
    for connection in shared.open() {
        begin_drain(&connection, GoAwayReason::Shutdown, STOPPING);
    }
    let awaits_pong = |shared: &Shared| shared.open().iter().any(|connection| connection.session().awaits_pong());
    let mut sealed = false;
    // The grace is that of the calls, whatever part of it the pongs take.
    let drained = timeout(grace, async {
        settle(shared, PONG_WITHIN.min(grace), |shared| !awaits_pong(shared)).await;
        seal(shared);
        sealed = true;
        while !shared.is_quiet() {
            shared.changed.notified().await;
        }
    })
    .await;
    let mut stopped = Stopped::default();
    if drained.is_ok() {
        return stopped;
    }
    if !sealed {
        seal(shared);
    }
    let status = Status::unavailable("the server stopped before the call ended");
    for connection in shared.open() {
        stopped.cancelled += connection.session().running();
        connection.cancel_all(CancelReason::Shutdown, &status);
    }
    if !settle(shared, shared.config.stuck_after, Shared::is_quiet).await {
        stopped.stuck = shared.lingering();
        for connection in shared.open() {
            stopped.stuck += connection.close_now();
        }
        if stopped.stuck > 0 {
            tracing::error!(
                stuck = stopped.stuck,
                "handlers did not end when they were cancelled; they are left behind"
            );
        }
    }
    stopped
}
