//! A cluster: one set of endpoints, which a resolver may exchange as a whole, and the choice between them.

use crate::client::balance::Field;
use crate::client::config::ChannelConfig;
use crate::client::connection::Connection;
use crate::client::connector::{Connector, State, closed};
use crate::client::duty::Duty;
use crate::client::endpoint::Endpoint;
use crate::client::endpoints::{ENDPOINTS_MAX, Endpoints, Snapshots, Source};
use crate::client::lane::Lane;
use crate::client::roster::Roster;
use crate::client::settings::SharedConfig;
use crate::client::target::Target;
use crate::client::timer::sleep_until;
use crate::client::trial::Trial;
use crate::client::tried::Past;
use crate::client::wiring::{Wiring, next_id};
use arc_swap::ArcSwap;
use punctual_clock::Instant;
use punctual_proto::status::Status;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// How often one waiting call starts tasks that connect. More often means that they end by themselves, as when their
/// runtime does.
const STARTS_MAX: u32 = 3;

/// What a failure to connect means to who waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// It fails, too: the channel is being made and is given up.
    OneTry,
    /// It fails at once while the channel backs off.
    NoBackoff,
    /// It waits for the next try, and the next.
    Ready,
}

/// A set of endpoints.
pub(crate) struct Cluster {
    source: Endpoints,
    wiring: Arc<Wiring>,
    own: Weak<Cluster>,
    endpoints: ArcSwap<Vec<Arc<Endpoint>>>,
    /// Held while the set changes.
    changing: Mutex<Changing>,
    turn: AtomicUsize,
    /// Calls were made: endpoints that are added connect at once.
    is_started: AtomicBool,
    is_closed: AtomicBool,
    resolving: Duty,
}

#[derive(Default)]
struct Changing {
    /// Why there is no set, where the resolver said so before it ever had one.
    failed: Option<Status>,
    resolver: Option<tokio::task::AbortHandle>,
    /// Why it was closed.
    closed: Option<String>,
}

/// A connection that a call goes through.
pub(crate) struct Ready {
    pub(crate) connection: Arc<Connection>,
    /// Of the endpoint's breaker, where there is a policy for it.
    pub(crate) trial: Option<Trial>,
}

/// What a look past the breakers gave.
enum Guarded {
    Go(Ready),
    /// Connections are up, and breakers open until then.
    Open(Instant),
    Nothing,
}

/// How things stand for a call that found no connection.
enum Standing {
    /// Some may yet come up.
    Trying,
    /// All have failed; the next try is at the instant, if anybody knows.
    Failing(Status, Option<Instant>),
}

impl Cluster {
    pub(crate) fn new(source: Endpoints, settings: SharedConfig, lane: Arc<Lane>, roster: Arc<Roster>) -> Arc<Self> {
        Self::with_id(next_id(), source, settings, lane, roster)
    }

    pub(crate) fn with_id(
        id: u64,
        source: Endpoints,
        settings: SharedConfig,
        lane: Arc<Lane>,
        roster: Arc<Roster>,
    ) -> Arc<Self> {
        let cluster = Arc::new_cyclic(|own| Cluster {
            source,
            wiring: Arc::new(Wiring::new(id, Weak::clone(own), settings, lane, roster)),
            own: Weak::clone(own),
            endpoints: ArcSwap::default(),
            changing: Mutex::default(),
            turn: AtomicUsize::new(0),
            is_started: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            resolving: Duty::free(),
        });
        if let Source::Fixed(targets) = &cluster.source.0 {
            cluster.exchange(targets.clone());
        }
        cluster
    }

    pub(crate) fn id(&self) -> u64 {
        self.wiring.cluster
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source.0
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// The addresses of the endpoints, in their order.
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.endpoints.load().iter().map(|endpoint| endpoint.address().to_owned()).collect()
    }

    pub(crate) fn settings(&self) -> Arc<ChannelConfig> {
        self.wiring.settings.load_full()
    }

    /// Endpoints that calls can go to now.
    pub(crate) fn alive(&self) -> usize {
        self.endpoints.load().iter().filter(|endpoint| endpoint.is_alive(None)).count()
    }

    /// Whether calls find their connection in the lane alone.
    fn is_plain(endpoints: &[Arc<Endpoint>]) -> bool {
        matches!(endpoints, [only] if only.pool().len() == 1)
    }

