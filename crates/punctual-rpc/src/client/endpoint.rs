//! One endpoint: an address, and the pool of connections to it.
//!
//! The pool has one connection while that is enough. It grows by one when calls wait because the server runs as many as it
//! announced, up to the setting; a connection beyond the first that nothing went through for a while is closed.

use crate::client::breaker::{Breaker, BreakerPolicy, End, Permit};
use crate::client::config::ChannelConfig;
use crate::client::connection::Connection;
use crate::client::connector::{Connector, State};
use crate::client::pool::Pool;
use crate::client::target::Target;
use crate::client::timer::sleep_until;
use crate::client::trial::Trial;
use crate::client::wiring::Wiring;
use punctual_clock::Instant;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// How often in the time after which an idle connection is closed it is looked at.
const LOOKS: u32 = 4;

/// An address with its connections.
pub(crate) struct Endpoint {
    target: Arc<Target>,
    address: String,
    wiring: Arc<Wiring>,
    own: Weak<Endpoint>,
    pool: Pool<Connector>,
    /// Touched only where the settings have a policy for it.
    breaker: Mutex<Breaker>,
}

impl Endpoint {
    pub(crate) fn new(target: Target, wiring: Arc<Wiring>) -> Arc<Self> {
        let (address, target) = (target.to_string(), Arc::new(target));
        Arc::new_cyclic(|own| {
            let first = Connector::new(Arc::clone(&target), Arc::clone(&wiring), Weak::clone(own));
            Endpoint {
                target,
                address,
                wiring,
                own: Weak::clone(own),
                pool: Pool::of(first),
                breaker: Mutex::default(),
            }
        })
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn pool(&self) -> Arc<Vec<Arc<Connector>>> {
        self.pool.members()
    }

    /// Whether a call can go there, through another connection than `not`.
    pub(crate) fn is_alive(&self, not: Option<&Arc<Connection>>) -> bool {
        self.pool.members().iter().any(|connector| connector.is_ready(not))
    }

    /// Whether the breaker would let a call through, or when it is worth asking again.
    pub(crate) fn check_breaker(&self, now: Instant) -> Result<(), Instant> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner).check(now)
    }

    pub(crate) fn has_open_breaker(&self) -> bool {
        !self.breaker.lock().unwrap_or_else(PoisonError::into_inner).is_closed()
    }

    /// Lets a call through, or says when it is worth asking again.
    pub(crate) fn admit(&self, settings: &Arc<ChannelConfig>, now: Instant) -> Result<Option<Trial>, Instant> {
        let permit = self.breaker.lock().unwrap_or_else(PoisonError::into_inner).admit(now)?;
        Ok(self.own.upgrade().map(|own| Trial::new(own, Arc::clone(settings), permit)))
    }

    /// A call that was let through has ended.
    pub(crate) fn record(&self, policy: &BreakerPolicy, permit: Permit, end: End) {
        let now = self.wiring.clock.now();
        let mut breaker = self.breaker.lock().unwrap_or_else(PoisonError::into_inner);
        let was_closed = breaker.is_closed();
        let changed = breaker.record(policy, permit, end, now);
        let is_closed = breaker.is_closed();
        drop(breaker);
        if was_closed != is_closed {
            tracing::warn!(address = %self.address, is_closed, "the endpoint's circuit breaker changed");
        }
        if changed {
            self.wiring.ring();
        }
    }

    /// This client's calls that wait for a reply.
    pub(crate) fn pending(&self) -> usize {
        self.pool.members().iter().filter_map(|connector| connector.current()).map(|open| open.pending()).sum()
    }

    /// The connection with the fewest calls, other than `not`.
    pub(crate) fn pick(&self, not: Option<&Arc<Connection>>) -> Option<Arc<Connection>> {
        let pool = self.pool.members();
        let fits = |connection: &Arc<Connection>| not.is_none_or(|not| !Arc::ptr_eq(not, connection));
        if let [only] = &pool[..] {
            return only.current().filter(fits);
        }
        let ready = pool.iter().filter_map(|connector| connector.current()).filter(fits);
        ready.min_by_key(|connection| connection.pending())
    }

    /// A connection other than `not` that fits.
    fn pick_fitting(&self, not: &Arc<Connection>, fits: impl Fn(&Connection) -> bool) -> Option<Arc<Connection>> {
        let pool = self.pool.members();
        let ready = pool.iter().filter_map(|connector| connector.current());
        ready.filter(|connection| !Arc::ptr_eq(connection, not)).find(|connection| fits(connection))
    }

    /// Waits for a connection whose server takes another call at once, for one that waits in line on `not`. Where the pool
    /// has but one, that is for ever.
    pub(crate) async fn roomier(&self, not: &Arc<Connection>) -> Arc<Connection> {
        let mut bell = self.wiring.bell();
        loop {
            bell.borrow_and_update();
            if let Some(connection) = self.pick_fitting(not, Connection::has_room) {
                return connection;
            }
            if bell.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Grows for a call with so many streams, which `not` has no room for, and waits for a connection that has. `None` where
    /// none has and the pool grows no more.
    pub(crate) async fn with_streams_left(&self, not: &Arc<Connection>, streams: usize) -> Option<Arc<Connection>> {
        let mut bell = self.wiring.bell();
        loop {
            bell.borrow_and_update();
            if let Some(connection) = self.pick_fitting(not, |open| open.has_streams_left(streams)) {
                return Some(connection);
            }
            self.grow();
            let is_growing = |connector: &Arc<Connector>| matches!(connector.state(), State::Idle | State::Connecting);
            if !self.pool.members().iter().any(is_growing) || bell.changed().await.is_err() {
                return None;
            }
        }
    }

    /// Starts what is not under way. True where anything was.
    pub(crate) fn start(&self) -> bool {
        // All of them, not only up to the first.
        self.pool.members().iter().filter(|connector| connector.start()).count() > 0
    }

    /// Calls wait although every connection is up: adds one, where the settings allow it and none is on its way.
    pub(crate) fn grow(&self) {
        let max = self.wiring.settings.load().pool_max as usize;
        let are_settled =
            |pool: &[Arc<Connector>]| pool.iter().all(|connector| matches!(connector.state(), State::Ready));
        let make = || Connector::new(Arc::clone(&self.target), Arc::clone(&self.wiring), Weak::clone(&self.own));
        let Some(next) = self.pool.grow(max, are_settled, make) else { return };
        next.start();
        tracing::debug!(address = %self.address, "the pool grows: the server runs as many calls as it announced");
        self.settle_lane();
        self.shrink_later();
    }

    /// Closes what is beyond `max`.
    pub(crate) fn shrink_to(&self, max: usize) {
        self.remove(|at, _| at >= max.max(1));
    }

    /// Closes the connections that `which` names, with their indices, but never the first.
    fn remove(&self, which: impl Fn(usize, &Connector) -> bool) {
        let removed = self.pool.remove(which);
        if removed.is_empty() {
            return;
        }
        for connector in removed {
            self.let_go(connector);
        }
        self.settle_lane();
    }

    /// Ends a connector behind its calls, within the grace of the settings.
    fn let_go(&self, connector: Arc<Connector>) {
        connector.close();
        let grace = self.wiring.settings.load().drain_grace;
        // Without a runtime nothing of it is under way either.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { connector.closed(grace).await });
        }
    }

    /// Where the channel has nothing to choose any more, or again, calls are told.
    fn settle_lane(&self) {
        self.wiring.ring();
        if let Some(cluster) = self.wiring.owner.upgrade() {
            cluster.settle_lane();
        }
    }

    /// Starts the task that closes idle connections, while there are any beyond the first.
    fn shrink_later(&self) {
        if self.pool.begin_shrinking() {
            tokio::spawn(shrink(Shrinking(Some(Weak::clone(&self.own))), Arc::clone(&self.wiring)));
        }
    }

    /// Takes no more calls, and ends behind those under way.
    pub(crate) fn close(&self) {
        // Outside of the pool's lock, since it wakes callers.
        for connector in self.pool.close().iter() {
            connector.close();
        }
    }

    /// The same within the grace of the settings: what is left then is cut.
    pub(crate) fn leave(&self) {
        self.close();
        for connector in self.pool.members().iter() {
            self.let_go(Arc::clone(connector));
        }
    }
}

