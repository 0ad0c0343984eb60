//! Interceptors of a server, over every transport.

use crate::support::probe::{Declined, Probe};
use crate::support::site::Kind;
use crate::support::streams::FlowsClient;
use crate::support::wire::poll_once;
use crate::support::{Site, over_every_transport};
use punctual_rpc::server::{Handled, ServerCall, ServerInterceptor, ServerNext};
use punctual_rpc::transport::BoxFuture;
use punctual_rpc::{CallError, Code, Server, ServerConfig, Status, Streaming};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Writes down what it sees, and does what the metadata say.
#[derive(Debug, Clone)]
struct Seer {
    name: &'static str,
    seen: Arc<Mutex<Vec<String>>>,
    dropped: Arc<AtomicU64>,
}

struct Guard(Arc<AtomicU64>, bool);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_add(u64::from(!self.1), Ordering::SeqCst);
    }
}

impl ServerInterceptor for Seer {
    fn intercept(&self, call: ServerCall, next: ServerNext) -> BoxFuture<'_, Result<Handled, Status>> {
        Box::pin(async move {
            let mut guard = Guard(Arc::clone(&self.dropped), false);
            let (method, asked) = (call.method().name, call.metadata().get_str(self.name).map(str::to_owned));
            let timed = call.deadline().is_some();
            self.seen.lock().unwrap().push(format!("{} {method} {timed}", self.name));
            let _ = call.respond_with("by", self.name);
            let result = match asked.as_deref() {
                Some("refuse") => Err(Status::permission_denied(self.name)),
                Some("panic") => panic!("a secret that no peer may see"),
                Some("replace") => next.run(call).await.and(Err(Status::aborted("replaced"))),
                _ => next.run(call).await,
            };
            let ended = match &result {
                Ok(handled) if handled.is_application_error() => "declined".to_owned(),
                Ok(_) => "done".to_owned(),
                Err(status) => status.code().to_string(),
            };
            self.seen.lock().unwrap().push(format!("{} {method} {ended}", self.name));
            guard.1 = true;
            result
        })
    }
}

fn seer(name: &'static str) -> Seer {
    Seer { name, seen: Arc::default(), dropped: Arc::default() }
}

/// A server with two of them, that write into one list.
fn config() -> (ServerConfig, Seer) {
    let first = seer("first");
    let second = Seer { name: "second", ..first.clone() };
    let mut config = ServerConfig::default();
    config.interceptors = vec![Arc::new(first.clone()), Arc::new(second)];
    (config, first)
}

fn take(seer: &Seer) -> Vec<String> {
    std::mem::take(&mut *seer.seen.lock().unwrap())
}

over_every_transport! {
    /// They run in order around the handler, see what it ends with, refuse it, replace it, and add to its response.
    they_run_in_order_around_the_handler;
    /// Streams and one-way calls pass them, too.
    every_shape_passes_them;
}

async fn they_run_in_order_around_the_handler(kind: Kind) {
    let (config, seer) = config();
    let site = Site::start_with(kind, config).await;
    let client = site.client().await;
    let response = client.add(2, 3).with_response().await;
    let by: Vec<_> = response.metadata().iter().map(|(_, value)| value.to_vec()).collect();
    assert_eq!((by, response.into_result()), (vec![b"first".to_vec(), b"second".to_vec()], Ok(5)));
    assert_eq!(take(&seer), ["first add true", "second add true", "second add done", "first add done"]);
    assert_eq!(client.add(i32::MAX, 1).await, Err(CallError::App(Declined::Overflow)));
    assert_eq!(take(&seer)[2..], ["second add declined", "first add declined"]);
    let failed = client.text("fail:no").await.unwrap_err();
    assert_eq!(failed.status().unwrap().message(), "no");
    assert_eq!(take(&seer)[2..], ["second text failed_precondition", "first text failed_precondition"]);
    let refused = client.text("x").metadata("second", "refuse").await.unwrap_err();
    assert_eq!(refused.status().unwrap().code(), Code::PermissionDenied);
    assert_eq!(take(&seer)[3..], ["first text permission_denied"]);
    let replaced = client.text("x").metadata("first", "replace").await.unwrap_err();
    assert_eq!(replaced.status().unwrap().message(), "replaced");
    let panicked = client.text("x").metadata("second", "panic").await.unwrap_err();
    assert_eq!(panicked.status().unwrap().code(), Code::Internal);
    assert!(!panicked.status().unwrap().message().contains("secret"));
    assert_eq!(client.text("x").await.unwrap(), "X", "the connection lives");
    let big = "y".repeat(200_000);
    assert_eq!(client.text(&big).await.unwrap().len(), big.len());
}