    /// A connection for a call, if there is one now and it is not the lane's to give.
    pub(crate) fn pick(&self, past: Past<'_>) -> Option<Arc<Connection>> {
        let endpoints = self.endpoints.load();
        match &endpoints[..] {
            [] => None,
            [only] => only.pick(past.connection),
            several => {
                let settings = self.wiring.settings.load();
                let choose = |past: Past<'_>| {
                    let field = Living { endpoints: several, past, now: None };
                    let at = settings.balance.choose(&field, &self.turn, &*settings.entropy)?;
                    several.get(at)?.pick(past.connection)
                };
                let first = choose(past);
                if first.is_none() && past.tried.is_some() { choose(past.none_tried()) } else { first }
            }
        }
    }

    /// A connection for a call that goes past the breakers, where there are any.
    fn pick_guarded(&self, past: Past<'_>) -> Guarded {
        let settings = self.wiring.settings.load_full();
        if settings.breaker.is_none() {
            let ready = |connection| Guarded::Go(Ready { connection, trial: None });
            return self.pick(past).map_or(Guarded::Nothing, ready);
        }
        let now = self.wiring.clock.now();
        let endpoints = self.endpoints.load();
        let not = past.connection;
        let again = past.tried.is_some().then(|| past.none_tried());
        for past in [Some(past), again].into_iter().flatten() {
            let field = Living { endpoints: &endpoints, past, now: Some(now) };
            // Another call may take a probe's place, or the connection go, between the look and the choice.
            for _ in 0..=endpoints.len() {
                let Some(at) = settings.balance.choose(&field, &self.turn, &*settings.entropy) else { break };
                let Some(endpoint) = endpoints.get(at) else { break };
                if let (Some(connection), Ok(trial)) = (endpoint.pick(not), endpoint.admit(&settings, now)) {
                    return Guarded::Go(Ready { connection, trial });
                }
            }
        }
        let alive = endpoints.iter().filter(|endpoint| endpoint.is_alive(not));
        match alive.filter_map(|endpoint| endpoint.check_breaker(now).err()).min() {
            Some(until) => Guarded::Open(until),
            None => Guarded::Nothing,
        }
    }

    fn open_status(&self, until: Instant) -> Status {
        let why = format!("the circuit breaker of each endpoint of {self} is open");
        if until == Instant::FAR {
            return Status::unavailable(format!("{why}, and a probe is under way"));
        }
        let wait = until.since(self.wiring.clock.now());
        Status::unavailable(format!("{why}; next probe in {} ms", wait.as_millis())).with_retry_after(wait)
    }

    /// Endpoints whose breaker is not closed.
    pub(crate) fn open_breakers(&self) -> usize {
        self.endpoints.load().iter().filter(|endpoint| endpoint.has_open_breaker()).count()
    }

    /// Waits for a connection, within `deadline`. A call is guarded by the breakers; what asks about the
    /// server itself is not.
    pub(crate) async fn ready(
        &self,
        patience: Patience,
        is_guarded: bool,
        deadline: Instant,
        past: Past<'_>,
    ) -> Result<Ready, Status> {
        let wait = async {
            let mut bell = self.wiring.bell();
            let mut starts = 0;
            let mut hurried = false;
            loop {
                bell.borrow_and_update();
                if self.is_closed() {
                    return Err(self.closed_status());
                }
                if self.start() {
                    starts += 1;
                    if starts > STARTS_MAX {
                        return Err(Status::unavailable(
                            "the task that connects ended, as when its runtime ends; the next call starts it again",
                        ));
                    }
                }
                let guarded = if is_guarded {
                    self.pick_guarded(past)
                } else {
                    let ready = |connection| Guarded::Go(Ready { connection, trial: None });
                    self.pick(past).map_or(Guarded::Nothing, ready)
                };
                let mut until = Instant::FAR;
                match guarded {
                    Guarded::Go(ready) => return Ok(ready),
                    Guarded::Open(open) if patience != Patience::Ready => return Err(self.open_status(open)),
                    Guarded::Open(open) => until = open,
                    Guarded::Nothing => {}
                }
                if let Standing::Failing(why, until) = self.standing() {
                    match patience {
                        Patience::OneTry => return Err(why),
                        Patience::NoBackoff => return Err(self.told(&why, until)),
                        Patience::Ready if !hurried => {
                            hurried = true;
                            self.hurry();
                        }
                        Patience::Ready => {}
                    }
                }
                tokio::select! {
                    biased;
                    rung = bell.changed() => if rung.is_err() {
                        return Err(self.closed_status());
                    },
                    () = sleep_until(&*self.wiring.clock, until) => {}
                }
            }
        };
        tokio::select! {
            biased;
            ready = wait => ready,
            () = sleep_until(&*self.wiring.clock, deadline) => Err(Status::deadline_exceeded(format!(
                "the deadline passed while the call waited for a connection to {self}"
            ))),
        }
    }

    fn told(&self, why: &Status, until: Option<Instant>) -> Status {
        let Some(until) = until else { return why.clone() };
        let wait = until.since(self.wiring.clock.now());
        let text = format!("{}; next try in {} ms", why.message(), wait.as_millis());
        Status::new(why.code(), text).with_retry_after(wait)
    }

    /// Starts what is not under way. True where anything was.
    fn start(&self) -> bool {
        self.is_started.store(true, Ordering::SeqCst);
        let resolving = self.resolve();
        // All of them, not only up to the first.
        self.endpoints.load().iter().filter(|endpoint| endpoint.start()).count() > 0 || resolving
    }

    fn hurry(&self) {
        for endpoint in self.endpoints.load().iter() {
            for connector in endpoint.pool().iter() {
                connector.hurry();
            }
        }
    }

    fn standing(&self) -> Standing {
        let endpoints = self.endpoints.load();
        if endpoints.is_empty() {
            let failed = self.changing.lock().unwrap_or_else(PoisonError::into_inner).failed.clone();
            return failed.map_or(Standing::Trying, |why| Standing::Failing(why, None));
        }
        let mut first: Option<(Status, Instant)> = None;
        for connector in endpoints.iter().flat_map(|endpoint| endpoint.pool().to_vec()) {
            match connector.state() {
                State::Backoff { why, until, .. } => {
                    let sooner = first.as_ref().is_none_or(|(_, at)| until < *at);
                    if sooner {
                        first = Some((why, until));
                    }
                }
                State::Closed => {}
                State::Idle | State::Connecting | State::Ready => return Standing::Trying,
            }
        }
        first.map_or(Standing::Trying, |(why, until)| Standing::Failing(why, Some(until)))
    }

    /// Starts the task of the resolver, where there is one and it is not under way. True where it did.
    fn resolve(&self) -> bool {
        let Source::Resolved(resolver) = &self.source.0 else { return false };
        if self.is_closed() || !self.resolving.take() {
            return false;
        }
        let resolver = Arc::clone(resolver);
        let mut resolving = Resolving(Weak::clone(&self.own), false);
        let snapshots = Snapshots::of(Weak::clone(&self.own), self.wiring.bell());
        let task = tokio::spawn(async move {
            resolver.run(snapshots).await;
            // It has said all that it has to say: the last set stays.
            resolving.1 = true;
            if let Some(cluster) = resolving.0.upgrade().filter(|cluster| cluster.endpoints.load().is_empty()) {
                let text = format!("{} ended without a set of endpoints", resolver.name());
                cluster.report(Status::unavailable(text));
            }
        });
        self.changing.lock().unwrap_or_else(PoisonError::into_inner).resolver = Some(task.abort_handle());
        true
    }

    /// Takes a resolver's set of endpoints, or refuses it and keeps the last one.
    pub(crate) fn publish(&self, targets: Vec<Target>) -> Result<(), Status> {
        let refused = match targets.len() {
            0 => Some("a set of no endpoints was published; the last one is kept".to_owned()),
            len if len > ENDPOINTS_MAX => Some(format!(
                "a set of {len} endpoints was published; at most {ENDPOINTS_MAX} are taken, and the last one is kept"
            )),
            _ => None,
        };
        if let Some(why) = refused {
            let status = Status::invalid_argument(why);
            self.report(status.clone());
            return Err(status);
        }
        self.exchange(targets);
        Ok(())
    }

    /// A resolver has no new set, and says why.
    pub(crate) fn report(&self, why: Status) {
        self.wiring.roster.count_bad_snapshot();
        tracing::warn!(source = %self.source, %why, "endpoints could not be resolved; the last ones are kept");
        let mut changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.endpoints.load().is_empty() {
            changing.failed = Some(why);
        }
        drop(changing);
        self.wiring.ring();
    }

    /// Exchanges the whole set. Those that stay keep their connections; those that go end behind their calls.
    fn exchange(&self, targets: Vec<Target>) {
        let gone: Vec<Arc<Endpoint>> = {
            let mut changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
            if self.is_closed() {
                return;
            }
            let old = self.endpoints.load_full();
            let mut seen = BTreeSet::new();
            let mut next = Vec::with_capacity(targets.len());
            for target in targets {
                let address = target.to_string();
                if !seen.insert(address.clone()) {
                    continue;
                }
                let kept = old.iter().find(|endpoint| endpoint.address() == address).map(Arc::clone);
                next.push(kept.unwrap_or_else(|| Endpoint::new(target, Arc::clone(&self.wiring))));
            }
            changing.failed = None;
            self.endpoints.store(Arc::new(next));
            old.iter().filter(|endpoint| !seen.contains(endpoint.address())).map(Arc::clone).collect()
        };
        self.settle_lane();
        for endpoint in gone {
            endpoint.leave();
        }
        if self.is_started.load(Ordering::SeqCst) {
            self.start();
        }
        self.wiring.ring();
    }

    /// Tells calls whether there is anything to choose.
    pub(crate) fn settle_lane(&self) {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let endpoints = self.endpoints.load();
        let only: Option<Arc<Connector>> = match &endpoints[..] {
            [only] if Self::is_plain(&endpoints) && !self.is_closed() => only.pool().first().cloned(),
            _ => None,
        };
        self.wiring.lane.assign(self.wiring.cluster, only.as_deref());
    }

    /// The settings changed: pools that are too big shrink.
    pub(crate) fn resize(&self) {
        let max = self.wiring.settings.load().pool_max as usize;
        for endpoint in self.endpoints.load().iter() {
            endpoint.shrink_to(max);
        }
        self.wiring.ring();
    }

    /// Takes no more calls; connections end behind those under way.
    pub(crate) fn close(&self, why: &str) {
        let mut changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        changing.closed.get_or_insert_with(|| why.to_owned());
        self.is_closed.store(true, Ordering::SeqCst);
        if let Some(resolver) = changing.resolver.take() {
            resolver.abort();
        }
        drop(changing);
        self.settle_lane();
        for endpoint in self.endpoints.load().iter() {
            endpoint.close();
        }
        self.wiring.ring();
    }

    /// What calls are told when nobody will ever connect again.
    fn closed_status(&self) -> Status {
        let changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        Status::cancelled(changing.closed.as_deref().unwrap_or("the channel was closed"))
    }

    /// Returns once every connection has ended, those of calls that were not over after `grace` by being cut. Gives how
    /// many calls that cost.
    pub(crate) async fn closed(&self, grace: Duration) -> usize {
        closed(&self.wiring, grace, || self.wiring.roster.of_cluster(Some(self.wiring.cluster))).await
    }
}

