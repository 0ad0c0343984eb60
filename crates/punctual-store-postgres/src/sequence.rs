//! Task ids: numbers of a sequence, which gives each once without a lock that outlives the drawing.

use crate::errors::{Done, Fault};
use crate::session::{Session, step};
use punctual_task::IdBlock;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio_postgres::Row;

/// How many ids one draw gives.
pub const DRAW_MAX: u32 = 1_000_000;
/// How often a run without a gap is tried for: another process that draws in the same microseconds breaks it.
const TRIES_MAX: u32 = 50;

const RUN: &str = "SELECT min(v.id), max(v.id)
    FROM (SELECT nextval('task_id') AS id FROM generate_series(1, $1::bigint)) v";
const EACH: &str = "SELECT nextval('task_id') FROM generate_series(1, $1::bigint)";
/// The margin is for what others draw between the reading and the setting.
const PASS: &str =
    "SELECT CASE WHEN last_value <= $1 THEN setval('task_id', $1 + 100000) ELSE last_value END FROM task_id";

/// What is known of the sequence.
#[derive(Debug, Default)]
pub(crate) struct Sequence {
    /// No id up to this one will be drawn again.
    passed: AtomicI64,
}

impl Sequence {
    /// A run of ids. To be called between transactions.
    pub(crate) async fn draw(&self, session: &mut Session, count: u32) -> Done<IdBlock> {
        if count == 0 {
            return Ok(IdBlock::new(1, 0));
        }
        for _ in 0..TRIES_MAX {
            let rows = session.once(step!(RUN, i64::from(count))).await?;
            let row = rows.first().ok_or_else(|| Fault::bug("the sequence gave no id"))?;
            let (first, last): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
            self.passed.fetch_max(last, Ordering::Relaxed);
            if last - first == i64::from(count) - 1 {
                return Ok(IdBlock::new(first, count));
            }
        }
        Err(Fault::Again("the sequence of task ids"))
    }

    /// So many ids, ascending, not always in a run. May be called inside a transaction.
    pub(crate) async fn draw_each(&self, session: &mut Session, count: usize) -> Done<Vec<i64>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let rows = session.rows(step!(EACH, i64::try_from(count).unwrap_or(i64::MAX))).await?;
        let id = |row: Row| row.try_get::<_, i64>(0);
        let ids = rows.into_iter().map(id).collect::<Result<Vec<i64>, _>>()?;
        self.passed.fetch_max(ids.last().copied().unwrap_or(0), Ordering::Relaxed);
        Ok(ids)
    }

    /// Never draws `id`, nor one below it: it came from elsewhere (a restored export, a test).
    pub(crate) async fn pass(&self, session: &mut Session, id: i64) -> Done<()> {
        if id <= self.passed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let rows = session.single(step!(PASS, id)).await?;
        let passed = rows.first().map_or(Ok(id), |row| row.try_get(0))?;
        self.passed.fetch_max(passed, Ordering::Relaxed);
        Ok(())
    }
}