async fn every_shape_passes_them(kind: Kind) {
    let (config, seer) = config();
    let (site, _) = Site::streaming(kind, config).await;
    let client = site.client().await;
    let flows = FlowsClient { channel: client.channel.clone() };
    assert_eq!(flows.sum(Streaming::from_items([1, 2])).await, Ok(3));
    assert_eq!(take(&seer)[3], "first sum done");
    let numbers = flows.count(3).metadata("first", "replace").await.unwrap();
    assert_eq!(numbers.metadata().get_str("by"), Some("first"));
    assert_eq!(numbers.collect().await, Ok(vec![0, 1, 2]), "what was sent stands");
    let refused = flows.count(3).metadata("first", "refuse").await.unwrap_err();
    assert_eq!(refused.status().unwrap().code(), Code::PermissionDenied);
    client.note("refused").metadata("first", "refuse").await.unwrap();
    client.note("heard").await.unwrap();
    site.ledger.until(|ledger| ledger.notes() == ["heard"]).await;
}

/// Where the call is over they are dropped with the handler; each that began ends one way or the other.
#[tokio::test]
async fn a_cancel_drops_them_with_the_handler() {
    let (config, seer) = config();
    let site = Site::start_with(Kind::Unix, config).await;
    let client = site.client().await;
    let mut call = client.wait(1);
    assert!(poll_once(&mut call).await.is_pending());
    site.ledger.until(|ledger| *ledger.waiting.borrow() == 1).await;
    drop(call);
    site.ledger.until(|ledger| *ledger.dropped.borrow() == 1).await;
    while site.server.stats().running > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(seer.dropped.load(Ordering::SeqCst), 2);
}

/// More than a server has are refused before anybody is served.
#[tokio::test]
async fn too_many_are_refused() {
    let mut builder = Server::builder().service(Probe::default()).listen("inproc:too-many");
    for _ in 0..33 {
        builder = builder.interceptor(seer("one"));
    }
    assert!(builder.bind().await.unwrap_err().to_string().contains("33 interceptors"));
}

#[cfg(feature = "tower")]
mod tower {
    use super::*;
    use crate::support::clock::{channel_under, tokio_clock};
    use punctual_rpc::ChannelConfig;
    use punctual_rpc::server::TowerLayer;
    use std::error::Error;
    use std::task::{Context, Poll};
    use std::time::Duration;
    use tokio::sync::{Semaphore, watch};
    use tower_layer::Layer;
    use tower_service::Service;

    type Foreign = Box<dyn Error + Send + Sync>;

    /// Lets a number of calls run at once, of whatever service it is around, and counts those that came.
    #[derive(Clone)]
    struct AtMost(Arc<Semaphore>, watch::Sender<u64>);

    struct Limited<S>(S, AtMost);

    impl<S> Layer<S> for AtMost {
        type Service = Limited<S>;

        fn layer(&self, inner: S) -> Limited<S> {
            Limited(inner, self.clone())
        }
    }

    impl<S, R> Service<R> for Limited<S>
    where
        S: Service<R, Response: 'static, Error: 'static, Future: Send + 'static>,
    {
        type Response = S::Response;
        type Error = S::Error;
        type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

        fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
            self.0.poll_ready(cx)
        }

