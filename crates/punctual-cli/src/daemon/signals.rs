//! The signals that stop a daemon.

use crate::exit::Failure;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT, kept from when they are listened for.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Listens from now on; neither signal ends the process by itself any more.
    ///
    /// # Errors
    /// Where the system does not let it.
    pub(super) fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind)
                .map_err(|error| Failure::failed(format!("cannot listen for the signals that stop a daemon: {error}")))
        };
        Ok(Signals { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
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
        }
    }
}
