//! Health that is followed: asked for again and again, and told where it changes.

use crate::client::channel::Channel;
use punctual_proto::describe::HealthStatus;
use punctual_proto::status::{Code, Status};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The wait between two questions, unless another is set; and the shortest, since each is an exchange with the server.
const EVERY: Duration = Duration::from_secs(1);
const EVERY_MIN: Duration = Duration::from_millis(10);

/// How long an answer may take before the server counts as unreachable, unless another time is set.
const WITHIN: Duration = Duration::from_secs(5);

/// Follows the health of a service, or of a server as a whole. Nothing is asked while nobody waits for
/// [`HealthWatch::next`].
#[derive(Debug)]
#[must_use = "health is followed only by asking for the next change"]
pub struct HealthWatch {
    channel: Channel,
    service: String,
    every: Duration,
    within: Duration,
    last: Option<Option<HealthStatus>>,
}

impl Channel {
    /// Follows the health of a service, or of the server as a whole for an empty name. The server is asked once a second,
    /// see [`HealthWatch::every`].
    pub fn watch_health(&self, service: impl Into<String>) -> HealthWatch {
        let (channel, service) = (self.clone(), service.into());
        HealthWatch { channel, service, every: EVERY, within: WITHIN, last: None }
    }
}

impl HealthWatch {
    /// Waits so long between two questions. 1 s; less than 10 ms is taken as that.
    pub fn every(mut self, every: Duration) -> Self {
        self.every = every.max(EVERY_MIN);
        self
    }

    /// Waits so long for an answer, and for a connection, before the server counts as unreachable. 5 s; the channel's default
    /// timeout may be less.
    pub fn within(mut self, within: Duration) -> Self {
        self.within = within;
        self
    }

    /// The health, the first time; then each change of it that a question finds. `None` once the channel was closed.
    ///
    /// # Errors
    /// An item is an error where the server does not answer any more: its status, once, until the server answers again. The
    /// watch goes on.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Option<Result<HealthStatus, Status>> {
        loop {
            if self.last.is_some() {
                sleep(self.every).await;
            }
            let seen = match timeout(self.within, self.channel.health(&self.service)).await {
                Ok(seen) => seen,
                Err(_) => {
                    Err(Status::deadline_exceeded(format!("no answer about the health within {:?}", self.within)))
                }
            };
            if seen.as_ref().is_err_and(|status| status.code() == Code::Cancelled) {
                return None;
            }
            let shown = seen.as_ref().ok().copied();
            if self.last.replace(shown) != Some(shown) {
                return Some(seen);
            }
        }
    }
}
