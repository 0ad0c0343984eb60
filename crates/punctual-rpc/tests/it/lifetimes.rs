//! How long instances of services live: a connection, or a call. Each is counted when it is made and when it is dropped.

use crate::support::faulty::FaultyDial;
use crate::support::probe::{self, Add, Declined, Ledger, Probe, ProbeClient, Wait};
use crate::support::site::Kind;
use crate::support::streams::{self, Flows, FlowsClient};
use crate::support::wire::poll_once;
use crate::support::{Site, over_every_transport};
use punctual_proto::contract::ServiceDescriptor;
use punctual_rpc::{
    ChannelBuilder, Code, Contract, Inbound, ScopeLimits, Server, ServerConfig, Service, Status, Stopped,
};
use punctual_testkit::Faults;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;

over_every_transport! {
    /// Each connection has one instance, which all its calls share, and which goes when the connection does.
    one_instance_a_connection;
    /// Each call has an instance of its own, which is gone before the call is answered.
    one_instance_a_call;
    /// An instance lives as long as the stream that its handler returned, and is gone before the caller sees the end.
    an_instance_lives_as_long_as_the_returned_stream;
    /// A cancelled call takes its instance with it; that of its connection stays.
    a_cancelled_call_drops_its_instance;
    /// When a stop has returned no instance is left, also where calls outlived its grace.
    a_stop_leaves_no_instance;
    /// What a factory refuses, or panics at, is that call, or that peer, alone.
    a_factory_may_refuse;
}

/// How many instances there were, and how many of them are gone.
#[derive(Default)]
struct Count {
    made: AtomicU64,
    dropped: watch::Sender<u64>,
}

impl Count {
    fn made(&self) -> u64 {
        self.made.load(Ordering::SeqCst)
    }

    fn dropped(&self) -> u64 {
        *self.dropped.borrow()
    }

    async fn until_dropped(&self, count: u64) {
        self.dropped.subscribe().wait_for(|dropped| *dropped == count).await.unwrap();
    }
}

struct Number(u64, Arc<Count>);

impl Number {
    fn next(count: &Arc<Count>) -> Arc<Number> {
        Arc::new(Number(count.made.fetch_add(1, Ordering::SeqCst) + 1, Arc::clone(count)))
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        self.1.dropped.send_modify(|dropped| *dropped += 1);
    }
}

/// A service that answers `add` with the number of its instance. Its handlers hold it, as those of a macro's do.
struct Numbered {
    number: Arc<Number>,
    probe: Probe,
}

impl Numbered {
    fn new(count: &Arc<Count>, ledger: &Arc<Ledger>) -> Self {
        Numbered { number: Number::next(count), probe: Probe { ledger: Arc::clone(ledger) } }
    }
}

impl Contract for Numbered {
    fn contract() -> &'static ServiceDescriptor {
        &probe::DESCRIPTOR
    }
}

impl Service for Numbered {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        Self::contract()
    }

    fn dispatch(&self, method: usize, call: Inbound<'_>) {
        let (number, probe) = (Arc::clone(&self.number), self.probe.clone());
        match method {
            0 => call.unary(move |_: Add| async move { Ok::<_, Declined>(i32::try_from(number.0).unwrap()) }),
            2 => call.unary(move |args: Wait| async move {
                let ended = probe.wait(args).await;
                drop(number);
                ended
            }),
            _ => self.probe.dispatch(method, call),
        }
    }
}

/// A service whose handlers do not hold it.
struct Flowing {
    _number: Arc<Number>,
    flows: Flows,
}

impl Contract for Flowing {
    fn contract() -> &'static ServiceDescriptor {
        &streams::DESCRIPTOR
    }
}

impl Service for Flowing {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        Self::contract()
    }

    fn dispatch(&self, method: usize, call: Inbound<'_>) {
        self.flows.dispatch(method, call);
    }
}

struct Counted {
    site: Site,
    count: Arc<Count>,
    ledger: Arc<Ledger>,
}

/// How long an instance lives.
#[derive(Clone, Copy)]
enum Per {
    Connection,
    Call,
}

async fn counted(kind: Kind, config: ServerConfig, per: Per) -> Counted {
    let (count, ledger) = (Arc::<Count>::default(), Arc::<Ledger>::default());
    let (counting, writing) = (Arc::clone(&count), Arc::clone(&ledger));
    let site = Site::serving(kind, config, |server| match per {
        Per::Connection => server.service_per_connection(move |_| Ok(Numbered::new(&counting, &writing))),
        Per::Call => server.service_per_call(move |_| Ok(Numbered::new(&counting, &writing))),
    })
    .await;
    Counted { site, count, ledger }
}

