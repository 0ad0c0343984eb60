//! Retention: ended tasks that are old enough go, oldest first, in small batches.

use crate::ends::{KIND_ENDED, KIND_FAILED};
use crate::errors::Done;
use crate::keys;
use crate::progress;
use crate::session::{Session, Step, step};
use crate::workers;
use punctual_clock::Timestamp;
use punctual_task::rows::{End, pack_ends, unpack_ends};
use punctual_task::{Pruned, Retention};
use std::collections::BTreeMap;
use std::time::Duration;

/// How many tasks one pruning removes at most.
pub const PRUNE_MAX: u32 = 5_000;
/// How many ends one pruning looks at beyond those that it removes: tasks that were made to wait again, and occurrences
/// whose slot the cursor has not passed.
const PASSED_OVER_MAX: usize = 10_000;
/// How many rows of ends are looked at in one go.
const ROWS_MAX: i64 = 20;
/// How many rows of losses and of keys one pruning removes.
const SIDE_ROWS_MAX: i64 = 1_000;

/// Two that prune at once take different rows.
pub(crate) const OLDEST: &str = "SELECT id, at, tasks FROM ended
    WHERE kind = $1 AND at <= $2 AND (at, id) > ($3, $4) ORDER BY at, id LIMIT $5 FOR UPDATE SKIP LOCKED";
const SHRINK: &str = "UPDATE ended SET at = $2, tasks = $3 WHERE id = $1";
const DELETE: &str = "DELETE FROM ended WHERE id = ANY($1)";
/// The ends that still hold, locked against a redrive, and whether a sweep would create the slot again if the task were gone.
pub(crate) const ENDS: &str = "SELECT a.task, a.ended, coalesce(p.era = t.era AND p.cursor_at <= t.at, false)
    FROM unnest($1::bigint[]) u (task) JOIN attempt a ON a.task = u.task
    LEFT JOIN task t ON t.id = a.task AND t.slot IS NOT NULL LEFT JOIN position p ON p.id = t.schedule
    WHERE a.final IS NOT NULL ORDER BY a.task FOR UPDATE OF a";
const DELETE_ATTEMPTS: &str = "DELETE FROM attempt WHERE task = ANY($1)";
const DELETE_BODIES: &str = "DELETE FROM task_body WHERE id = ANY($1)";
/// A backfill cannot tell any more that there was a task.
const DELETE_TASKS: &str = "WITH gone AS (DELETE FROM task WHERE id = ANY($1) RETURNING schedule, slot, at),
    f AS MATERIALIZED (SELECT p.id, m.known FROM
        (SELECT schedule, max(at) + 1 AS known FROM gone WHERE slot IS NOT NULL GROUP BY schedule) m
        JOIN position p ON p.id = m.schedule WHERE p.known_from IS NULL OR p.known_from < m.known
        ORDER BY p.id FOR UPDATE OF p)
    UPDATE position p SET known_from = f.known FROM f WHERE p.id = f.id
        AND (p.known_from IS NULL OR p.known_from < f.known)";
pub(crate) const DELETE_LOSSES: &str = "DELETE FROM missed WHERE id IN
    (SELECT id FROM missed WHERE to_at <= $1 ORDER BY to_at LIMIT $2 FOR UPDATE SKIP LOCKED)";

/// Removes what is old enough.
pub(crate) async fn prune(session: &mut Session, retention: Retention, limit: u32) -> Done<Pruned> {
    session.ask(Vec::new()).await?;
    let now = session.now()?;
    let limit = usize::try_from(limit.min(PRUNE_MAX)).unwrap_or(usize::MAX);
    let mut work = Work { left: limit, passed_over: 0, gone: Vec::new(), empty: Vec::new(), steps: Vec::new() };
    for (kind, keep) in [(KIND_ENDED, retention.ended), (KIND_FAILED, retention.failed)] {
        let Some(keep) = keep else { continue };
        work.kind(session, kind, before(now, keep)).await?;
    }
    let pruned = limit - work.left;
    let mut steps = work.flush();
    if let Some(keep) = retention.ended {
        steps.push(step!(DELETE_LOSSES, before(now, keep).as_micros(), SIDE_ROWS_MAX));
    }
    steps.push(keys::prune(SIDE_ROWS_MAX));
    steps.push(workers::forget(now));
    session.commit(steps).await?;
    Ok(Pruned { tasks: u32::try_from(pruned).unwrap_or(u32::MAX), more: pruned > 0 && pruned >= limit })
}

/// The latest end that is old enough. A retention of nothing keeps nothing, also of what a worker's clock ended after now.
fn before(now: Timestamp, keep: Duration) -> Timestamp {
    if keep.is_zero() { Timestamp::MAX } else { now.before(keep) }
}

/// One pruning.
struct Work {
    left: usize,
    passed_over: usize,
    /// Tasks that go.
    gone: Vec<i64>,
    /// Rows of ends that go.
    empty: Vec<i64>,
    steps: Vec<Step>,
}

impl Work {
    async fn kind(&mut self, session: &mut Session, kind: i16, until: Timestamp) -> Done<()> {
        let mut after = (i64::MIN, i64::MIN);
        while self.left > 0 && self.passed_over < PASSED_OVER_MAX {
            let rows = session.rows(step!(OLDEST, kind, until.as_micros(), after.0, after.1, ROWS_MAX)).await?;
            let mut packed = Vec::with_capacity(rows.len());
            for row in &rows {
                let id: i64 = row.try_get(0)?;
                after = (row.try_get(1)?, id);
                packed.push((id, unpack_ends(row.try_get(2)?)?));
            }
            if packed.is_empty() {
                break;
            }
            let tasks: Vec<i64> = packed.iter().flat_map(|(_, ends)| ends.iter().map(|end| end.task)).collect();
            let mut hold = BTreeMap::new();
            for row in session.rows(step!(ENDS, tasks)).await? {
                hold.insert(row.try_get::<_, i64>(0)?, (row.try_get::<_, i64>(1)?, row.try_get::<_, bool>(2)?));
            }
            for (id, ends) in packed {
                self.row(id, &ends, until, &mut hold);
            }
        }
        Ok(())
    }

    /// What becomes of the tasks of one row of ends, and of the row.
    fn row(&mut self, id: i64, ends: &[End], until: Timestamp, hold: &mut BTreeMap<i64, (i64, bool)>) {
        let mut kept = Vec::new();
        for end in ends {
            if end.at > until.as_micros() || self.left == 0 {
                kept.push(*end);
                continue;
            }
            match hold.get(&end.task) {
                Some((ended, guards)) if *ended == end.at => {
                    if *guards {
                        self.passed_over += 1;
                        kept.push(*end);
                    } else {
                        hold.remove(&end.task);
                        self.gone.push(end.task);
                        self.left -= 1;
                    }
                }
                // It waits or runs again, or has ended anew: then another row has it.
                _ => self.passed_over += 1,
            }
        }
        match kept.first() {
            None => self.empty.push(id),
            Some(_) if kept.len() == ends.len() => {}
            Some(first) => self.steps.push(step!(SHRINK, id, first.at, pack_ends(&kept))),
        }
    }

    fn flush(mut self) -> Vec<Step> {
        if !self.empty.is_empty() {
            self.steps.push(step!(DELETE, self.empty));
        }
        if !self.gone.is_empty() {
            self.steps.push(step!(DELETE_ATTEMPTS, self.gone.clone()));
            self.steps.push(step!(DELETE_BODIES, self.gone.clone()));
            self.steps.push(progress::forget(self.gone.clone()));
            self.steps.push(step!(DELETE_TASKS, self.gone));
        }
        self.steps
    }
}
