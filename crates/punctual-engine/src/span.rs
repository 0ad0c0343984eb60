//! The spans of tasks: `enqueue` and `run` at INFO, and at DEBUG `claim` and `finish`, which are of many tasks at once.
//!
//! The span of an enqueue is the parent of those of its runs, over the store and to another process: its place in the trace is
//! stored with the task. The run of an occurrence begins a trace of its own. Where no subscriber wants spans, they cost a load.
//! Nothing of arguments, results, errors or keys is in any.

use punctual_context::{Context, Propagate, TraceContext};
use punctual_task::{Claimed, NewTask, Outcome, TaskId, TaskTrace};
use std::sync::Arc;
use tracing::Span;
use tracing::field::Empty;

/// What the spans are filtered by.
const TARGET: &str = "punctual::engine";

/// What this system is called in `messaging.system`.
const SYSTEM: &str = "punctual";

/// The span of the write of `count` tasks like this one, and their place in a trace: that span, or what the handler that they
/// are enqueued in was sent.
pub(crate) fn enqueue(task: &NewTask, count: usize, propagator: Option<&dyn Propagate>) -> (Span, Option<TaskTrace>) {
    let span = tracing::info_span!(
        target: TARGET,
        "enqueue",
        otel.name = %format_args!("enqueue {}", task.method),
        otel.kind = "producer",
        otel.status_code = Empty,
        messaging.system = SYSTEM,
        messaging.operation.r#type = "send",
        messaging.destination.name = task.queue,
        messaging.batch.message_count = count,
        rpc.method = task.method,
        punctual.task.id = Empty,
    );
    let current = propagator.and_then(|propagator| span.in_scope(|| propagator.current()));
    let trace = current
        .or_else(Context::current_trace)
        .map(|trace| TaskTrace { parent: trace.traceparent(), state: trace.tracestate().to_owned() });
    (span, trace)
}

/// How a write ended.
pub(crate) fn enqueued(span: &Span, written: Result<TaskId, ()>) {
    match written {
        Ok(id) => span.record("punctual.task.id", tracing::field::display(id)),
        Err(()) => span.record("otel.status_code", "error"),
    };
}

/// The place in a trace at which a task was enqueued, where there is one that keeps the grammar.
pub(crate) fn trace_of(claimed: &Claimed) -> Option<TraceContext> {
    let stored = claimed.options.trace.as_ref()?;
    let trace = TraceContext::parse(stored.parent.as_bytes())?;
    Some(if stored.state.is_empty() { trace } else { trace.with_state(stored.state.as_bytes()) })
}

/// The span of one attempt.
pub(crate) fn run(claimed: &Claimed, trace: Option<&TraceContext>, propagator: Option<&Arc<dyn Propagate>>) -> Span {
    if !tracing::enabled!(target: TARGET, tracing::Level::INFO) {
        return Span::none();
    }
    let Some((propagator, trace)) = propagator.zip(trace) else { return attempt(claimed) };
    let mut span = Span::none();
    propagator.within(trace, &mut || span = attempt(claimed));
    span
}

/// The span of one attempt, in the current place of a trace. Lanes are in none.
fn attempt(claimed: &Claimed) -> Span {
    let span = tracing::info_span!(
        target: TARGET,
        "run",
        otel.name = %format_args!("run {}", claimed.method),
        otel.kind = "consumer",
        otel.status_code = Empty,
        messaging.system = SYSTEM,
        messaging.operation.r#type = "process",
        messaging.destination.name = claimed.queue,
        rpc.method = claimed.method,
        punctual.task.id = %claimed.task,
        punctual.task.attempt = claimed.n,
        punctual.task.outcome = Empty,
        punctual.schedule = Empty,
        punctual.slot = Empty,
    );
    if let Some(occurrence) = &claimed.occurrence {
        span.record("punctual.schedule", &*occurrence.name);
        // Microseconds since 1970.
        span.record("punctual.slot", occurrence.at.as_micros());
    }
    span
}

/// How an attempt ended.
pub(crate) fn ran(span: &Span, outcome: Outcome) {
    span.record("punctual.task.outcome", outcome.as_str());
    if outcome != Outcome::Succeeded {
        span.record("otel.status_code", "error");
    }
}

/// The span of one question for work.
pub(crate) fn claim() -> Span {
    tracing::debug_span!(target: TARGET, "claim", messaging.batch.message_count = Empty)
}

/// What a question for work gave.
pub(crate) fn claimed(span: &Span, count: usize) {
    span.record("messaging.batch.message_count", count);
}

/// The span of the record of `count` attempts in one commit.
pub(crate) fn finish(count: usize) -> Span {
    tracing::debug_span!(target: TARGET, "finish", messaging.batch.message_count = count)
}
