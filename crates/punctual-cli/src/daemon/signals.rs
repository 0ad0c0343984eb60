//! The signals that a daemon heeds.

use crate::exit::Failure;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The name of the signal that asks to read files again.
pub(super) const HANGUP: &str = "SIGHUP";

/// SIGTERM, SIGINT and SIGHUP, kept from when they are listened for.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Listens from now on; none of them ends the process by itself any more.
    ///
    /// # Errors
    /// Where the system does not let it.
    pub(super) fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind)
                .map_err(|error| Failure::failed(format!("cannot listen for the signals that stop a daemon: {error}")))
        };
        Ok(Signals {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// The next one's name.
    ///
    /// # Cancel safety
    /// Dropping the future loses no signal.
    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.hangup.recv() => HANGUP,
        }
    }

    /// The next one that says to stop.
    ///
    /// # Cancel safety
    /// Dropping the future loses none of those.
    pub(super) async fn next_stop(&mut self) -> &'static str {
        loop {
            match self.next().await {
                HANGUP => {}
                signal => return signal,
            }
        }
    }
}
