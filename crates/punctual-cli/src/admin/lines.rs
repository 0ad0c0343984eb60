//! What the store keeps, as the contract shows it.

use super::schedules;
use crate::text::{show_duration, show_instant, show_missed, show_overlap, show_rule};
use punctual::clock::Timestamp;
use punctual::task::schedule::{CompiledRule, ZoneVerdict, tzdb_version};
use punctual::task::{
    AttemptRecord, CancelOutcome, Loss, Progress, QueueView, RetryOutcome, ScheduleView, TaskDetail, TaskId, TaskView,
    WorkerView,
};
use punctual_admin::{
    AttemptLine, JitterLine, LossLine, LostCount, PendingLine, PreviewSlot, ProgressLine, QueueLine, ScheduleLine,
    ScheduleReport, TaskAct, TaskLine, TaskReport, WorkerLine, ZoneLine,
};
use serde_json::Value;

pub(super) fn task_line(view: &TaskView) -> TaskLine {
    TaskLine {
        id: view.id.to_string(),
        method: view.method.clone(),
        queue: view.queue.clone(),
        priority: view.level,
        state: view.state.as_str().to_owned(),
        created: show_instant(view.created),
        due: show_instant(view.due),
        attempts: view.attempts,
        schedule: view.occurrence.as_ref().map(|occurrence| occurrence.name.clone()),
        slot: view.occurrence.as_ref().map(|occurrence| show_instant(occurrence.at)),
        error: view.error.clone(),
    }
}

pub(super) fn task_report(detail: &TaskDetail) -> TaskReport {
    TaskReport {
        task: task_line(&detail.view),
        args: json(&detail.args),
        key: detail.key.clone(),
        run: detail.view.occurrence.as_ref().map(|occurrence| occurrence.run).filter(|run| *run > 0),
        attempts: detail.attempts.iter().map(attempt_line).collect(),
        progress: detail.progress.as_ref().map(progress_line),
    }
}

fn progress_line(progress: &Progress) -> ProgressLine {
    ProgressLine {
        attempt: progress.n,
        at: show_instant(progress.at),
        percent: progress.percent,
        message: progress.message.clone(),
        checkpoint_bytes: progress
            .checkpoint
            .as_ref()
            .map(|checkpoint| u64::try_from(checkpoint.len()).unwrap_or(u64::MAX)),
    }
}

fn attempt_line(attempt: &AttemptRecord) -> AttemptLine {
    AttemptLine {
        n: attempt.n,
        worker: attempt.worker,
        started: show_instant(attempt.started),
        ended: show_instant(attempt.ended),
        outcome: attempt.outcome.as_str().to_owned(),
        out: json(&attempt.out),
    }
}

/// Stored JSON; what is none, which we never write, is shown as text.
fn json(bytes: &[u8]) -> Value {
    if bytes.is_empty() {
        return Value::Null;
    }
    serde_json::from_slice(bytes).unwrap_or_else(|_| String::from_utf8_lossy(bytes).into_owned().into())
}

pub(super) fn cancel_act(task: TaskId, outcome: CancelOutcome) -> TaskAct {
    let (outcome, detail) = match outcome {
        CancelOutcome::Cancelled => ("cancelled", "it was waiting and will not run".to_owned()),
        CancelOutcome::Requested => ("requested", "it runs; its handler is asked to stop".to_owned()),
        CancelOutcome::Ended(state) => ("ended", format!("it had ended before: {}", state.as_str())),
        CancelOutcome::Unknown => ("unknown", "there is no such task".to_owned()),
    };
    TaskAct { id: task.to_string(), outcome: outcome.to_owned(), detail }
}

pub(super) fn retry_act(task: TaskId, outcome: &RetryOutcome) -> TaskAct {
    let (outcome, detail) = match outcome {
        RetryOutcome::Waiting => ("waiting", "it waits again, due now".to_owned()),
        RetryOutcome::NotEnded(state) => {
            ("not_ended", format!("it is {}; only ended tasks are retried", state.as_str()))
        }
        RetryOutcome::KeyHeld(holder) => ("key_held", format!("its unique key is held by task {holder}")),
        RetryOutcome::SeriesCancelled => ("series_cancelled", "its schedule was cancelled for good".to_owned()),
        RetryOutcome::Unknown => ("unknown", "there is no such task".to_owned()),
    };
    TaskAct { id: task.to_string(), outcome: outcome.to_owned(), detail }
}