async fn one_instance_a_connection(kind: Kind) {
    let Counted { site, count, .. } = counted(kind, ServerConfig::default(), Per::Connection).await;
    let (one, other) = (site.client().await, site.client().await);
    let first = one.add(0, 0).await.unwrap();
    assert_eq!(one.add(0, 0).await, Ok(first));
    assert_eq!(other.add(0, 0).await, Ok(3 - first), "the other connection has the other of the two");
    assert_eq!((count.made(), count.dropped()), (2, 0));
    one.channel.close().await;
    count.until_dropped(1).await;
    assert_eq!(other.add(0, 0).await, Ok(3 - first));
    assert_eq!(site.server.shutdown(Duration::from_secs(30)).await, Stopped::default());
    assert_eq!((count.made(), count.dropped()), (2, 2));
}

async fn one_instance_a_call(kind: Kind) {
    let Counted { site, count, .. } = counted(kind, ServerConfig::default(), Per::Call).await;
    let client = site.client().await;
    assert_eq!(count.made(), 0, "a connection makes none");
    for number in 1..=5 {
        assert_eq!(client.add(0, 0).await, Ok(number));
        assert_eq!((count.made(), count.dropped()), (number as u64, number as u64));
    }
    // A handler that does not hold its service, and one that has no method.
    assert_eq!(client.text("a").await, Ok("A".to_owned()));
    assert_eq!(client.note("a").await, Ok(()));
    assert!(client.echo(vec![1; 100_000]).await.is_ok());
    count.until_dropped(8).await;
}

async fn an_instance_lives_as_long_as_the_returned_stream(kind: Kind) {
    let count = Arc::<Count>::default();
    let counting = Arc::clone(&count);
    let site = Site::serving(kind, ServerConfig::default(), |server| {
        server.service_per_call(move |_| Ok(Flowing { _number: Number::next(&counting), flows: Flows::default() }))
    })
    .await;
    let client = FlowsClient { channel: site.client().await.channel };
    assert_eq!(client.count(5).await.unwrap().collect().await.unwrap(), [0, 1, 2, 3, 4]);
    assert_eq!((count.made(), count.dropped()), (1, 1));
    // More than both windows hold: the producer stands still.
    let mut blobs = client.blobs(1_000, 60_000).await.unwrap();
    for _ in 0..50 {
        assert_eq!(blobs.next().await.unwrap().unwrap().len(), 60_000);
        assert_eq!((count.made(), count.dropped()), (2, 1));
    }
    drop(blobs);
    count.until_dropped(2).await;
}

async fn a_cancelled_call_drops_its_instance(kind: Kind) {
    for (per, left) in [(Per::Call, 0), (Per::Connection, 1)] {
        let Counted { site, count, ledger } = counted(kind, ServerConfig::default(), per).await;
        let client = site.client().await;
        let mut call = client.wait(5);
        assert!(poll_once(&mut call).await.is_pending());
        ledger.until(|ledger| *ledger.waiting.borrow() == 1).await;
        assert_eq!((count.made(), count.dropped()), (1, 0));
        drop(call);
        ledger.until(|ledger| *ledger.dropped.borrow() == 1).await;
        count.until_dropped(1 - left).await;
        // What comes later shows that nothing else was dropped.
        assert!(client.add(0, 0).await.is_ok());
        assert_eq!(count.made() - count.dropped(), left);
    }
}

/// A lost link takes the instance of its connection, and those of its calls.
#[tokio::test]
async fn a_lost_link_drops_its_instances() {
    for per in [Per::Call, Per::Connection] {
        let Counted { site, count, ledger } = counted(Kind::Unix, ServerConfig::default(), per).await;
        let faults = Faults::default();
        let dial = FaultyDial::new(&site.address, faults.clone());
        let client = ProbeClient::new(ChannelBuilder::dial(dial).connect().await.unwrap());
        let mut call = client.wait(5);
        assert!(poll_once(&mut call).await.is_pending());
        ledger.until(|ledger| *ledger.waiting.borrow() == 1).await;
        assert_eq!((count.made(), count.dropped()), (1, 0));
        faults.cut();
        assert!(call.await.is_err());
        count.until_dropped(1).await;
    }
}

async fn a_stop_leaves_no_instance(kind: Kind) {
    for per in [Per::Call, Per::Connection] {
        let Counted { site, count, ledger } = counted(kind, ServerConfig::default(), per).await;
        let client = site.client().await;
        let call = tokio::spawn(client.wait(5).into_future());
        ledger.until(|ledger| *ledger.waiting.borrow() == 1).await;
        let stopped = site.server.shutdown(Duration::ZERO).await;
        assert_eq!((stopped.cancelled, stopped.stuck), (1, 0));
        assert_eq!((count.made(), count.dropped()), (1, 1));
        assert_eq!(call.await.unwrap().unwrap_err().status().unwrap().code(), Code::Unavailable);
    }
}

