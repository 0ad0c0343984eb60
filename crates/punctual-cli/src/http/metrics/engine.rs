//! What the engine of this process counts.

use super::text::{Kind, Text};
use crate::http::app::App;
use punctual::clock::Timestamp;
use punctual::engine::Stats;
use punctual::task::schedule::tzdb_version;

/// A counter: its name behind `punctual_engine_`, what it says, and where it stands.
type Row = (&'static str, &'static str, fn(&Stats) -> u64);

const COUNTERS: &[Row] = &[
    ("enqueued", "Tasks enqueued by this daemon", |stats| stats.enqueued),
    ("claims", "Claims sent to the store", |stats| stats.claims),
    ("claimed", "Tasks that claims gave", |stats| stats.claimed),
    ("finish_calls", "Batches of finished attempts sent to the store", |stats| stats.finish_calls),
    ("finished", "Attempts that the store recorded", |stats| stats.finished),
    ("succeeded", "Attempts that succeeded", |stats| stats.succeeded),
    ("dead_letters", "Tasks that failed for good: their last attempt failed, panicked or timed out", |stats| {
        stats.failed
    }),
    ("retried", "Attempts that failed and will be followed by another", |stats| stats.retried),
    ("panicked", "Attempts whose handler panicked", |stats| stats.panicked),
    ("timed_out", "Attempts whose budget ended", |stats| stats.timed_out),
    ("snoozed", "Attempts whose handler asked for a later time", |stats| stats.snoozed),
    ("cancelled", "Tasks that ended as cancelled here", |stats| stats.cancelled),
    ("expired", "Tasks that were claimed too late to be started", |stats| stats.expired),
    ("refused", "Finishes that the store refused, since the task had been taken from this worker", |stats| {
        stats.refused
    }),
    ("handed_back", "Tasks given back without an end", |stats| stats.handed_back),
    ("abandoned", "Handlers that blocked their thread beyond every bound", |stats| stats.abandoned),
    ("leases_lost", "Times that this worker lost its registration", |stats| stats.leases_lost),
    ("doubts", "Times that handlers were stopped because the lease was in doubt", |stats| stats.doubts),
    ("renewals", "Renewals that the store accepted", |stats| stats.renewals),
    ("workers_rescued", "Dead workers that this one fenced off", |stats| stats.workers_rescued),
    ("tasks_rescued", "Tasks that dead workers had held", |stats| stats.tasks_rescued),
    ("sweeps", "Passes over due schedules", |stats| stats.sweeps),
    ("slots_created", "Occurrences created by passes of this daemon", |stats| stats.slots_created),
    ("slots_missed", "Slots that passes of this daemon decided not to run", |stats| stats.slots_lost),
    ("schedules_left", "Times that a schedule was left to hosts with a newer time zone database", |stats| {
        stats.schedules_left
    }),
    ("pruned", "Ended tasks removed", |stats| stats.pruned),
    ("store_errors", "Calls that the store failed", |stats| stats.store_errors),
];

pub(super) fn write(text: &mut Text, app: &App) {
    let info = app.engine.store().info();
    text.family("punctual_build", Kind::Gauge, "What runs here");
    text.count(&[("version", env!("CARGO_PKG_VERSION")), ("store", info.kind), ("tzdb", tzdb_version())], 1);
    text.family("punctual_start_time_seconds", Kind::Gauge, "When it started, since 1970");
    text.number(&[], seconds(app.started));
    let stats = app.engine.stats();
    for (name, help, read) in COUNTERS {
        text.family(&format!("punctual_engine_{name}"), Kind::Counter, help);
        text.count(&[], read(&stats));
    }
    text.family("punctual_engine_registered", Kind::Gauge, "1 while this daemon's worker is registered");
    text.count(&[], u64::from(app.engine.worker().is_some()));
}

fn seconds(at: Timestamp) -> f64 {
    at.since(Timestamp::EPOCH).as_secs_f64()
}
