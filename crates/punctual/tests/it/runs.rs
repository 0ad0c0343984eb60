//! Where handlers run: `#[rpc(inline)]` and `#[rpc(blocking)]`, over real sockets.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use punctual::rpc::server::{Handled, ServerCall, ServerInterceptor, ServerNext};
use punctual::rpc::transport::BoxFuture;
use punctual::{
    CallError, CancelReason, Code, Context, Server, ServerConfig, ServerHandle, Status, Streaming, message, service,
};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::watch;

/// Where a handler was.
#[message]
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Room {
    pub(crate) task: String,
    pub(crate) thread: String,
}

fn here() -> Room {
    Room { task: format!("{:?}", tokio::task::try_id()), thread: format!("{:?}", thread::current().id()) }
}

#[service]
pub(crate) trait Rooms {
    /// In a task of its own.
    async fn task(&self) -> Result<Room, Status>;
    /// In its connection's turn.
    #[rpc(inline)]
    async fn inline(&self, text: String) -> Result<Room, Status>;
    /// There, until it waits: where it was before and after that.
    #[rpc(inline)]
    async fn waits(&self) -> Result<Vec<Room>, Status>;
    /// Nobody hears where it was.
    #[rpc(inline, oneway)]
    async fn note(&self);
    /// On a thread, which it blocks on demand.
    #[rpc(blocking)]
    async fn blocking(&self, blocks: bool) -> Result<Room, Status>;
    /// There, with streams.
    #[rpc(blocking)]
    async fn lines(&self, numbers: Streaming<u64>) -> Result<Streaming<String>, Status>;
}

#[derive(Default)]
struct House {
    begun: watch::Sender<u64>,
    gone: watch::Sender<u64>,
    noted: watch::Sender<Option<Room>>,
    open: watch::Sender<bool>,
    unblocked: Mutex<bool>,
    changed: Condvar,
    reasons: Mutex<Vec<Option<CancelReason>>>,
}

impl House {
    fn open(&self) {
        self.open.send_replace(true);
        *self.unblocked.lock().unwrap() = true;
        self.changed.notify_all();
    }
}

/// Counts a handler that is gone, however it went.
struct Gone<'a>(&'a House);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.0.gone.send_modify(|gone| *gone += 1);
    }
}

struct Host(Arc<House>);

impl Rooms for Host {
    async fn task(&self) -> Result<Room, Status> {
        Ok(here())
    }

    async fn inline(&self, text: String) -> Result<Room, Status> {
        match text.as_str() {
            "panic" => panic!("a secret that no peer may see"),
            "fail" => Err(Status::aborted("as asked")),
            _ => Ok(here()),
        }
    }

    async fn waits(&self) -> Result<Vec<Room>, Status> {
        let before = here();
        self.0.begun.send_modify(|begun| *begun += 1);
        let mut open = self.0.open.subscribe();
        open.wait_for(|open| *open).await.unwrap();
        Ok(vec![before, here()])
    }

    async fn note(&self) {
        self.0.noted.send_replace(Some(here()));
    }

    async fn blocking(&self, blocks: bool) -> Result<Room, Status> {
        let _gone = Gone(&self.0);
        self.0.begun.send_modify(|begun| *begun += 1);
        if blocks {
            let unblocked = self.0.unblocked.lock().unwrap();
            drop(self.0.changed.wait_while(unblocked, |unblocked| !*unblocked).unwrap());
        }
        let reason = Context::current().unwrap().cancel_reason();
        self.0.reasons.lock().unwrap().push(reason);
        if reason.is_some() {
            std::future::pending::<()>().await;
        }
        Ok(here())
    }

    async fn lines(&self, numbers: Streaming<u64>) -> Result<Streaming<String>, Status> {
        let numbers = numbers.collect().await?;
        let thread = here().thread;
        Ok(Streaming::from_items(numbers.into_iter().map(move |number| format!("{number} {thread}"))))
    }
}

/// Passes everything on. Behind it, arguments are decoded where the handler runs.
#[derive(Debug)]
struct Passes;

impl ServerInterceptor for Passes {
    fn intercept(&self, call: ServerCall, next: ServerNext) -> BoxFuture<'_, Result<Handled, Status>> {
        Box::pin(next.run(call))
    }
}

/// A server and a client of it. A test that ends early leaves no thread behind that is blocked.
struct Site {
    house: Arc<House>,
    client: RoomsClient,
    server: ServerHandle,
    _dir: TempDir,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.house.open();
    }
}

impl Site {
    async fn start(scheme: &str, config: ServerConfig) -> Site {
        let (house, dir) = (Arc::new(House::default()), tempfile::tempdir().unwrap());
        let address = match scheme {
            "unix" => format!("unix:{}", dir.path().join("socket").display()),
            _ => "tcp://127.0.0.1:0".to_owned(),
        };
        let service = RoomsServer::new(Host(Arc::clone(&house)));
        let server = Server::builder().config(config).service(service).listen(address).bind().await.unwrap();
        let address = server.local_addrs()[0].clone();
        let server = server.spawn();
        let client = RoomsClient::connect(&address).await.unwrap();
        Site { house, client, server, _dir: dir }
    }

    async fn until(&self, done: impl Fn(&Site) -> bool) {
        while !done(self) {
            tokio::task::yield_now().await;
        }
    }

    fn begun(&self) -> u64 {
        *self.house.begun.borrow()
    }
}