/// The duty to close idle connections. Where its task is dropped, as with its runtime, the next growth starts another one.
struct Shrinking(Option<Weak<Endpoint>>);

impl Shrinking {
    fn endpoint(&self) -> Option<Arc<Endpoint>> {
        self.0.as_ref().and_then(Weak::upgrade)
    }
}

impl Drop for Shrinking {
    fn drop(&mut self) {
        if let Some(endpoint) = self.endpoint() {
            endpoint.pool.abandon_shrinking();
        }
    }
}

/// Looks now and then, until one connection is left.
async fn shrink(mut shrinking: Shrinking, wiring: Arc<Wiring>) {
    // What each connection had published when it was last seen busy, and since when it has been idle.
    let mut seen: BTreeMap<u64, (u64, Instant)> = BTreeMap::new();
    loop {
        let idle = wiring.settings.load().pool_idle;
        let next = wiring.clock.now().after(idle / LOOKS);
        sleep_until(&*wiring.clock, next).await;
        let Some(endpoint) = shrinking.endpoint() else { return };
        let now = wiring.clock.now();
        let pool = endpoint.pool();
        for connector in pool.iter() {
            let (pending, published) = connector.current().map_or((0, 0), |open| (open.pending(), open.published()));
            let (last, since) = seen.entry(connector.id()).or_insert((published, now));
            if pending > 0 || *last != published {
                (*last, *since) = (published, now);
            }
        }
        endpoint.remove(|_, connector| seen.get(&connector.id()).is_some_and(|(_, since)| now.since(*since) >= idle));
        seen.retain(|id, _| pool.iter().any(|connector| connector.id() == *id));
        if endpoint.pool.end_shrinking() {
            shrinking.0 = None;
            return;
        }
    }
}
