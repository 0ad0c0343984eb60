//! Rescues: workers whose lease has ended are marked dead in one short commit, and only then do their tasks wait again, a
//! commit a chunk. Whoever comes next goes on where a rescuer was stopped.

use crate::answers::cell;
use crate::attempts::numbers;
use crate::connection::Session;
use crate::ends::{Again, Ending, Ends};
use crate::errors::Done;
use crate::holdings::Holding;
use crate::moment::Moment;
use crate::script::{Script, Value};
use crate::workers::{SHARE, check_alive, forget};
use mysql_async::Row;
use punctual_clock::Timestamp;
use punctual_task::decide::decide_loss;
use punctual_task::{AttemptRecord, Rescue, TaskState, WorkerId};
use std::collections::BTreeMap;

/// How many dead workers one rescue takes care of; the next one goes on.
const RESCUE_WORKERS_MAX: u32 = 100;
/// How many rows of claims go back in one commit.
const CHUNK: u32 = 8;
/// How many chunks one rescue takes care of; the next one goes on.
const CHUNKS_MAX: u32 = 10_000;

pub(crate) const LAPSED: &str =
    "SELECT worker FROM punctual_lease WHERE ends <= ? AND worker <> ? ORDER BY worker LIMIT ?";
/// What a worker is claiming or finishing at this moment comes first.
const LOCK: &str = "SELECT id FROM punctual_worker FORCE INDEX (PRIMARY) WHERE id IN (?) AND state = 0
    ORDER BY id FOR UPDATE";
/// A worker that was stopped in the middle of a transaction keeps its row locked: others need not wait for it.
const LOCK_FREE: &str = "SELECT id FROM punctual_worker FORCE INDEX (PRIMARY) WHERE id IN (?) AND state = 0
    ORDER BY id FOR UPDATE SKIP LOCKED";
const LOCK_LEASES: &str = "SELECT worker, ends FROM punctual_lease FORCE INDEX (PRIMARY) WHERE worker IN (?)
    ORDER BY worker FOR UPDATE";
const BURY: &str = "UPDATE punctual_worker SET state = 1, seen = ?, ended = ? WHERE id = ?";
const END_LEASE: &str = "DELETE FROM punctual_lease WHERE worker = ?";
pub(crate) const ORPHANS: &str = "SELECT c.id FROM punctual_worker w FORCE INDEX (punctual_worker_state)
    STRAIGHT_JOIN punctual_claim c FORCE INDEX (punctual_claim_worker) ON c.worker = w.id WHERE w.state = 1 LIMIT ?";
const LOCK_CLAIMS: &str = "SELECT id, at, tasks, worker FROM punctual_claim FORCE INDEX (PRIMARY)
    WHERE id IN (?) ORDER BY id FOR UPDATE SKIP LOCKED";
const ASKED_OF: &str = "SELECT task FROM punctual_cancel FORCE INDEX (punctual_cancel_worker) WHERE worker IN (?)";

/// Marks workers dead whose lease has ended, and takes their tasks back. Unless it is to `wait`, workers whose rows are locked
/// are left to the next rescue.
pub(crate) async fn rescue(session: &mut Session, by: WorkerId, wait: bool) -> Done<Rescue> {
    let mut rescue = Rescue { workers: bury(session, by, wait).await?, ..Rescue::default() };
    for _ in 0..CHUNKS_MAX {
        let mut first = Script::of(SHARE, &[by.0.into()]);
        first.add(ORPHANS, &[CHUNK.into()]);
        let (moment, mut answers) = session.begin(&first).await?;
        check_alive(&answers.rows()?, by)?;
        let places: Vec<i64> = numbers(&answers.rows()?)?.into_iter().collect();
        let mut lock = Script::new();
        let parts = lock.parts(LOCK_CLAIMS, &places);
        let rows = session.run(&lock).await?.rows_of(parts)?;
        let mut script = Script::new();
        if rows.is_empty() {
            // None is left, or other rescuers have them.
            forget(&mut script, moment.now);
            session.commit(script).await?;
            break;
        }
        requeue(session, rows, moment, &mut script, &mut rescue).await?;
        session.commit(script).await?;
    }
    Ok(rescue)
}

async fn bury(session: &mut Session, by: WorkerId, wait: bool) -> Done<u32> {
    let mut first = Script::of(SHARE, &[by.0.into()]);
    let ended = session.shared.time.monotonic().map_or(Value::Now, Value::Int);
    first.add(LAPSED, &[ended, by.0.into(), RESCUE_WORKERS_MAX.into()]);
    let (moment, mut answers) = session.begin(&first).await?;
    check_alive(&answers.rows()?, by)?;
    let lapsed: Vec<i64> = numbers(&answers.rows()?)?.into_iter().collect();
    let mut lock = Script::new();
    let parts = lock.parts(if wait { LOCK } else { LOCK_FREE }, &lapsed);
    let locked: Vec<i64> = numbers(&session.run(&lock).await?.rows_of(parts)?)?.into_iter().collect();
    let mut lock = Script::new();
    let parts = lock.parts(LOCK_LEASES, &locked);
    let mut script = Script::new();
    let mut dead = 0;
    for row in session.run(&lock).await?.rows_of(parts)? {
        let (worker, ends): (i64, i64) = (cell(&row, 0)?, cell(&row, 1)?);
        // It may have renewed while its row was waited for.
        if ends <= moment.lease {
            script.add(BURY, &[moment.now.as_micros().into(), ends.into(), worker.into()]);
            script.add(END_LEASE, &[worker.into()]);
            dead += 1;
        }
    }
    if dead == 0 {
        session.end().await?;
    } else {
        session.commit(script).await?;
    }
    Ok(dead)
}

async fn requeue(
    session: &mut Session,
    rows: Vec<Row>,
    moment: Moment,
    script: &mut Script,
    rescue: &mut Rescue,
) -> Done<()> {
    let mut by_worker: BTreeMap<i64, Vec<Row>> = BTreeMap::new();
    for row in rows {
        by_worker.entry(cell(&row, 3)?).or_default().push(row);
    }
    let workers: Vec<i64> = by_worker.keys().copied().collect();
    let asked = numbers(&session.run(&Script::of(ASKED_OF, &[workers.as_slice().into()])).await?.rows()?)?;
    let mut ends = Ends::new(moment.now);
    for (worker, rows) in by_worker {
        let mut holding = Holding::from_rows(&rows)?;
        let lost: Vec<(Timestamp, punctual_task::rows::Held)> = holding.tasks().map(|(at, held)| (at, *held)).collect();
        for (claimed, held) in lost {
            holding.take(held.task);
            let record = AttemptRecord::lost(held.n, WorkerId(worker), claimed, moment.now);
            match decide_loss(held.losses) {
                _ if asked.contains(&held.task) => {
                    ends.answered(held.task);
                    ends.end(Ending::from(&held), record, TaskState::Cancelled);
                }
                None => {
                    ends.end(Ending::from(&held), record, TaskState::Failed);
                    rescue.failed += 1;
                }
                Some(losses) => {
                    ends.again(&held, record, Again { due: moment.now, n: held.n, spent: held.spent, losses });
                    rescue.requeued += 1;
                }
            }
        }
        holding.write(script);
    }
    ends.write(script);
    Ok(())
}