/// The task of a resolver. Where it is dropped before it said that it is done, the next call starts another one.
struct Resolving(Weak<Cluster>, bool);

impl Drop for Resolving {
    fn drop(&mut self) {
        if let (Some(cluster), false) = (self.0.upgrade(), self.1) {
            cluster.resolving.give_back();
            cluster.wiring.ring();
        }
    }
}

/// The endpoints among which a call chooses.
struct Living<'a> {
    endpoints: &'a [Arc<Endpoint>],
    past: Past<'a>,
    /// Those whose breaker lets nothing through now do not count.
    now: Option<Instant>,
}

impl Field for Living<'_> {
    fn len(&self) -> usize {
        self.endpoints.len()
    }

    fn is_alive(&self, at: usize) -> bool {
        let passes = |endpoint: &Endpoint| self.now.is_none_or(|now| endpoint.check_breaker(now).is_ok());
        let fits = |endpoint: &Arc<Endpoint>| endpoint.is_alive(self.past.connection) && !self.past.has_tried(endpoint);
        self.endpoints.get(at).is_some_and(|endpoint| fits(endpoint) && passes(endpoint))
    }

    fn pending(&self, at: usize) -> usize {
        self.endpoints.get(at).map_or(usize::MAX, |endpoint| endpoint.pending())
    }

    fn address(&self, at: usize) -> &str {
        self.endpoints.get(at).map_or("", |endpoint| endpoint.address())
    }
}

impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}
