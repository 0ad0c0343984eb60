//! Keeps a channel's connection up.
//!
//! ```text
//!           first call              up                 lost, going away
//!   Idle ──────────────▶ Connecting ──▶ Ready ─────────────────┐
//!                          ▲    ▲ failed   │                   │
//!                          │    └─── Backoff ◀── (lived briefly)
//!                          └───────────────────────────────────┘
//! ```

use crate::client::connection::{Connection, Life};
use crate::client::retry::jittered;
use crate::client::settings::SharedConfig;
use crate::client::target::{Target, Try};
use crate::client::timer::sleep_until;
use crate::stats::ChannelStats;
use arc_swap::ArcSwapOption;
use punctual_clock::{Clock, Instant};
use punctual_proto::status::Status;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// A connection that lived shorter counts as a failed try: without this, a server that accepts and drops connections
/// would be hammered.
const LIVED: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
enum State {
    Idle,
    Connecting,
    Ready(Arc<Connection>),
    Backoff { why: Status, until: Instant },
    Closed,
}

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

/// The connecting half of a channel.
pub(crate) struct Connector {
    shared: Arc<Shared>,
}

struct Shared {
    target: Target,
    settings: SharedConfig,
    /// Those of the settings that stay for the channel's life.
    clock: Arc<dyn Clock>,
    driver_clock: Arc<dyn Clock>,
    current: Arc<ArcSwapOption<Connection>>,
    state: watch::Sender<State>,
    connections: AtomicU64,
    failed: AtomicU64,
    /// What connections counted that are gone.
    past: Mutex<ChannelStats>,
    /// Connections that are not gone yet.
    open: Mutex<Vec<Arc<Connection>>>,
}

impl Connector {
    pub(crate) fn new(target: Target, settings: SharedConfig, current: Arc<ArcSwapOption<Connection>>) -> Self {
        let config = settings.load();
        let clock = Arc::clone(&config.clock);
        let driver_clock = config.driver_clock.clone().unwrap_or_else(|| Arc::clone(&clock));
        Connector {
            shared: Arc::new(Shared {
                target,
                settings,
                clock,
                driver_clock,
                current,
                state: watch::Sender::new(State::Idle),
                connections: AtomicU64::new(0),
                failed: AtomicU64::new(0),
                past: Mutex::default(),
                open: Mutex::default(),
            }),
        }
    }

    pub(crate) fn address(&self) -> String {
        self.shared.target.to_string()
    }

    /// Waits for a connection other than `after`, within `deadline`.
    pub(crate) async fn ready(
        &self,
        patience: Patience,
        deadline: Instant,
        after: Option<&Arc<Connection>>,
    ) -> Result<Arc<Connection>, Status> {
        let shared = &self.shared;
        let mut states = shared.state.subscribe();
        let mut started = false;
        let wait = async {
            loop {
                if matches!(*states.borrow(), State::Idle) {
                    if started {
                        return Err(Status::unavailable(
                            "the task that connects ended, as when its runtime ends; the next call starts it again",
                        ));
                    }
                    started = true;
                    shared.start();
                }
                match &*states.borrow_and_update() {
                    State::Ready(connection) if after.is_none_or(|after| !Arc::ptr_eq(after, connection)) => {
                        return Ok(Arc::clone(connection));
                    }
                    State::Backoff { why, .. } if patience == Patience::OneTry => return Err(why.clone()),
                    State::Backoff { why, until } if patience == Patience::NoBackoff => {
                        let wait = until.since(shared.clock.now());
                        let text = format!("{}; next try in {} ms", why.message(), wait.as_millis());
                        return Err(Status::new(why.code(), text).with_retry_after(wait));
                    }
                    State::Closed => return Err(Status::cancelled("the channel was closed")),
                    _ => {}
                }
                if states.changed().await.is_err() {
                    return Err(Status::cancelled("the channel was closed"));
                }
            }
        };
        tokio::select! {
            biased;
            ready = wait => ready,
            () = sleep_until(&*shared.clock, deadline) => Err(Status::deadline_exceeded(format!(
                "the deadline passed while the call waited for a connection to {}", shared.target
            ))),
        }
    }

