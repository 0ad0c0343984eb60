//! Rescues: workers whose lease has ended are marked dead in one short commit, and only then do their tasks wait again, a
//! commit a chunk. Whoever comes next goes on where a rescuer was stopped.

use crate::answers::cell;
use crate::attempts::numbers;
use crate::connection::Session;
use crate::ends::{Again, Ending, Ends};
use crate::errors::Done;
use crate::holdings;
use crate::moment::Moment;
use crate::script::{Script, Value};
use crate::workers::{SHARE, check_alive, forget};
use mysql_async::Row;
use punctual_clock::Timestamp;
use punctual_task::decide::decide_loss;
use punctual_task::{AttemptRecord, Rescue, TaskState, WorkerId};
use std::collections::{BTreeMap, BTreeSet};

/// How many dead workers one rescue takes care of; the next one goes on.
const RESCUE_WORKERS_MAX: u32 = 100;
/// How many rows of claims go back in one commit.
const CHUNK: u32 = 8;
/// How many chunks one rescue takes care of; the next one goes on.
pub(crate) const CHUNKS_MAX: u32 = 10_000;

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
/// Rescuers share the work: what one of them has, the others leave.
const LOCK_CLAIMS_FREE: &str = "SELECT id, at, tasks, worker FROM punctual_claim FORCE INDEX (PRIMARY)
    WHERE id IN (?) ORDER BY id FOR UPDATE SKIP LOCKED";
/// Where none is free they are waited for: the late finish of a dead worker holds its claims until it is refused, and would
/// otherwise put its tasks off to the next rescue.
const LOCK_CLAIMS: &str = "SELECT id, at, tasks, worker FROM punctual_claim FORCE INDEX (PRIMARY)
    WHERE id IN (?) ORDER BY id FOR UPDATE";
const NAMES: &str = "SELECT name FROM punctual_schedule FORCE INDEX (PRIMARY) WHERE id IN (?) ORDER BY name";
const ASKED_OF: &str = "SELECT task FROM punctual_cancel FORCE INDEX (punctual_cancel_worker) WHERE worker IN (?)";

/// Takes back one chunk of what dead workers held; `None` if nothing is left. Unless it is to `wait`, what others have locked
/// is left to the next rescue.
pub(crate) async fn take_back(session: &mut Session, by: WorkerId, wait: bool) -> Done<Option<Rescue>> {
    let mut first = Script::of(SHARE, &[by.0.into()]);
    first.add(ORPHANS, &[CHUNK.into()]);
    let (moment, mut answers) = session.begin(&first).await?;
    check_alive(&answers.rows()?, by)?;
    let places: Vec<i64> = numbers(&answers.rows()?)?.into_iter().collect();
    let mut rows = lock_claims(session, LOCK_CLAIMS_FREE, &places).await?;
    if rows.is_empty() && wait {
        rows = lock_claims(session, LOCK_CLAIMS, &places).await?;
    }
    let mut script = Script::new();
    if rows.is_empty() && (places.is_empty() || !wait) {
        forget(&mut script, moment.now);
        session.commit(script).await?;
        return Ok(None);
    }
    // Those that were waited for may have gone: others are looked for.
    let mut rescue = Rescue::default();
    requeue(session, rows, moment, &mut script, &mut rescue).await?;
    session.commit(script).await?;
    Ok(Some(rescue))
}

async fn lock_claims(session: &mut Session, statement: &'static str, places: &[i64]) -> Done<Vec<Row>> {
    let mut lock = Script::new();
    let parts = lock.parts(statement, places);
    session.run(&lock).await?.rows_of(parts)
}

/// Marks workers dead whose lease has ended, and gives how many. Unless it is to `wait`, workers whose rows are locked are left
/// to the next rescue.
pub(crate) async fn bury(session: &mut Session, by: WorkerId, wait: bool) -> Done<u32> {
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
    let mut failing = BTreeSet::new();
    for (worker, rows) in by_worker {
        let mut holding = holdings::unpack(&rows, worker)?;
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
                    failing.extend((held.gate != 0).then_some(held.gate));
                }
                Some(losses) => {
                    ends.again(&held, record, Again { due: moment.now, n: held.n, spent: held.spent, losses });
                    rescue.requeued += 1;
                }
            }
        }
        holdings::write(&mut holding, script);
    }
    if !failing.is_empty() {
        let gates: Vec<i64> = failing.into_iter().collect();
        for row in session.run(&Script::of(NAMES, &[gates.as_slice().into()])).await?.rows()? {
            rescue.failing.push(cell(&row, 0)?);
        }
    }
    ends.write(script);
    Ok(())
}
