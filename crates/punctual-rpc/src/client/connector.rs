//! Keeps one connection up.
//!
//! ```text
//!           first call              up                 lost, going away
//!   Idle ──────────────▶ Connecting ──▶ Ready ─────────────────┐
//!                          ▲    ▲ failed   │                   │
//!                          │    └─── Backoff ◀── (lived briefly)
//!                          └───────────────────────────────────┘
//! ```

use crate::client::comparison::compare_all;
use crate::client::connection::{Connection, Life};
use crate::client::endpoint::Endpoint;
use crate::client::retry::jittered;
use crate::client::roster::ended;
use crate::client::target::{Target, Try};
use crate::client::timer::sleep_until;
use crate::client::wiring::{Wiring, next_id};
use crate::sync::ArcSwapOption;
use punctual_clock::Instant;
use punctual_proto::handshake::{Agreement, Welcome};
use punctual_proto::status::Status;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// A connection that lived shorter counts as a failed try: without this, a server that accepts and drops connections
/// would be hammered.
const LIVED: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub(crate) enum State {
    Idle,
    Connecting,
    Ready,
    Backoff { why: Status, since: Instant, until: Instant },
    Closed,
}

/// What keeps one connection of an endpoint up.
pub(crate) struct Connector {
    shared: Arc<Shared>,
}

struct Shared {
    id: u64,
    target: Arc<Target>,
    wiring: Arc<Wiring>,
    home: Weak<Endpoint>,
    current: ArcSwapOption<Connection>,
    state: watch::Sender<State>,
    hurry: Notify,
}

impl Connector {
    pub(crate) fn new(target: Arc<Target>, wiring: Arc<Wiring>, home: Weak<Endpoint>) -> Self {
        Connector {
            shared: Arc::new(Shared {
                id: next_id(),
                target,
                wiring,
                home,
                current: ArcSwapOption::empty(),
                state: watch::Sender::new(State::Idle),
                hurry: Notify::new(),
            }),
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.shared.id
    }

    /// The connection, while there is one that takes calls.
    pub(crate) fn current(&self) -> Option<Arc<Connection>> {
        self.shared.current.load_full()
    }

    /// The same without taking part in it.
    pub(crate) fn is_ready(&self, not: Option<&Arc<Connection>>) -> bool {
        let current = self.shared.current.load();
        current.as_ref().is_some_and(|current| not.is_none_or(|not| !Arc::ptr_eq(not, current)))
    }

    pub(crate) fn state(&self) -> State {
        self.shared.state.borrow().clone()
    }

    /// Starts the task that connects, where none is under way. True where it did.
    pub(crate) fn start(&self) -> bool {
        let idle = self.shared.state.send_if_modified(|state| {
            let idle = matches!(state, State::Idle);
            if idle {
                *state = State::Connecting;
            }
            idle
        });
        if idle {
            tokio::spawn(maintain(Maintained(Arc::clone(&self.shared))));
        }
        idle
    }

    /// Somebody waits for the connection: the next try is made now, unless the last one has only just failed.
    pub(crate) fn hurry(&self) {
        if let State::Backoff { since, .. } = self.state() {
            let wiring = &self.shared.wiring;
            if wiring.clock.now().since(since) >= wiring.settings.load().backoff_first {
                self.shared.hurry.notify_waiters();
            }
        }
    }

    /// Ends behind the calls that are under way.
    pub(crate) fn close(&self) {
        let shared = &self.shared;
        shared.state.send_replace(State::Closed);
        shared.publish(None);
        shared.wiring.roster.drain_connector(shared.id);
        shared.wiring.ring();
    }

    /// Returns once its connections have ended, those that were left behind cut after `grace`. Gives how many calls that
    /// cost.
    pub(crate) async fn closed(&self, grace: Duration) -> usize {
        closed(&self.shared.wiring, grace, || self.shared.wiring.roster.of_connector(self.shared.id)).await
    }
}

/// Waits until the connections that `open` names have ended, and cuts those that have not after `grace`.
pub(crate) async fn closed(wiring: &Wiring, grace: Duration, open: impl Fn() -> Vec<Arc<Connection>>) -> usize {
    let orderly = async {
        while let Some(connection) = open().pop() {
            ended(&connection).await;
            wiring.roster.leave(&connection);
        }
    };
    let until = wiring.clock.now().after(grace);
    tokio::select! {
        biased;
        () = orderly => return 0,
        () = sleep_until(&*wiring.clock, until) => {}
    }
    let mut cut = 0;
    for connection in open() {
        cut += connection.cut();
        ended(&connection).await;
        wiring.roster.leave(&connection);
    }
    cut
}

impl Shared {
    fn is_closed(&self) -> bool {
        matches!(*self.state.borrow(), State::Closed)
    }

