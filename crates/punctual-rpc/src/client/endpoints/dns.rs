//! The resolver that asks the system for the addresses of a name.

use crate::address::Address;
use crate::client::endpoints::{Resolver, Snapshots};
use crate::client::target::Target;
use crate::client::timer::sleep_until;
use crate::transport::BoxFuture;
use punctual_proto::status::Status;
use std::io;
use std::time::Duration;
use tokio::net::lookup_host;
use tokio::time::timeout;

/// The shortest time between two lookups, however many connections are lost.
const LOOKUP_EVERY: Duration = Duration::from_secs(1);

/// A host with a port, each address of which is an endpoint.
#[derive(Debug)]
pub(crate) struct Dns {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) is_tls: bool,
}

impl Dns {
    fn address(&self) -> Address {
        let (host, port) = (self.host.clone(), self.port);
        if self.is_tls { Address::Tls { host, port } } else { Address::Tcp { host, port } }
    }

    async fn look_up(&self, within: Duration) -> io::Result<Vec<Target>> {
        let found = timeout(within, lookup_host((self.host.as_str(), self.port)))
            .await
            .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {within:?}"))))?;
        // Answers come in any order; the same addresses are the same set.
        let mut sockets: Vec<_> = found.collect();
        sockets.sort_unstable();
        Ok(sockets.into_iter().map(|socket| Target::Resolved(self.address(), socket)).collect())
    }
}

impl Resolver for Dns {
    fn run(&self, mut snapshots: Snapshots) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            loop {
                let Some(settings) = snapshots.settings() else { return };
                match self.look_up(settings.connect_timeout).await {
                    // A set that is refused is reported where it is.
                    Ok(targets) => drop(snapshots.publish_targets(targets)),
                    Err(error) => {
                        let text = format!("the addresses of {} cannot be found: {error}", self.host);
                        snapshots.fail(Status::unavailable(text));
                    }
                }
                let clock = &*settings.clock;
                let began = clock.now();
                sleep_until(clock, began.after(LOOKUP_EVERY.min(settings.resolve_interval))).await;
                let alive = snapshots.alive();
                let lost = async {
                    while snapshots.alive() >= alive {
                        snapshots.changed().await;
                    }
                };
                tokio::select! {
                    biased;
                    () = lost => {}
                    () = sleep_until(clock, began.after(settings.resolve_interval)) => {}
                }
            }
        })
    }

    fn name(&self) -> String {
        format!("dns+{}", self.address())
    }
}
