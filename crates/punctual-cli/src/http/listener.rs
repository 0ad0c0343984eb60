//! The socket: who is accepted, how long a head may take, and how it all ends.

use super::answer::Refusal;
use super::app::{App, router, sealed, stopped};
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tower_service::Service;

/// The most open connections; others wait in the system's line. A thousand streams of events and as many pages fit.
const CONNECTIONS_MAX: usize = 2_048;
/// How long the head of a request may take, and how long a connection may lie idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// The most bytes of a head, and the buffer of a connection.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// How long requests may go on after the daemon has stopped everything else.
const STOP_GRACE: Duration = Duration::from_secs(2);
/// How long accepting rests when the system refuses it, which it does where descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A socket that is listened on.
#[derive(Debug)]
pub(super) struct Listening(JoinHandle<()>);

impl Listening {
    pub(super) fn start(listener: TcpListener, app: &Arc<App>) -> Self {
        Listening(tokio::spawn(accept(listener, Arc::clone(app), router(app), app.stopping())))
    }

    /// Waits until it has ended, once it was told to: it accepts nobody any more, lets what is under way end within a grace, and
    /// closes the rest.
    pub(super) async fn ended(self) {
        // Or it has panicked, and then there is nothing to wait for.
        let _ = self.0.await;
    }
}

async fn accept(listener: TcpListener, app: Arc<App>, router: Router, mut stopping: watch::Receiver<bool>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let next = async {
            let permit = Arc::clone(&room).acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            biased;
            () = stopped(&mut stopping) => break,
            accepted = next => accepted,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((socket, _)) => {
                let serving = serve(socket, Arc::clone(&app), router.clone(), stopping.clone());
                connections.spawn(async move {
                    let _permit = permit;
                    serving.await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "an HTTP connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(STOP_GRACE, ended).await.is_err() {
        connections.shutdown().await;
    }
}

async fn serve(socket: TcpStream, app: Arc<App>, router: Router, mut stopping: watch::Receiver<bool>) {
    // Small answers are not held back for others to share their packet.
    let _ = socket.set_nodelay(true);
    let service = service_fn(move |request| respond(Arc::clone(&app), router.clone(), request));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(socket), service);
    let mut connection = pin!(connection);
    // What goes wrong with a connection is its client's affair, and every scanner's.
    tokio::select! {
        biased;
        () = stopped(&mut stopping) => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
        _ = connection.as_mut() => {}
    }
}

async fn respond(app: Arc<App>, mut router: Router, request: Request<Incoming>) -> Result<Response, Infallible> {
    let (parts, body) = request.into_parts();
    if let Err(refusal) = app.guard.host(&parts) {
        return Ok(sealed(Refusal::answer(refusal)));
    }
    // A router is always ready.
    router.call(Request::from_parts(parts, Body::new(body))).await
}