    /// Sets the state unless the connector was closed.
    fn set(&self, next: State) -> bool {
        let set = self.state.send_if_modified(|state| {
            let open = !matches!(state, State::Closed);
            if open {
                *state = next;
            }
            open
        });
        self.wiring.ring();
        set
    }

    /// Calls go through this connection from here on, or through none.
    fn publish(&self, connection: Option<&Arc<Connection>>) {
        self.wiring.lane.publish(self.wiring.cluster, self.id, &self.current, connection);
    }

    fn backoff(&self, attempt: u32) -> Duration {
        let config = self.wiring.settings.load();
        let doubled = config.backoff_first.saturating_mul(1 << attempt.min(16)).min(config.backoff_max);
        jittered(doubled, &*config.entropy)
    }
}

/// The right to connect. Where its task is dropped while the channel is open, the next call starts another one.
struct Maintained(Arc<Shared>);

impl Drop for Maintained {
    fn drop(&mut self) {
        if !self.0.is_closed() {
            self.0.publish(None);
            self.0.set(State::Idle);
        }
    }
}

/// Connects again and again until the connector is closed.
async fn maintain(maintained: Maintained) {
    let shared = &maintained.0;
    let wiring = &shared.wiring;
    let mut states = shared.state.subscribe();
    let mut failures = 0u32;
    while shared.set(State::Connecting) {
        let config = wiring.settings.load_full();
        let build = |agreement: &Agreement, welcome: &Welcome| {
            let clock = Arc::clone(&wiring.driver_clock);
            let compression = config.compression.agreed(agreement.compression);
            let latency = config.write_latency_max;
            Connection::new(agreement, welcome, clock, latency, Weak::clone(&shared.home), compression)
        };
        let attempt = Try { config: &config, build: &build };
        let tried = tokio::select! {
            biased;
            tried = shared.target.connect(&attempt) => tried,
            _ = states.wait_for(|state| matches!(state, State::Closed)) => return,
        };
        let why = match tried {
            Ok((connection, driver)) => {
                wiring.roster.enter(wiring.cluster, shared.id, &connection);
                tokio::spawn(drive(Arc::clone(shared), Arc::clone(&connection), driver));
                tracing::debug!(address = %shared.target, "connected");
                shared.publish(Some(&connection));
                if !shared.set(State::Ready) {
                    // Closed in between.
                    shared.publish(None);
                    connection.drain();
                    return;
                }
                let since = wiring.clock.now();
                let why = tokio::select! {
                    biased;
                    why = retired(&connection) => why,
                    never = compare_all(&connection) => match never {},
                };
                shared.publish(None);
                if wiring.clock.now().since(since) >= LIVED {
                    failures = 0;
                    continue;
                }
                why
            }
            Err(status) => {
                wiring.roster.count_failed();
                // Its text may be a server's, which may say what was presented to it. Calls that wait are told.
                tracing::debug!(address = %shared.target, code = %status.code(), "cannot connect");
                status
            }
        };
        let wait = shared.backoff(failures);
        failures = failures.saturating_add(1);
        let since = wiring.clock.now();
        let hurried = shared.hurry.notified();
        if !shared.set(State::Backoff { why, since, until: since.after(wait) }) {
            return;
        }
        tokio::select! {
            biased;
            _ = states.wait_for(|state| matches!(state, State::Closed)) => return,
            () = hurried => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Moves a connection until it is over.
async fn drive(shared: Arc<Shared>, connection: Arc<Connection>, driver: crate::transport::BoxFuture<'static, ()>) {
    driver.await;
    if let Life::Ended(closure) = &*connection.life().borrow() {
        tracing::debug!(address = %shared.target, ?closure, "connection closed");
    }
    shared.wiring.roster.leave(&connection);
}

/// Returns once the connection takes no more calls, with the reason.
async fn retired(connection: &Arc<Connection>) -> Status {
    let mut life = connection.life();
    let now = life.wait_for(|life| *life != Life::Open).await;
    match now.as_deref() {
        Ok(Life::Ended(closure)) => Status::unavailable(closure.reason()),
        _ => Status::unavailable("the server takes no new calls"),
    }
}
