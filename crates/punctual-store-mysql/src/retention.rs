//! Retention: ended tasks that are old enough go, oldest first, in small batches.

use crate::answers::cell;
use crate::connection::Session;
use crate::ends::{KIND_ENDED, KIND_FAILED};
use crate::errors::Done;
use crate::keys;
use crate::progress;
use crate::script::Script;
use crate::workers;
use bytes::Bytes;
use punctual_clock::Timestamp;
use punctual_task::rows::{End, pack_ends, unpack_ends};
use punctual_task::{Pruned, Retention};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How many tasks one pruning removes at most.
pub const PRUNE_MAX: u32 = 5_000;
/// How many ends one pruning looks at beyond those that it removes: tasks that were made to wait again, and occurrences
/// whose slot the cursor has not passed.
const PASSED_OVER_MAX: usize = 10_000;
/// How many rows of losses and of keys one pruning removes.
const SIDE_ROWS_MAX: u32 = 1_000;

/// What another pruning has locked is left to it.
pub(crate) const OLDEST: &str = "SELECT id, at, tasks FROM punctual_ended FORCE INDEX (punctual_ended_at)
    WHERE kind = ? AND at BETWEEN ? AND ? AND (at > ? OR id > ?) ORDER BY at, id LIMIT 1 FOR UPDATE SKIP LOCKED";
const SHRINK: &str = "UPDATE punctual_ended SET at = ?, tasks = ? WHERE id = ?";
const DELETE: &str = "DELETE FROM punctual_ended WHERE id = ?";
/// Locked: a redrive comes before or after the removal.
const ENDED_AT: &str = "SELECT task, ended FROM punctual_attempt FORCE INDEX (PRIMARY)
    WHERE task IN (?) AND final IS NOT NULL FOR UPDATE";
/// Occurrences with a slot, and whether a sweep would create the slot again if the task were not there.
pub(crate) const SLOTS: &str = "SELECT t.id, t.schedule, t.at, COALESCE(p.era = t.era AND p.cursor_at <= t.at, 0)
    FROM punctual_task t FORCE INDEX (PRIMARY)
    STRAIGHT_JOIN punctual_position p FORCE INDEX (PRIMARY) ON p.id = t.schedule
    WHERE t.id IN (?) AND t.slot IS NOT NULL";
/// A backfill cannot tell any more that there was a task.
const FORGET: &str = "UPDATE punctual_position SET known_from = GREATEST(COALESCE(known_from, ?), ?) WHERE id = ?";
const DELETE_ATTEMPTS: &str = "DELETE a FROM punctual_attempt a FORCE INDEX (PRIMARY) WHERE a.task IN (?)";
const DELETE_BODIES: &str = "DELETE b FROM punctual_task_body b FORCE INDEX (PRIMARY) WHERE b.id IN (?)";
const DELETE_TASKS: &str = "DELETE t FROM punctual_task t FORCE INDEX (PRIMARY) WHERE t.id IN (?)";
const DELETE_LOSSES: &str = "DELETE FROM punctual_missed WHERE to_at <= ? ORDER BY to_at LIMIT ?";

