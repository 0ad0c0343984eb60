//! The end of an attempt: its record, and whether its task ends with it or waits again. An end takes with it the task's
//! place under its schedule's capacity and its unique key, and tells retention and the next sweep.

use crate::claims::class;
use crate::keys;
use crate::packed::ENDED_TASKS_MAX;
use crate::ready::{self, Waits};
use crate::session::{Step, step};
use punctual_clock::Timestamp;
use punctual_task::rows::Code;
use punctual_task::rows::{End, FLAG_KEY, Held, pack_ends};
use punctual_task::{AttemptRecord, TaskState};
use std::collections::BTreeSet;

const ADD: &str = "INSERT INTO attempt (task, n, worker, started, ended, outcome, final, lane, out)
    SELECT * FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::bigint[], $5::bigint[], $6::smallint[],
        $7::smallint[], $8::int[], $9::bytea[])";
/// Only the record of a cancel before any attempt, number 0, can replace an older one.
const REPLACE: &str = "INSERT INTO attempt (task, n, worker, started, ended, outcome, final, lane, out)
    SELECT * FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::bigint[], $5::bigint[], $6::smallint[],
        $7::smallint[], $8::int[], $9::bytea[])
    ON CONFLICT (task, n) DO UPDATE SET worker = excluded.worker, started = excluded.started, ended = excluded.ended,
    outcome = excluded.outcome, final = excluded.final, lane = excluded.lane, out = excluded.out";
const RELEASE: &str = "DELETE FROM hold h USING unnest($1::bigint[], $2::bigint[]) u (gate, task)
    WHERE h.gate = u.gate AND h.task = u.task";
const ADD_ENDED: &str = "INSERT INTO ended (kind, at, tasks)
    SELECT * FROM unnest($1::smallint[], $2::bigint[], $3::bytea[])";
const WAKE: &str = "INSERT INTO woken (gate, at)
    SELECT u.gate, current_setting('punctual.now')::bigint FROM unnest($1::bigint[]) u (gate)";

/// The kind of a row of ends.
pub(crate) const KIND_ENDED: i16 = 0;
/// The kind of a row of failures, which are kept longer.
pub(crate) const KIND_FAILED: i16 = 1;

/// A task that is about to end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ending {
    pub(crate) task: i64,
    pub(crate) lane: i32,
    /// The schedule whose occurrence it is; 0 for none.
    pub(crate) gate: i64,
    /// Whether it was enqueued with a unique key.
    pub(crate) key: bool,
}

impl From<&Held> for Ending {
    fn from(held: &Held) -> Self {
        let key = held.flags & FLAG_KEY != 0;
        Ending { task: held.task, lane: held.lane.cast_signed(), gate: held.gate, key }
    }
}

/// How a task waits again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Again {
    pub(crate) due: Timestamp,
    /// Attempts begun so far.
    pub(crate) n: u32,
    pub(crate) spent: u32,
    pub(crate) losses: u32,
}

/// The ends of one operation.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    records: Records,
    waits: Waits,
    /// Gates and tasks.
    released: (Vec<i64>, Vec<i64>),
    keyed: Vec<i64>,
    ended: Vec<End>,
    failed: Vec<End>,
}

#[derive(Debug, Default)]
struct Records {
    tasks: Vec<i64>,
    ns: Vec<i32>,
    workers: Vec<i64>,
    started: Vec<i64>,
    ended: Vec<i64>,
    outcomes: Vec<i16>,
    finals: Vec<Option<i16>>,
    lanes: Vec<i32>,
    outs: Vec<Vec<u8>>,
}

impl Ends {
    /// Ends a task in `state` by the attempt `record`.
    pub(crate) fn end(&mut self, task: Ending, record: &AttemptRecord, state: TaskState) {
        self.record(task.task, task.lane, record, Some(state));
        if task.gate != 0 {
            self.released.0.push(task.gate);
            self.released.1.push(task.task);
        }
        if task.key {
            self.keyed.push(task.task);
        }
        let end = End { at: record.ended.as_micros(), task: task.task };
        match state {
            TaskState::Failed => self.failed.push(end),
            TaskState::Waiting
            | TaskState::Parked
            | TaskState::Running
            | TaskState::Succeeded
            | TaskState::Cancelled
            | TaskState::Expired => self.ended.push(end),
        }
    }

    /// Ends the attempt `record` of a task that waits again.
    pub(crate) fn again(&mut self, held: &Held, record: &AttemptRecord, again: Again) {
        self.record(held.task, held.lane.cast_signed(), record, None);
        self.wait(held, again);
    }

    /// Puts a task that was held back among the waiting ones.
    pub(crate) fn wait(&mut self, held: &Held, again: Again) {
        let Again { due, n, spent, losses } = again;
        let counts = [n, spent, losses].map(u32::cast_signed);
        self.waits.add(held.task, due, held.lane.cast_signed(), class(held.level, losses), counts);
    }

    fn record(&mut self, task: i64, lane: i32, record: &AttemptRecord, end: Option<TaskState>) {
        let records = &mut self.records;
        records.tasks.push(task);
        records.ns.push(record.n.cast_signed());
        records.workers.push(record.worker);
        records.started.push(record.started.as_micros());
        records.ended.push(record.ended.as_micros());
        records.outcomes.push(record.outcome.code());
        records.finals.push(end.map(Code::code));
        records.lanes.push(lane);
        records.outs.push(record.out.to_vec());
    }

    /// What writes all of it.
    pub(crate) fn flush(self) -> Vec<Step> {
        let mut steps = Vec::new();
        if !self.records.tasks.is_empty() {
            steps.push(self.records.flush());
        }
        steps.extend(ready::add(&self.waits));
        let (gates, tasks) = self.released;
        if !tasks.is_empty() {
            let woken: BTreeSet<i64> = gates.iter().copied().collect();
            steps.push(step!(RELEASE, gates, tasks));
            steps.push(step!(WAKE, woken.into_iter().collect::<Vec<i64>>()));
        }
        if !self.keyed.is_empty() {
            steps.push(keys::ended(self.keyed));
        }
        let (mut kinds, mut ats, mut packed) = (Vec::new(), Vec::new(), Vec::new());
        for (kind, mut ends) in [(KIND_ENDED, self.ended), (KIND_FAILED, self.failed)] {
            ends.sort_unstable();
            for part in ends.chunks(ENDED_TASKS_MAX) {
                kinds.push(kind);
                ats.push(part.first().map_or(0, |end| end.at));
                packed.push(pack_ends(part));
            }
        }
        if !kinds.is_empty() {
            steps.push(step!(ADD_ENDED, kinds, ats, packed));
        }
        steps
    }
}

impl Records {
    fn flush(self) -> Step {
        let Records { tasks, ns, workers, started, ended, outcomes, finals, lanes, outs } = self;
        let sql = if ns.contains(&0) { REPLACE } else { ADD };
        step!(sql, tasks, ns, workers, started, ended, outcomes, finals, lanes, outs)
    }
}