        fn call(&mut self, request: R) -> Self::Future {
            let (running, limit) = (self.0.call(request), self.1.clone());
            Box::pin(async move {
                limit.1.send_modify(|came| *came += 1);
                let _permit = limit.0.acquire_owned().await.unwrap();
                running.await
            })
        }
    }

    /// Ends what takes longer than a second, with an error of its own, or with a status where it is to be polite.
    #[derive(Clone, Copy)]
    struct Within {
        polite: bool,
    }

    struct Timed<S>(S, Within);

    impl<S> Layer<S> for Within {
        type Service = Timed<S>;

        fn layer(&self, inner: S) -> Timed<S> {
            Timed(inner, *self)
        }
    }

    impl<S> Service<ServerCall> for Timed<S>
    where
        S: Service<ServerCall, Error = Status, Future: Send + 'static>,
    {
        type Response = S::Response;
        type Error = Foreign;
        type Future = BoxFuture<'static, Result<S::Response, Foreign>>;

        fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Foreign>> {
            self.0.poll_ready(cx).map_err(Into::into)
        }

        fn call(&mut self, call: ServerCall) -> Self::Future {
            let (running, polite) = (self.0.call(call), self.1.polite);
            Box::pin(async move {
                match tokio::time::timeout(Duration::from_secs(1), running).await {
                    Ok(result) => Ok(result?),
                    Err(_) if polite => Err(Status::aborted("longer than a second").into()),
                    Err(_) => Err("a secret that no peer may see".into()),
                }
            })
        }
    }

    /// A layer's state holds over all calls: with room for one, the second handler begins when the first has ended. The
    /// same layer does the same around the calls of a client.
    #[tokio::test]
    async fn a_layer_limits_calls_on_either_side() {
        for on_server in [true, false] {
            let limit = AtMost(Arc::new(Semaphore::new(1)), watch::Sender::new(0));
            let (mut server, mut channel) = (ServerConfig::default(), ChannelConfig::default());
            if on_server {
                server.interceptors.push(Arc::new(TowerLayer::new(limit.clone())));
            } else {
                channel.interceptors.push(Arc::new(TowerLayer::new(limit.clone())));
            }
            let site = Site::start_with(Kind::Tcp, server).await;
            let client = site.client_with(channel).await;
            let calls = [client.wait(1), client.wait(2)].map(|call| tokio::spawn(call.into_future()));
            let mut came = limit.1.subscribe();
            came.wait_for(|came| *came == 2).await.unwrap();
            site.ledger.until(|ledger| *ledger.waiting.borrow() == 1).await;
            // Whoever got in holds the only permit until its handler ends, so no second handler is on its way.
            assert_eq!(limit.0.available_permits(), 0);
            assert_eq!(*site.ledger.waiting.borrow(), 1, "on the server: {on_server}");
            site.ledger.gate.send_replace(true);
            for (at, call) in (1..).zip(calls) {
                assert_eq!(call.await.unwrap(), Ok(at));
            }
            assert_eq!(*site.ledger.waiting.borrow(), 2);
        }
    }

    /// What a handler answers passes through a layer as it is; an error of the layer's own reaches the caller as its
    /// status where it is one, and without its text where it is not. The handler that it left is dropped.
    #[tokio::test(start_paused = true)]
    async fn a_layer_ends_what_takes_too_long() {
        for polite in [true, false] {
            let mut config = ServerConfig::default();
            config.interceptors.push(Arc::new(TowerLayer::new(Within { polite })));
            let site = Site::start_with(Kind::Inproc, config).await;
            let client = site.client_with(channel_under(tokio_clock())).await;
            assert_eq!(client.add(1, 2).await, Ok(3));
            assert_eq!(client.add(i32::MAX, 1).await, Err(CallError::App(Declined::Overflow)));
            let failed = client.text("fail:no").await.unwrap_err();
            assert_eq!(failed.status().unwrap().code(), Code::FailedPrecondition);
            let error = client.wait(1).await.unwrap_err();
            let status = error.status().unwrap();
            let expected = if polite { Status::aborted("longer than a second") } else { Status::unmapped() };
            assert_eq!((status.code(), status.message()), (expected.code(), expected.message()));
            assert_eq!(*site.ledger.dropped.borrow(), 1);
        }
    }
}