/// Removes what is old enough.
pub(crate) async fn prune(
    session: &mut Session,
    retention: Retention,
    limit: u32,
    unsure: &mut Option<Pruned>,
) -> Done<Pruned> {
    let (moment, _) = session.begin(&Script::new()).await?;
    let mut work =
        Work { limit: limit.min(PRUNE_MAX), doomed: Vec::new(), known_from: BTreeMap::new(), passed_over: 0 };
    let mut script = Script::new();
    for (kind, keep) in [(KIND_ENDED, retention.ended), (KIND_FAILED, retention.failed)] {
        let Some(keep) = keep else { continue };
        let until = before(moment.now, keep);
        let mut after = (i64::MIN, i64::MIN);
        while work.room() && work.passed_over < PASSED_OVER_MAX {
            let values = [kind.into(), after.0.into(), until.as_micros().into(), after.0.into(), after.1.into()];
            let rows = session.run(&Script::of(OLDEST, &values)).await?.rows()?;
            let Some(row) = rows.first() else { break };
            let (id, bytes): (i64, Bytes) = (cell(row, 0)?, cell(row, 2)?);
            after = (cell(row, 1)?, id);
            work.row(session, &mut script, id, &unpack_ends(&bytes)?, until).await?;
        }
    }
    for (schedule, at) in &work.known_from {
        script.add(FORGET, &[(*at).into(), (*at).into(), (*schedule).into()]);
    }
    script.parts(DELETE_ATTEMPTS, &work.doomed);
    script.parts(DELETE_BODIES, &work.doomed);
    script.parts(DELETE_TASKS, &work.doomed);
    progress::forget(&mut script, &work.doomed);
    let tasks = u32::try_from(work.doomed.len()).unwrap_or(u32::MAX);
    let mut pruned = Pruned { tasks, more: tasks > 0 && tasks >= work.limit };
    if let Some(keep) = retention.ended {
        script.add(DELETE_LOSSES, &[before(moment.now, keep).as_micros().into(), SIDE_ROWS_MAX.into()]);
    }
    keys::prune(&mut script, moment.now, SIDE_ROWS_MAX);
    workers::forget(&mut script, moment.now);
    if let Some(lost) = unsure.take().filter(|_| pruned.tasks == 0) {
        pruned = lost;
    }
    *unsure = Some(pruned);
    session.commit(script).await?;
    Ok(pruned)
}

/// The latest end that is old enough. A retention of nothing keeps nothing, also of what a worker's clock ended after now.
fn before(now: Timestamp, keep: Duration) -> Timestamp {
    if keep.is_zero() { Timestamp::MAX } else { now.before(keep) }
}

/// What one pruning has found so far.
struct Work {
    limit: u32,
    doomed: Vec<i64>,
    /// By schedule: what a backfill can tell of.
    known_from: BTreeMap<i64, i64>,
    passed_over: usize,
}

impl Work {
    fn room(&self) -> bool {
        self.doomed.len() < self.limit as usize
    }

    /// Dooms the tasks of one row of ends, and the row with the last of them.
    async fn row(
        &mut self,
        session: &mut Session,
        script: &mut Script,
        id: i64,
        ends: &[End],
        until: Timestamp,
    ) -> Done<()> {
        let tasks: Vec<i64> = ends.iter().filter(|end| end.at <= until.as_micros()).map(|end| end.task).collect();
        let mut read = Script::new();
        let parts = read.parts(ENDED_AT, &tasks);
        let slots = read.parts(SLOTS, &tasks);
        let mut answers = session.run(&read).await?;
        let mut ended: BTreeMap<i64, i64> = BTreeMap::new();
        for row in answers.rows_of(parts)? {
            ended.insert(cell(&row, 0)?, cell(&row, 1)?);
        }
        let mut guarded: BTreeSet<i64> = BTreeSet::new();
        let mut places: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
        for row in answers.rows_of(slots)? {
            let task = cell(&row, 0)?;
            if cell(&row, 3)? {
                guarded.insert(task);
            }
            places.insert(task, (cell(&row, 1)?, cell(&row, 2)?));
        }
        let mut kept = Vec::new();
        for end in ends {
            if end.at > until.as_micros() || !self.room() {
                kept.push(*end);
            } else if ended.get(&end.task) != Some(&end.at) {
                // It waits or runs again, or has ended anew: then another row has it.
                self.passed_over += 1;
            } else if guarded.contains(&end.task) {
                self.passed_over += 1;
                kept.push(*end);
            } else {
                self.doomed.push(end.task);
                if let Some((schedule, at)) = places.get(&end.task) {
                    let known = self.known_from.entry(*schedule).or_insert(i64::MIN);
                    *known = at.saturating_add(1).max(*known);
                }
                // Named by two rows of ends of the same instant it goes once.
                ended.remove(&end.task);
            }
        }
        match kept.first() {
            None => script.add(DELETE, &[id.into()]),
            Some(_) if kept.len() == ends.len() => {}
            Some(first) => {
                script.add(SHRINK, &[first.at.into(), pack_ends(&kept).as_slice().into(), id.into()]);
            }
        }
        Ok(())
    }
}
