//! From an accepted link to a connection. Accepting never waits for a peer: each link has a task of its own.

use crate::driver::Driver;
use crate::driver::opening::{OpeningError, open_server};
use crate::server::connection::Connection;
use crate::server::listener::{Accepted, Listener};
use crate::server::shared::Shared;
use crate::server::stop::{begin_drain, end_drain};
use crate::transport::Link;
use punctual_proto::status::Status;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
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
                    Accepted::Tcp(link, peer) => tokio::spawn(serve(link, peer, shared)),
                    Accepted::Unix(link, peer) => tokio::spawn(serve(link, peer, shared)),
                    Accepted::Inproc(link, peer) => tokio::spawn(serve(link, peer, shared)),
                    Accepted::Custom(link, peer) => tokio::spawn(serve(link, peer, shared)),
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

async fn serve<L: Link>(mut link: L, peer: String, shared: Arc<Shared>) {
    let mut reserved = Reserved(None);
    let opened = {
        let mut handshake = shared.handshakes.begin();
        let opening = open_server(&mut link, &shared.welcome, |_| refuse(&shared, &mut reserved));
        let within = shared.config.limits.handshake_timeout;
        let late = || OpeningError::Io(io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long"));
        tokio::select! {
            biased;
            opened = timeout(within, opening) => opened.unwrap_or_else(|_| Err(late())),
            () = handshake.evicted() => Err(late()),
        }
    };
    let opened = match opened {
        Ok(opened) => opened,
        Err(error) => {
            shared.failed_handshakes.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(peer, %error, "a handshake failed");
            return;
        }
    };
    let connection = Arc::new(Connection::new(&opened.agreement, peer, Arc::clone(&shared)));
    let (id, sealed) = shared.register(&connection);
    reserved.0 = None;
    if shared.is_draining() {
        // It came in while the server began to stop.
        begin_drain(&connection);
    }
    if sealed {
        end_drain(&connection);
    }
    let driver = Driver::new(link, Arc::clone(&connection), &opened.agreement, opened.rest);
    drop(connection);
    let _registered = Registered(&shared, id);
    driver.await;
}

/// Takes the connection off the list also where its task is dropped.
struct Registered<'a>(&'a Shared, u64);

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.0.unregister(self.1);
    }
}

fn refuse<'a>(shared: &'a Shared, reserved: &mut Reserved<'a>) -> Option<Status> {
    if shared.is_draining() {
        return Some(Status::unavailable("the server is stopping"));
    }
    if shared.reserve() {
        reserved.0 = Some(shared);
        return None;
    }
    let max = shared.config.server_limits.connections_max;
    let text = format!("the server has {max} connections, which is its connections_max; try again later");
    Some(Status::resource_exhausted(text).with_limit("connections_max", u64::from(max)))
}
