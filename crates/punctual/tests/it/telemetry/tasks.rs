//! Traces and spans of tasks: over the store, from the enqueue to its run, and nothing in them of what tasks are about.

use super::capture::Capture;
use punctual::schedule::Every;
use punctual::{Channel, Context, Engine, Propagate, Server, Status, TraceContext, service};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// In arguments, results, errors, panics and keys.
const SECRET: &str = "s3cr3t-c4n4ry";

#[service]
trait Night {
    /// The metadata of its context.
    #[rpc(durable, attempts = 1)]
    async fn heard(&self) -> Result<Vec<String>, Status>;
    #[rpc(durable, attempts = 1)]
    async fn say(&self, text: String, how: u8) -> Result<String, Status>;
    /// Enqueues `heard`, and gives what that heard.
    async fn later(&self) -> Result<Vec<String>, Status>;
}

/// Shared, since the engine that it enqueues in also runs it.
#[derive(Clone, Default)]
struct Watchman(Arc<OnceLock<Engine>>);

impl Night for Watchman {
    async fn heard(&self) -> Result<Vec<String>, Status> {
        let context = Context::current().ok_or_else(|| Status::internal("no context"))?;
        let shown = |(name, value): (&str, &[u8])| format!("{name} {}", String::from_utf8_lossy(value));
        Ok(context.metadata().iter().map(shown).collect())
    }

    async fn say(&self, text: String, how: u8) -> Result<String, Status> {
        match how {
            0 => Ok(text),
            1 => Err(Status::internal(text)),
            _ => std::panic::resume_unwind(Box::new(text)),
        }
    }

    async fn later(&self) -> Result<Vec<String>, Status> {
        let engine = self.0.get().ok_or_else(|| Status::internal("no engine"))?;
        heard(engine).await.ok_or_else(|| Status::internal("it failed"))
    }
}

async fn heard(engine: &Engine) -> Option<Vec<String>> {
    let task = engine.enqueue(night::Heard {}).await.ok()?;
    engine.wait(&task).await.ok()?.succeeded()
}

/// A tracing system that has one trace.
#[derive(Debug, Default)]
struct Fake {
    parents: Mutex<Vec<String>>,
}

impl Propagate for Fake {
    fn current(&self) -> Option<TraceContext> {
        TraceContext::parse(PARENT.as_bytes()).map(|trace| trace.with_state(b"vendor=1"))
    }

    fn within(&self, parent: &TraceContext, make: &mut dyn FnMut()) {
        self.parents.lock().unwrap_or_else(PoisonError::into_inner).push(parent.traceparent());
        make();
    }
}

async fn engine(night: Watchman, fake: Option<Arc<Fake>>) -> Engine {
    let mut builder = punctual::open("memory:").await.expect("memory is always there").serve(NightServer::new(night));
    if let Some(fake) = fake {
        builder = builder.propagator(fake);
    }
    builder.start().await.expect("an engine starts")
}

async fn stop(engine: Engine) {
    assert!(engine.shutdown(Duration::from_secs(5)).await.is_clean());
}

/// The place in the trace that the enqueue's span has is stored with the task: it is the parent of the span of its run, and what
/// the handler passes on. Both spans say what and how, and those of the claim and the record of how many.
#[tokio::test]
async fn a_task_runs_in_the_trace_of_its_enqueue() {
    let (capture, _guard) = Capture::start();
    let fake = Arc::new(Fake::default());
    let engine = engine(Watchman::default(), Some(Arc::clone(&fake))).await;
    let expected = [format!("traceparent {PARENT}"), "tracestate vendor=1".to_owned()];
    assert_eq!(heard(&engine).await.unwrap(), expected);
    assert_eq!(*fake.parents.lock().unwrap(), [PARENT]);
    let failed = engine.enqueue(night::Say { text: "x".to_owned(), how: 1 }).await.unwrap();
    assert!(engine.wait(&failed).await.unwrap().failed().is_some());
    let many = engine.enqueue_many((0..3).map(|_| night::Heard {})).await.unwrap();
    for task in &many {
        assert_eq!(engine.wait(task).await.unwrap().succeeded().unwrap(), expected);
    }
    stop(engine).await;
    let (enqueues, runs) = (capture.spans("enqueue"), capture.spans("run"));
    assert_eq!((enqueues.len(), runs.len()), (3, 5), "{enqueues:?} {runs:?}");
    for (span, kind) in [(&enqueues[0], "producer"), (&runs[0], "consumer")] {
        assert_eq!(span.fields["otel.kind"], kind);
        assert_eq!(span.fields["rpc.method"], "Night/heard");
        assert_eq!(span.fields["messaging.destination.name"], "Night");
    }
    assert_eq!(enqueues[0].fields["punctual.task.id"], runs[0].fields["punctual.task.id"]);
    assert_eq!(runs[0].fields["punctual.task.outcome"], "succeeded");
    assert_eq!(runs[1].fields["punctual.task.outcome"], "failed");
    assert_eq!(runs[1].fields["otel.status_code"], "error");
    assert_eq!(enqueues[2].fields["messaging.batch.message_count"], "3");
    let count = |name| -> usize {
        let spans = capture.spans(name).into_iter();
        spans.map(|span| span.fields["messaging.batch.message_count"].parse::<usize>().unwrap()).sum()
    };
    assert_eq!((count("claim"), count("finish")), (5, 5));
}

