//! From an accepted link to a connection. Accepting never waits for a peer: each link has a task of its own.

use crate::auth::Presented;
use crate::driver::Driver;
use crate::driver::opening::{Logged, OpeningError, open_server};
use crate::server::connection::Connection;
use crate::server::lifetime::Instances;
use crate::server::listener::{Accepted, Listener};
use crate::server::retirement::Retirement;
use crate::server::shared::Shared;
use crate::server::stop::{STOPPING, begin_drain, end_drain};
use crate::transport::Link;
#[cfg(all(feature = "shm", target_os = "linux"))]
use crate::transport::shm;
use punctual_context::Peer;
use punctual_proto::frame::GoAwayReason;
use punctual_proto::handshake::Hello;
use punctual_proto::status::Status;
use std::io;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The waits after an accept that failed, as it does while the process has no file descriptor left.
const ACCEPT_WAIT_FIRST: Duration = Duration::from_millis(10);
const ACCEPT_WAIT_MAX: Duration = Duration::from_secs(1);

/// Accepts until it is dropped.
pub(crate) async fn accept_all(mut listener: Listener, shared: Arc<Shared>) {
    let mut wait = ACCEPT_WAIT_FIRST;
    loop {
        match listener.accept().await {
            Ok(accepted) => {
                wait = ACCEPT_WAIT_FIRST;
                let shared = Arc::clone(&shared);
                match accepted {
                    Accepted::Tcp(link, peer) => tokio::spawn(serve(plain(link), peer, shared)),
                    #[cfg(feature = "_tls")]
                    Accepted::Tls(link, peer, tls) => {
                        tokio::spawn(async move { serve(tls.accept(link), peer, shared).await })
                    }
                    Accepted::Unix(link, peer) => tokio::spawn(serve(plain(link), peer, shared)),
                    #[cfg(all(feature = "shm", target_os = "linux"))]
                    Accepted::Shm(link, peer, ring) => tokio::spawn(serve(shm::accept(link, ring), peer, shared)),
                    Accepted::Inproc(link, peer) => tokio::spawn(serve(plain(link), peer, shared)),
                    Accepted::Custom(link, peer) => tokio::spawn(serve(plain(link), peer, shared)),
                };
            }
            Err(error) => {
                tracing::warn!(address = %listener.address(), %error, "cannot accept; trying again in {wait:?}");
                sleep(wait).await;
                wait = (wait * 2).min(ACCEPT_WAIT_MAX);
            }
        }
    }
}

/// A place for a connection, given back unless the connection took it.
struct Reserved<'a>(Option<&'a Shared>);

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if let Some(shared) = self.0 {
            shared.unreserve();
        }
    }
}

/// A link that proves nothing about its peer.
async fn plain<L>(link: L) -> io::Result<(L, Vec<Vec<u8>>)> {
    Ok((link, Vec::new()))
}

/// Serves a link from its handshakes to its end. `secured` gives it with the certificates that the peer proved itself with.
async fn serve<L: Link>(
    secured: impl Future<Output = io::Result<(L, Vec<Vec<u8>>)>>,
    peer: String,
    shared: Arc<Shared>,
) {
    let mut reserved = Reserved(None);
    let opened = {
        let mut handshake = shared.handshakes.begin();
        let (reserved, peer) = (&mut reserved, &*peer);
        let opening = async {
            let (mut link, certificates) = secured.await?;
            let (mut identity, mut instances) = (None, Instances::default());
            let admit = async |hello: &Hello| {
                refuse(&shared, reserved)?;
                if let Some(authenticator) = &shared.config.authenticator {
                    let presented = Presented::new(&hello.authentication, &certificates, peer);
                    let proved = authenticator.authenticate(presented).await?;
                    if proved.expires.is_some_and(|expires| shared.config.clock.timestamp() >= expires) {
                        return Err(Status::unauthenticated(
                            "what the credentials prove has expired; bring fresh ones",
                        ));
                    }
                    identity = Some(proved);
                }
                if !shared.factories.is_empty() {
                    let peer = Peer::new(peer).with_identity(identity.clone());
                    instances = Instances::make(&shared, &peer)?;
                }
                Ok(())
            };
            let opened = open_server(&mut link, &shared.welcome, admit).await?;
            Ok((link, opened, identity, instances))
        };
        let within = shared.config.limits.handshake_timeout;
        let late = || OpeningError::Io(io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long"));
        tokio::select! {
            biased;
            opened = timeout(within, opening) => opened.unwrap_or_else(|_| Err(late())),
            () = handshake.evicted() => Err(late()),
        }
    };
    let (link, opened, identity, instances) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            shared.failed_handshakes.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(peer, error = %Logged(&error), "a handshake failed");
            return;
        }
    };
    let peer = Peer::new(peer).with_identity(identity);
    let connection = Arc::new(Connection::new(&opened.agreement, peer, instances, Arc::clone(&shared)));
    let (id, sealed) = shared.register(&connection);
    reserved.0 = None;
    if shared.is_draining() {
        // It came in while the server began to stop.
        begin_drain(&connection, GoAwayReason::Shutdown, STOPPING);
    }
    if sealed {
        end_drain(&connection, GoAwayReason::Shutdown, STOPPING);
    }
    let retirement = Retirement::of(&connection);
    let driver = pin!(Driver::new(link, Arc::clone(&connection), &opened.agreement, opened.rest));
    let connection = Arc::downgrade(&{ connection });
    let _registered = Registered(&shared, id, connection.clone());
    match retirement {
        Some(retirement) => retirement.accompany(driver, &connection).await,
        None => driver.await,
    }
}

/// Takes the connection off the list also where its task is dropped, once its services are gone.
struct Registered<'a>(&'a Shared, u64, Weak<Connection>);

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.2.upgrade() {
            connection.instances().end();
        }
        self.0.unregister(self.1);
    }
}

/// Turns a peer away for whom there is no room, whoever it is; else takes its place.
fn refuse<'a>(shared: &'a Shared, reserved: &mut Reserved<'a>) -> Result<(), Status> {
    if shared.is_draining() {
        return Err(Status::unavailable("the server is stopping"));
    }
    if shared.reserve() {
        reserved.0 = Some(shared);
        return Ok(());
    }
    let max = shared.config.server_limits.connections_max;
    let text = format!("the server has {max} connections, which is its connections_max; try again later");
    Err(Status::resource_exhausted(text).with_limit("connections_max", u64::from(max)))
}
