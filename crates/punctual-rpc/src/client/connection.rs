//! One connection of a channel: the lock around the session, and what the handshake said.

use crate::client::contracts::Contracts;
use crate::client::endpoint::Endpoint;
use crate::compression::Agreed;
use crate::driver::{Role, Traffic};
use crate::stats::ChannelStats;
use punctual_clock::Clock;
use punctual_proto::codec::Codec;
use punctual_proto::contract::{MethodDescriptor, ServiceDescriptor};
use punctual_proto::frame::Direction;
use punctual_proto::handshake::{Agreement, Welcome, Windows};
use punctual_proto::limits::Limits;
use punctual_proto::session::{Block, ClientSession, Closure, Effects, FlowStats, Item, Session};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::watch;

/// How far a connection has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Life {
    /// Calls go through it.
    Open,
    /// It takes no new calls.
    Retired,
    /// It is closed.
    Ended(Closure),
}

/// Aligned so that two connections never share a cache line.
#[repr(align(128))]
pub(crate) struct Connection {
    session: Mutex<ClientSession>,
    contracts: Contracts,
    limits: Limits,
    windows: Windows,
    compression: Option<Agreed>,
    clock: Arc<dyn Clock>,
    /// In nanoseconds, since it can be changed live.
    write_latency: AtomicU64,
    turns: AtomicU64,
    traffic: Traffic,
    violated: AtomicBool,
    life: watch::Sender<Life>,
    /// The endpoint that it belongs to.
    home: Weak<Endpoint>,
}

impl Connection {
    pub(crate) fn new(
        agreement: &Agreement,
        welcome: &Welcome,
        driver_clock: Arc<dyn Clock>,
        write_latency: Duration,
        home: Weak<Endpoint>,
        compression: Option<Agreed>,
    ) -> Self {
        Connection {
            session: Mutex::new(ClientSession::new(agreement)),
            contracts: Contracts::new(&welcome.services),
            limits: agreement.limits,
            windows: agreement.own,
            compression,
            clock: driver_clock,
            write_latency: AtomicU64::new(nanos(write_latency)),
            turns: AtomicU64::new(0),
            traffic: Traffic::default(),
            violated: AtomicBool::new(false),
            life: watch::Sender::new(Life::Open),
            home,
        }
    }

    /// The codec for a method's arguments on this connection.
    pub(crate) fn codec(&self, service: &'static ServiceDescriptor, method: &MethodDescriptor) -> Codec {
        match self.contracts.codec(service, method) {
            Codec::Compact if method.args_self_describing => Codec::Named,
            codec => codec,
        }
    }

    /// The codec of a method's contract on this connection.
    pub(crate) fn contract_codec(&self, service: &'static ServiceDescriptor, method: &MethodDescriptor) -> Codec {
        self.contracts.codec(service, method)
    }

    /// What the server announced, and what is known of it.
    pub(crate) fn contracts(&self) -> &Contracts {
        &self.contracts
    }

    /// How bodies are compressed, where both sides can.
    #[inline]
    pub(crate) fn compression(&self) -> Option<&Agreed> {
        self.compression.as_ref()
    }

    /// What this side is ready to hold of streams.
    pub(crate) fn own_windows(&self) -> Windows {
        self.windows
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn life(&self) -> watch::Receiver<Life> {
        self.life.subscribe()
    }

    pub(crate) fn session(&self) -> MutexGuard<'_, ClientSession> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes no more calls, and closes behind the last of those under way.
    pub(crate) fn drain(&self) {
        let mut effects = Effects::default();
        self.session().drain(&mut effects);
        effects.run();
    }

    /// Holds output back this long from here on.
    pub(crate) fn set_write_latency(&self, latency: Duration) {
        self.write_latency.store(nanos(latency), Ordering::Relaxed);
    }

    /// The endpoint that it belongs to, if that is still there.
    pub(crate) fn home(&self) -> Option<Arc<Endpoint>> {
        self.home.upgrade()
    }

    /// Calls that are under way.
    pub(crate) fn pending(&self) -> usize {
        self.session().load()
    }

    /// Requests that went through it.
    pub(crate) fn published(&self) -> u64 {
        self.session().counters().published
    }

    /// Whether the server would run another call at once.
    pub(crate) fn has_room(&self) -> bool {
        self.session().has_place()
    }

    /// Whether it takes a call with so many streams.
    pub(crate) fn has_streams_left(&self, streams: usize) -> bool {
        self.session().has_streams_left(streams)
    }

    /// Closes at once. Gives the number of calls that this ends.
    pub(crate) fn cut(&self) -> usize {
        let mut effects = Effects::default();
        let mut session = self.session();
        let cut = session.load();
        let queued = session.close(Closure::Local, &mut effects);
        let driver = session.outbox().rouse_driver();
        drop(session);
        drop(queued);
        effects.run();
        if let Some(driver) = driver {
            driver.wake();
        }
        cut
    }

    /// Adds what this connection counted.
    pub(crate) fn add_to(&self, stats: &mut ChannelStats) {
        let counters = self.session().counters();
        stats.published += counters.published;
        stats.late_replies += counters.late_replies;
        stats.cancels += counters.cancels;
        stats.violations += u64::from(self.violated.load(Ordering::Relaxed));
        let (sent, received) = self.traffic.bytes();
        stats.sent_bytes += sent;
        stats.received_bytes += received;
        stats.turns += self.turns.load(Ordering::Relaxed);
    }

    pub(crate) fn load(&self) -> (usize, usize, FlowStats) {
        let mut session = self.session();
        (session.load(), session.outbox().queued_bytes(), session.flow())
    }
}

/// Five centuries are as good as more.
fn nanos(latency: Duration) -> u64 {
    u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX)
}

impl Role for Connection {
    type Session = ClientSession;
    type Work = ();
    const FROM: Direction = Direction::FromServer;

    fn lock(&self) -> MutexGuard<'_, ClientSession> {
        self.session()
    }

    fn is_poisoned(&self) -> bool {
        self.session.is_poisoned()
    }

    fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    fn write_latency(&self) -> Duration {
        Duration::from_nanos(self.write_latency.load(Ordering::Relaxed))
    }

    fn turns(&self) -> &AtomicU64 {
        &self.turns
    }

    fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    fn prepare(&self, _: &mut ClientSession, _: &[Item]) {}

    fn collect(&self, _: &mut ClientSession, (): &mut ()) {}

    fn work(self: &Arc<Self>, (): &mut (), _: Block<'_>) -> usize {
        0
    }

    fn must_pause(&self, session: &mut ClientSession) -> bool {
        if !session.is_open() {
            self.life.send_if_modified(|life| {
                let first = *life == Life::Open;
                if first {
                    *life = Life::Retired;
                }
                first
            });
        }
        // The client's reader never waits for its writer.
        false
    }

    fn ended(self: &Arc<Self>, closure: &Closure) {
        self.violated.store(matches!(closure, Closure::Violation(_)), Ordering::Relaxed);
        self.life.send_replace(Life::Ended(closure.clone()));
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("limits", &self.limits).finish_non_exhaustive()
    }
}
