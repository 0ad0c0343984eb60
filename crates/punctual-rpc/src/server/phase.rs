//! Where a server is between its start and its end, for whoever follows it.

use crate::server::stop::{Phase, Stopped};
use tokio::sync::watch;

/// Where a server is. It goes down this list, and may leave out what it does not come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerPhase {
    /// Its addresses are bound: peers may connect, and wait.
    Starting,
    /// It accepts connections and calls.
    Ready,
    /// It takes nothing new, and ends what it has. A server whose future was dropped stays here until its handle shuts it
    /// down.
    Draining,
    /// It has ended, so.
    Stopped(Stopped),
}

impl From<Phase> for ServerPhase {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::Bound => ServerPhase::Starting,
            Phase::Serving => ServerPhase::Ready,
            Phase::Stopping(_) | Phase::Left => ServerPhase::Draining,
            Phase::Stopped(stopped) => ServerPhase::Stopped(stopped),
        }
    }
}

/// Follows a server through its phases. It does not keep the server alive.
#[derive(Debug)]
pub struct PhaseWatch {
    phases: watch::Receiver<Phase>,
    last: Option<ServerPhase>,
}

impl PhaseWatch {
    pub(crate) fn new(phases: watch::Receiver<Phase>) -> Self {
        PhaseWatch { phases, last: None }
    }

    /// The phase that it is in, the first time; then each that it comes to. One that it leaves before anybody asks is not
    /// seen. `None` once it has stopped, or nobody is left who could stop it.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Option<ServerPhase> {
        loop {
            let phase = ServerPhase::from(*self.phases.borrow_and_update());
            if self.last.replace(phase) != Some(phase) {
                return Some(phase);
            }
            if matches!(phase, ServerPhase::Stopped(_)) {
                return None;
            }
            self.phases.changed().await.ok()?;
        }
    }
}