/// An inline handler is polled by its connection's task, for as long as it does not wait and its arguments are short; a
/// blocking one has a thread of its own; every other has a task. A panic or an error ends its own call alone. All of it
/// also inside of interceptors.
#[tokio::test]
async fn a_handler_runs_where_its_method_says() {
    for (scheme, intercepted) in [("tcp", false), ("tcp", true), ("unix", false)] {
        let mut config = ServerConfig::default();
        if intercepted {
            config.interceptors.push(Arc::new(Passes));
        }
        let site = Site::start(scheme, config).await;
        let client = &site.client;
        let (first, second) = (client.task().await.unwrap(), client.task().await.unwrap());
        assert_ne!(first.task, second.task);

        let inline = client.inline(String::new()).await.unwrap();
        assert_eq!(client.inline("again".to_owned()).await.unwrap(), inline, "the connection's own task");
        assert!(inline.task != first.task && inline.task != second.task && inline.thread == first.thread);
        assert_ne!(client.inline("x".repeat(2_000)).await.unwrap().task, inline.task, "decoded in a task");
        client.note().await.unwrap();
        let mut noted = site.house.noted.subscribe();
        assert_eq!(noted.wait_for(Option::is_some).await.unwrap().as_ref(), Some(&inline));
        for (text, code) in [("panic", Code::Internal), ("fail", Code::Aborted)] {
            let error = client.inline(text.to_owned()).await.unwrap_err();
            let (CallError::App(status) | CallError::Status(status)) = error;
            assert!(status.code() == code && !status.message().contains("secret"), "{status}");
        }

        let waits = tokio::spawn(client.waits());
        site.until(|site| site.begun() == 1).await;
        assert_eq!(client.inline(String::new()).await.unwrap(), inline, "nobody waits behind it");
        site.house.open();
        let rooms = waits.await.unwrap().unwrap();
        assert_eq!(rooms[0], inline);
        assert!(rooms[1].task != inline.task && rooms[1].task != "None", "{rooms:?}");

        let blocking = client.blocking(true).await.unwrap();
        assert_ne!(blocking.thread, first.thread);
        let lines = client.lines(Streaming::from_items([1, 2])).await.unwrap().collect().await.unwrap();
        assert!(lines.len() == 2 && !lines[0].contains(&first.thread), "{lines:?}");
        site.until(|site| site.server.stats().blocking == 0 && site.server.stats().running == 0).await;
    }
}

/// A blocked thread holds nobody else up. Where every thread is taken, calls wait for one in order, and one that is over
/// before that never runs.
#[tokio::test]
async fn blocking_calls_wait_for_a_thread() {
    let mut config = ServerConfig::default();
    config.server_limits.blocking_calls_max = 1;
    let site = Site::start("tcp", config).await;
    let first = tokio::spawn(site.client.blocking(true));
    site.until(|site| site.begun() == 1).await;
    assert_eq!(site.client.task().await.unwrap().thread, here().thread);
    let second = tokio::spawn(site.client.blocking(false));
    site.until(|site| site.server.stats().running == 2).await;
    let third = tokio::spawn(site.client.blocking(false));
    site.until(|site| site.server.stats().running == 3).await;
    assert_eq!((site.begun(), site.server.stats().blocking), (1, 1));
    third.abort();
    site.until(|site| site.server.stats().running == 2).await;
    assert_eq!(site.begun(), 1);
    site.house.open();
    first.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
    site.until(|site| site.server.stats().blocking == 0).await;
    assert_eq!((site.begun(), *site.house.gone.borrow()), (2, 2), "the third never ran");
}

/// Nothing stops a thread in the middle: its caller is gone at once, the handler learns why, keeps its place and its thread
/// as long as it blocks, and is dropped at its next wait.
#[tokio::test]
async fn a_blocked_handler_is_cancelled_at_its_next_wait() {
    for by_deadline in [true, false] {
        let site = Site::start("unix", ServerConfig::default()).await;
        let reason = if by_deadline {
            let error = site.client.blocking(true).timeout(Duration::from_secs(1)).await.unwrap_err();
            let (CallError::App(status) | CallError::Status(status)) = error;
            assert_eq!(status.code(), Code::DeadlineExceeded);
            site.until(|site| site.server.stats().expired + site.server.stats().cancelled == 1).await;
            CancelReason::Deadline
        } else {
            let call = tokio::spawn(site.client.blocking(true));
            site.until(|site| site.begun() == 1).await;
            call.abort();
            site.until(|site| site.server.stats().cancelled == 1).await;
            CancelReason::User
        };
        let stats = site.server.stats();
        assert_eq!((stats.running, stats.blocking, *site.house.gone.borrow()), (1, 1, 0));
        site.house.open();
        site.until(|site| *site.house.gone.borrow() == 1).await;
        assert_eq!(*site.house.reasons.lock().unwrap(), [Some(reason)]);
        site.until(|site| site.server.stats().running == 0 && site.server.stats().blocking == 0).await;
    }
}

/// A server without threads for its blocking methods would never answer them.
#[tokio::test]
async fn no_threads_are_refused() {
    let mut config = ServerConfig::default();
    config.server_limits.blocking_calls_max = 0;
    let refused = Server::builder().config(config).listen("inproc:no-threads").bind().await.unwrap_err();
    assert!(refused.to_string().contains("blocking_calls_max"), "{refused}");
}