async fn a_factory_may_refuse(kind: Kind) {
    let (count, ledger) = (Arc::<Count>::default(), Arc::<Ledger>::default());
    let (counting, writing) = (Arc::clone(&count), Arc::clone(&ledger));
    let site = Site::serving(kind, ServerConfig::default(), |server| {
        server.service_per_call(move |call: &Inbound<'_>| {
            assert!(call.peer().address.contains(':'));
            match call.metadata().get_str("x-make") {
                Some("refuse") => Err(Status::failed_precondition("no room for this call")),
                Some("panic") => panic!("a secret that no peer may see"),
                _ => Ok(Numbered::new(&counting, &writing)),
            }
        })
    })
    .await;
    let client = site.client().await;
    for (make, code, text) in
        [("refuse", Code::FailedPrecondition, "no room for this call"), ("panic", Code::Internal, "")]
    {
        let error = client.add(0, 0).metadata("x-make", make).await.unwrap_err();
        let status = error.status().unwrap();
        assert_eq!(status.code(), code);
        assert!(status.message().contains(text) && !status.message().contains("secret"), "{status}");
        // One-way calls are refused as well, and nobody is told.
        assert_eq!(client.note("a").metadata("x-make", make).await, Ok(()));
    }
    assert_eq!(client.add(0, 0).await, Ok(1));
    assert_eq!((count.made(), count.dropped(), site.server.stats().panics), (1, 1, 2));
    assert_eq!(site.server.stats().open_connections, 1);
}

/// What a connection's factory refuses is the peer, with the factory's words; what was made for it before is dropped. The
/// next peer is asked afresh.
#[tokio::test]
async fn a_connection_may_be_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (count, ledger) = (Arc::<Count>::default(), Arc::<Ledger>::default());
    let (counting, asked) = (Arc::clone(&count), AtomicU64::new(0));
    let other = Arc::clone(&count);
    let server = Server::builder()
        .service_per_connection(move |_| Ok(Numbered::new(&counting, &ledger)))
        .service_per_connection(move |peer| {
            assert!(peer.address.starts_with("unix:"), "{peer:?}");
            match asked.fetch_add(1, Ordering::SeqCst) {
                0 => Err(Status::permission_denied("not this one")),
                1 => panic!("a secret that no peer may see"),
                _ => Ok(Flowing { _number: Number::next(&other), flows: Flows::default() }),
            }
        })
        .listen(format!("unix:{}", dir.path().join("socket").display()))
        .bind()
        .await
        .unwrap();
    let address = server.local_addrs()[0].clone();
    let server = server.spawn();
    let connect = || async { punctual_rpc::Channel::connect(&address).await };
    let refused = connect().await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert!(refused.message().contains("not this one"), "{refused}");
    count.until_dropped(1).await;
    let refused = connect().await.unwrap_err();
    assert!(!refused.message().contains("secret"), "{refused}");
    count.until_dropped(2).await;
    let channel = connect().await.unwrap();
    assert_eq!(ProbeClient::new(channel.clone()).add(0, 0).await, Ok(3));
    assert_eq!(FlowsClient { channel }.count(2).await.unwrap().collect().await.unwrap(), [0, 1]);
    assert_eq!((server.stats().panics, server.stats().failed_handshakes), (1, 2));
    assert_eq!(server.shutdown(Duration::from_secs(30)).await, Stopped::default());
    assert_eq!((count.made(), count.dropped()), (4, 4));
}

/// A call that the admission control does not let in costs no instance.
#[tokio::test]
async fn a_call_that_is_not_let_in_makes_none() {
    let mut config = ServerConfig::default();
    config.admission.queue_calls_max = 0;
    config.admission.server = ScopeLimits::running(1);
    let Counted { site, count, ledger } = counted(Kind::Unix, config, Per::Call).await;
    let client = site.client().await;
    let mut call = client.wait(5);
    assert!(poll_once(&mut call).await.is_pending());
    ledger.until(|ledger| *ledger.waiting.borrow() == 1).await;
    let error = client.add(0, 0).await.unwrap_err();
    assert_eq!(error.status().unwrap().code(), Code::ResourceExhausted);
    assert_eq!(count.made(), 1);
    ledger.gate.send_replace(true);
    assert_eq!(call.await, Ok(5));
    assert_eq!(count.dropped(), 1);
}