pub(super) fn schedule_line(view: &ScheduleView) -> ScheduleLine {
    let next = view.position.cursor.map(|cursor| cursor.at);
    let compiled = CompiledRule::new(&view.spec.rule, view.created).ok();
    ScheduleLine {
        name: view.spec.name.clone(),
        rule: show_rule(&view.spec.rule),
        method: view.spec.method.clone(),
        state: view.position.state.as_str().to_owned(),
        note: view.position.note.clone(),
        next: next.map(show_instant),
        next_local: next.and_then(|next| compiled.map(|compiled| compiled.local(next))),
        live: view.live,
        runs: view.position.runs,
        lost: view.lost.iter().map(|(_, count)| count).sum(),
    }
}

pub(super) fn schedule_report(
    view: &ScheduleView,
    losses: &[Loss],
    next: Vec<PreviewSlot>,
    pending: &[TaskView],
    now: Timestamp,
) -> ScheduleReport {
    ScheduleReport {
        schedule: schedule_line(view),
        args: json(&view.spec.args),
        created: show_instant(view.created),
        queue: view.spec.queue.clone(),
        missed: show_missed(view.spec.missed),
        overlap: show_overlap(view.spec.overlap).to_owned(),
        max_pending: view.spec.max_pending,
        jitter: (!view.spec.jitter.is_zero())
            .then(|| JitterLine { most: show_duration(view.spec.jitter), delay: show_duration(view.spec.delay()) }),
        pause_after: view.spec.pause_after,
        version: view.position.version,
        era: view.position.era,
        lost: view
            .lost
            .iter()
            .map(|(reason, count)| LostCount { reason: reason.as_str().to_owned(), count: *count })
            .collect(),
        losses: losses.iter().map(loss_line).collect(),
        next,
        pending: pending.iter().map(pending_line).collect(),
        backfill: schedules::backfill::state(view),
        zone: zone_line(view, now),
    }
}

fn pending_line(task: &TaskView) -> PendingLine {
    PendingLine {
        task: task.id.to_string(),
        state: task.state.as_str().to_owned(),
        slot: task.occurrence.as_ref().map(|occurrence| show_instant(occurrence.at)),
        attempts: task.attempts,
        pass: task.occurrence.as_ref().map_or(0, |occurrence| occurrence.pass),
    }
}

fn zone_line(view: &ScheduleView, now: Timestamp) -> Option<ZoneLine> {
    let stamp = view.position.zone.as_ref()?;
    let compiled = CompiledRule::new(&view.spec.rule, view.created).ok()?;
    let left = match compiled.judge_zone(Some(stamp), now) {
        ZoneVerdict::Leave(why) => Some(why),
        ZoneVerdict::Same | ZoneVerdict::Restamp(_) => None,
    };
    Some(ZoneLine { tzdb: stamp.tzdb.clone(), here: tzdb_version().to_owned(), left })
}

fn loss_line(loss: &Loss) -> LossLine {
    LossLine {
        from: show_instant(loss.from),
        to: show_instant(loss.to),
        reason: loss.reason.as_str().to_owned(),
        count: loss.count,
        exact: loss.exact,
    }
}

pub(super) fn queue_line(view: QueueView) -> QueueLine {
    QueueLine {
        name: view.name,
        paused: view.paused,
        due: view.due,
        later: view.later,
        running: view.running,
        oldest: view.oldest.map(show_instant),
    }
}

pub(super) fn worker_line(view: WorkerView) -> WorkerLine {
    WorkerLine {
        id: view.id.0,
        name: view.name,
        slots: view.slots,
        holds: view.holds,
        lease_until: show_instant(view.until),
        alive: view.alive,
    }
}