/// Without a tracing system, the trace that a handler was sent goes with the tasks that it enqueues; one that breaks the grammar
/// does not, and none is made up.
#[tokio::test]
async fn a_handler_s_trace_goes_with_the_tasks_that_it_enqueues() {
    let night = Watchman::default();
    let engine = engine(night.clone(), None).await;
    night.0.set(engine.clone()).unwrap();
    let address = "inproc:night-watch";
    let server = Server::builder().service(NightServer::new(night.clone())).listen(address).bind().await.unwrap();
    let server = server.spawn();
    let client = NightClient::new(Channel::connect(address).await.unwrap());
    let sent =
        client.later().metadata("traceparent", PARENT).metadata("tracestate", "vendor=1").metadata("tenant", "a");
    assert_eq!(sent.await.unwrap(), [format!("traceparent {PARENT}"), "tracestate vendor=1".to_owned()]);
    assert_eq!(client.later().metadata("traceparent", "nonsense").await.unwrap(), [""; 0]);
    assert_eq!(client.later().await.unwrap(), [""; 0]);
    server.shutdown(Duration::from_secs(5)).await;
    stop(engine).await;
}

/// Without anybody who traces, nothing of traces is stored.
#[tokio::test]
async fn nothing_is_stored_for_nobody() {
    let engine = engine(Watchman::default(), None).await;
    let task = engine.enqueue(night::Heard {}).await.unwrap();
    let detail = engine.store().task(task.id).await.unwrap().unwrap();
    assert!(detail.options.is_default(), "{detail:?}");
    stop(engine).await;
}

/// The run of an occurrence begins a trace of its own, and its span names the schedule and the slot.
#[tokio::test]
async fn occurrences_begin_traces_of_their_own() {
    let (capture, _guard) = Capture::start();
    let fake = Arc::new(Fake::default());
    let engine = engine(Watchman::default(), Some(Arc::clone(&fake))).await;
    let hourly = Every::new(Duration::from_secs(3_600));
    engine.schedule("nightly", hourly, night::Heard {}).await.unwrap();
    engine.trigger("nightly", true).await.unwrap();
    while engine.stats().finished == 0 {
        tokio::task::yield_now().await;
    }
    stop(engine).await;
    let runs = capture.spans("run");
    assert_eq!(runs[0].fields["punctual.schedule"], "nightly");
    assert!(runs[0].fields.contains_key("punctual.slot"), "{runs:?}");
    assert_eq!(*fake.parents.lock().unwrap(), [""; 0]);
}

/// Arguments, results, errors, panics and keys of tasks are in no span and no event, down to TRACE.
#[tokio::test]
async fn what_tasks_are_about_is_not_logged() {
    let (capture, _guard) = Capture::start();
    let engine = engine(Watchman::default(), Some(Arc::default())).await;
    for how in 0..3 {
        let say = night::Say { text: format!("text {SECRET}"), how };
        let task = engine.enqueue(say).key(format!("key {SECRET} {how}")).await.unwrap();
        let end = engine.wait(&task).await.unwrap();
        assert!(format!("{end:?}").contains(SECRET), "who asks is told: {end:?}");
    }
    let wrong = engine.enqueue_json("Night/say", format!("{{\"text\": 1, \"how\": \"{SECRET}\"}}")).await.unwrap();
    assert!(engine.wait_json(wrong.id).await.unwrap().failed().is_some());
    stop(engine).await;
    let seen = capture.text();
    for known in ["Night/say", "a handler panicked", "enqueue", "run", "claim", "finish"] {
        assert!(seen.contains(known), "{known} was not seen, so this test sees too little: {seen}");
    }
    assert!(!seen.contains(SECRET), "{seen}");
}
