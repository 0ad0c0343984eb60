//! The resolver that asks the system for the addresses of a name.

use crate::address::Address;
use crate::client::endpoints::{Resolver, Snapshots};
use crate::client::target::Target;
use crate::client::timer::sleep_until;
use crate::transport::BoxFuture;
use punctual_proto::status::Status;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::lookup_host;
use tokio::time::timeout;

/// The shortest time between two lookups, however many connections are lost.
const LOOKUP_EVERY: Duration = Duration::from_secs(1);

/// Finds the addresses of a host. Only tests have another one than the system's.
type Lookup = dyn Fn(String, u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync;

/// A host with a port, each address of which is an endpoint.
pub(crate) struct Dns {
    host: String,
    port: u16,
    is_tls: bool,
    lookup: Box<Lookup>,
}

impl Dns {
    pub(crate) fn system(host: String, port: u16, is_tls: bool) -> Self {
        let lookup = |host: String, port| -> BoxFuture<'static, _> {
            Box::pin(async move { Ok(lookup_host((host.as_str(), port)).await?.collect()) })
        };
        Dns { host, port, is_tls, lookup: Box::new(lookup) }
    }

    fn address(&self) -> Address {
        let (host, port) = (self.host.clone(), self.port);
        if self.is_tls { Address::Tls { host, port } } else { Address::Tcp { host, port } }
    }

    async fn look_up(&self, within: Duration) -> io::Result<Vec<Target>> {
        let found = timeout(within, (self.lookup)(self.host.clone(), self.port)).await;
        let mut sockets = found
            .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {within:?}"))))?;
        // Answers come in any order; the same addresses are the same set.
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
                let (soon, late) = (LOOKUP_EVERY.min(settings.resolve_interval), settings.resolve_interval);
                let lost = async {
                    let mut before = snapshots.alive();
                    loop {
                        snapshots.changed().await;
                        let alive = snapshots.alive();
                        if alive < before {
                            return;
                        }
                        before = alive;
                    }
                };
                tokio::select! {
                    biased;
                    () = lost => sleep_until(clock, began.after(soon)).await,
                    () = sleep_until(clock, began.after(late)) => {}
                }
            }
        })
    }

    fn name(&self) -> String {
        format!("dns+{}", self.address())
    }
}

impl fmt::Debug for Dns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Dns").field(&self.name()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::endpoints::Endpoints;
    use crate::{Channel, ChannelConfig, Server, ServerHandle};
    use std::sync::{Arc, Mutex};

    type Answer = Result<Vec<SocketAddr>, &'static str>;

    /// A name whose addresses the test says, and how often it was looked up.
    fn named(answer: &Arc<Mutex<(Answer, u32)>>) -> Endpoints {
        let answer = Arc::clone(answer);
        let lookup = move |_, _| -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
            let mut answer = answer.lock().unwrap();
            answer.1 += 1;
            let found = answer.0.clone().map_err(io::Error::other);
            Box::pin(std::future::ready(found))
        };
        Endpoints::resolver(Dns { host: "shop".to_owned(), port: 1, is_tls: false, lookup: Box::new(lookup) })
    }

    async fn server() -> (ServerHandle, SocketAddr) {
        let server = Server::builder().listen("tcp://127.0.0.1:0").bind().await.unwrap();
        let address = server.local_addrs()[0].strip_prefix("tcp://").unwrap().parse().unwrap();
        (server.spawn(), address)
    }

    async fn until(mut done: impl FnMut() -> bool) {
        while !done() {
            tokio::task::yield_now().await;
        }
    }

    /// While links are healthy a name is looked up again and again: new addresses are added, old ones go, and a lookup that
    /// fails or finds nothing keeps the last ones.
    #[tokio::test]
    async fn names_are_looked_up_again() {
        let ((_a, one), (_b, two)) = (server().await, server().await);
        let answer = Arc::new(Mutex::new((Ok(vec![one]), 0)));
        let config = ChannelConfig { resolve_interval: Duration::from_millis(100), ..ChannelConfig::default() };
        let channel = Channel::over(named(&answer)).config(config).connect().await.unwrap();
        assert_eq!(channel.endpoints(), [format!("tcp://shop:1 at {one}")]);
        answer.lock().unwrap().0 = Ok(vec![two, one, two]);
        until(|| channel.endpoints().len() == 2 && channel.stats().open_connections == 2).await;
        for (bad, at) in [(Err("no such name"), 1), (Ok(vec![]), 2)] {
            answer.lock().unwrap().0 = bad;
            let before = answer.lock().unwrap().1;
            until(|| answer.lock().unwrap().1 >= before + 2).await;
            assert_eq!(channel.endpoints().len(), 2);
            assert!(channel.stats().bad_snapshots >= at);
        }
        answer.lock().unwrap().0 = Ok(vec![two]);
        until(|| channel.endpoints() == [format!("tcp://shop:1 at {two}")]).await;
        until(|| channel.stats().open_connections == 1).await;
        assert_eq!(channel.stats().connections, 2, "the one that stayed kept its connection");
    }

    /// A connection that was lost is a reason to look again sooner.
    #[tokio::test]
    async fn a_lost_connection_is_a_reason_to_look() {
        let ((gone, one), (_b, two)) = (server().await, server().await);
        let answer = Arc::new(Mutex::new((Ok(vec![one, two]), 0)));
        let config = ChannelConfig { resolve_interval: Duration::from_secs(86_400), ..ChannelConfig::default() };
        let channel = Channel::over(named(&answer)).config(config).connect().await.unwrap();
        until(|| channel.stats().open_connections == 2).await;
        answer.lock().unwrap().0 = Ok(vec![two]);
        gone.shutdown(Duration::from_secs(1)).await;
        until(|| channel.endpoints() == [format!("tcp://shop:1 at {two}")]).await;
        assert_eq!(answer.lock().unwrap().1, 2);
    }
}