    /// Closes the channel behind the calls that are under way.
    pub(crate) fn close(&self) {
        self.shared.state.send_replace(State::Closed);
        self.shared.current.store(None);
        for connection in self.shared.open.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            connection.drain();
        }
    }

    /// Returns once every connection has ended.
    pub(crate) async fn closed(&self) {
        loop {
            let next = self.shared.open.lock().unwrap_or_else(PoisonError::into_inner).first().cloned();
            let Some(connection) = next else { return };
            ended(&connection).await;
            self.shared.forget(&connection);
        }
    }

    pub(crate) fn stats(&self) -> ChannelStats {
        let shared = &self.shared;
        let mut stats = *shared.past.lock().unwrap_or_else(PoisonError::into_inner);
        for connection in shared.open.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            connection.add_to(&mut stats);
            let (pending, queued, flow) = connection.load();
            stats.add_flow(&flow);
            stats.pending += pending as u64;
            stats.queued_bytes += queued as u64;
        }
        stats.connections = shared.connections.load(Ordering::Relaxed);
        stats.failed_connects = shared.failed.load(Ordering::Relaxed);
        stats
    }
}

impl Shared {
    /// Starts the task that connects, where none is under way.
    fn start(self: &Arc<Self>) {
        let idle = self.state.send_if_modified(|state| {
            let idle = matches!(state, State::Idle);
            if idle {
                *state = State::Connecting;
            }
            idle
        });
        if idle {
            tokio::spawn(maintain(Maintained(Arc::clone(self))));
        }
    }

    fn is_closed(&self) -> bool {
        matches!(*self.state.borrow(), State::Closed)
    }

    /// Sets the state unless the channel was closed.
    fn set(&self, next: State) -> bool {
        self.state.send_if_modified(|state| {
            let open = !matches!(state, State::Closed);
            if open {
                *state = next;
            }
            open
        })
    }

    fn forget(&self, connection: &Arc<Connection>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = open.iter().position(|other| Arc::ptr_eq(other, connection)) {
            open.swap_remove(at);
            connection.add_to(&mut self.past.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn backoff(&self, attempt: u32) -> Duration {
        let config = self.settings.load();
        let doubled = config.backoff_first.saturating_mul(1 << attempt.min(16)).min(config.backoff_max);
        jittered(doubled, &*config.entropy)
    }
}

/// The right to connect. Where its task is dropped while the channel is open, the next call starts another one.
struct Maintained(Arc<Shared>);

impl Drop for Maintained {
    fn drop(&mut self) {
        if !self.0.is_closed() {
            self.0.current.store(None);
            self.0.set(State::Idle);
        }
    }
}

/// Connects again and again until the channel is closed.
async fn maintain(maintained: Maintained) {
    let shared = &maintained.0;
    let clock = Arc::clone(&shared.clock);
    let mut states = shared.state.subscribe();
    let mut failures = 0u32;
    while shared.set(State::Connecting) {
        let config = shared.settings.load_full();
        let latency = config.write_latency_max;
        let build =
            |agreement: &_, welcome: &_| Connection::new(agreement, welcome, Arc::clone(&shared.driver_clock), latency);
        let attempt = Try { config: &config, build: &build };
        let tried = tokio::select! {
            biased;
            tried = shared.target.connect(&attempt) => tried,
            _ = states.wait_for(|state| matches!(state, State::Closed)) => return,
        };
        let why = match tried {
            Ok((connection, driver)) => {
                shared.connections.fetch_add(1, Ordering::Relaxed);
                shared.open.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&connection));
                tokio::spawn(drive(Arc::clone(shared), Arc::clone(&connection), driver));
                tracing::debug!(address = %shared.target, "connected");
                if !shared.set(State::Ready(Arc::clone(&connection))) {
                    connection.drain();
                    return;
                }
                shared.current.store(Some(Arc::clone(&connection)));
                if shared.is_closed() {
                    // Closed between the two steps above.
                    shared.current.store(None);
                    connection.drain();
                    return;
                }
                let since = clock.now();
                let why = retired(&connection).await;
                shared.current.store(None);
                if clock.now().since(since) >= LIVED {
                    failures = 0;
                    continue;
                }
                why
            }
            Err(status) => {
                shared.failed.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(address = %shared.target, %status, "cannot connect");
                status
            }
        };
        let wait = shared.backoff(failures);
        failures = failures.saturating_add(1);
        if !shared.set(State::Backoff { why, until: clock.now().after(wait) }) {
            return;
        }
        tokio::select! {
            biased;
            _ = states.wait_for(|state| matches!(state, State::Closed)) => return,
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
    shared.forget(&connection);
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

async fn ended(connection: &Arc<Connection>) {
    let mut life = connection.life();
    // An error would mean that it is gone altogether.
    let _ = life.wait_for(|life| matches!(life, Life::Ended(_))).await;
}
