//! Puts an engine together and starts it.

use crate::engine::Engine;
use crate::methods::Methods;
use crate::observe::ObserveAttempts;
use crate::shared::{Phase, Shared};
use crate::{
    EngineConfig, Error, ErrorKind, Handlers, breaker, claimer, completer, keeper, materialiser, pruner, reports,
    rescuer, zone_check,
};
use punctual_clock::{Clock, Entropy, SeededEntropy, SystemClock};
use punctual_context::Propagate;
use punctual_task::{NAME_BYTES_MAX, Store, check_name};
use std::sync::Arc;

/// Puts an engine together. Made by [`Engine::builder`].
#[derive(Debug)]
#[must_use = "nothing runs before `start`"]
pub struct EngineBuilder {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    config: EngineConfig,
    name: Option<String>,
    handlers: Vec<Arc<dyn Handlers>>,
    propagator: Option<Arc<dyn Propagate>>,
    observer: Option<Arc<dyn ObserveAttempts>>,
}

impl EngineBuilder {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        EngineBuilder {
            store,
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SeededEntropy::from_system()),
            config: EngineConfig::default(),
            name: None,
            handlers: Vec::new(),
            propagator: None,
            observer: None,
        }
    }

    /// The clock to measure budgets, leases and waits with; the system's by default. Which task is due the store's own
    /// clock decides.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Where jitter comes from; seeded by the system by default.
    pub fn entropy(mut self, entropy: Arc<dyn Entropy>) -> Self {
        self.entropy = entropy;
        self
    }

    /// Ties the spans of enqueues and runs into traces by this: the run of a task is a child of its enqueue, over the store and
    /// in another process. Without one, the trace of the handler that enqueues is still passed on to the task's run and to what that
    /// calls.
    pub fn propagator(mut self, propagator: Arc<dyn Propagate>) -> Self {
        self.propagator = Some(propagator);
        self
    }

    /// Tells this of each attempt that the store recorded for this engine, in place of any before.
    pub fn observer(mut self, observer: Arc<dyn ObserveAttempts>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// The worker's name, for people: host and process by default.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How it behaves.
    pub fn config(mut self, config: EngineConfig) -> Self {
        self.config = config;
        self
    }

    /// Runs a service's durable methods here. An engine that serves nothing registers no worker: it only enqueues,
    /// declares and asks.
    pub fn serve(self, handlers: impl Handlers) -> Self {
        self.serve_shared(Arc::new(handlers))
    }

    /// The same for handlers that others hold too.
    pub fn serve_shared(mut self, handlers: Arc<dyn Handlers>) -> Self {
        self.handlers.push(handlers);
        self
    }

    /// Registers the worker and starts to work. Must be called on a tokio runtime with its timer enabled.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for settings, names and methods that cannot be; what the store says when it cannot be
    /// reached. Nothing is retried here: a program that cannot start says so at once.
    pub async fn start(self) -> Result<Engine, Error> {
        self.config.validate()?;
        let name = self.name.unwrap_or_else(default_name);
        check_name("worker's name", &name).map_err(|error| Error::new(ErrorKind::Config, error.to_string()))?;
        let mut methods = Methods::default();
        for handlers in self.handlers {
            methods.add(handlers)?;
        }
        let runtime = tokio::runtime::Handle::try_current()
            .map_err(|_| Error::new(ErrorKind::Config, "an engine starts on a tokio runtime, and this is none"))?;
        let works = !methods.is_empty();
        let mut shared = Shared::new(self.store, self.clock, self.entropy, self.config, name, methods, runtime);
        shared.propagator = self.propagator;
        shared.observer = self.observer;
        let shared = Arc::new(shared);
        shared.measure_skew().await.map_err(|error| Error::from_store("the store does not tell its time", error))?;
        // Before the loops: whatever fails from here on, dropping the engine ends what was begun.
        let engine = Engine::new(Arc::clone(&shared));
        if works {
            keeper::register(&shared)
                .await
                .map_err(|error| Error::from_store("the worker could not be registered", error))?;
            begin(&shared)?;
        }
        Ok(engine)
    }
}

fn begin(shared: &Arc<Shared>) -> Result<(), Error> {
    keeper::spawn(shared)?;
    // If the runtime goes away under the engine, its tasks are dropped: the keeper's thread must not keep alive the lease
    // of a worker that no longer runs anything.
    let anchor = Anchor(Arc::clone(shared));
    shared.runtime.spawn(async move { anchor.0.reached(Phase::Stopped).await });
    shared.spawn_loop("completer", completer::run);
    shared.spawn_loop("claimer", claimer::run);
    shared.spawn_loop("materialiser", materialiser::run);
    shared.spawn_loop("reports", reports::run);
    shared.spawn_loop("rescuer", rescuer::run);
    shared.spawn_loop("pruner", pruner::run);
    shared.spawn_loop("zone check", zone_check::run);
    shared.spawn_loop("breaker", breaker::run);
    Ok(())
}

struct Anchor(Arc<Shared>);

impl Drop for Anchor {
    fn drop(&mut self) {
        self.0.enter(Phase::Stopped);
    }
}

/// Host and process, as far as they can be had.
fn default_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok())
        .or_else(|| std::env::var("COMPUTERNAME").ok())
        .unwrap_or_default();
    let host: String = host.chars().filter(|letter| !letter.is_control() && !letter.is_whitespace()).collect();
    let host = if host.is_empty() || host.len() > NAME_BYTES_MAX / 2 { "host" } else { &host };
    format!("{host}:{}", std::process::id())
}
