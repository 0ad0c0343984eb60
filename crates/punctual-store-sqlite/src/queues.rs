//! Queues as an operator sees them.

use crate::connection::Db;
use crate::errors::Done;
use crate::session::Session;
use punctual_clock::Timestamp;
use punctual_task::QueueView;
use punctual_task::rows::unpack_held;
use rusqlite::params;
use std::collections::BTreeMap;

const PAUSE: &str = "UPDATE queue SET paused = ?2 WHERE id = ?1 AND paused <> ?2";
const LIST: &str = "SELECT id, name, paused FROM queue ORDER BY name";
const LANES: &str = "SELECT id, queue FROM lane";
/// One pass over the waiting tasks, in the order in which they lie.
pub(crate) const COUNTS: &str = "SELECT lane, count(*), sum(due <= ?1), min(due) FROM ready GROUP BY lane";
const CLAIMS: &str = "SELECT tasks FROM claim";

/// Pauses or resumes a queue. A queue that nobody named is not created by resuming it.
pub(crate) fn pause(session: &mut Session, queue: &str, paused: bool) -> Done<bool> {
    let Session { db, names, .. } = session;
    let id = match names.find_queue(queue) {
        Some(id) => id,
        None if paused => names.queue(db, queue)?,
        None => return Ok(false),
    };
    Ok(db.sql(PAUSE)?.execute(params![id, paused])? == 1)
}

/// All queues, by name.
pub(crate) fn list(db: &Db, now: Timestamp) -> Done<Vec<QueueView>> {
    let mut views: BTreeMap<i64, QueueView> = BTreeMap::new();
    let mut order = Vec::new();
    {
        let mut statement = db.sql(LIST)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let view = QueueView { name: row.get(1)?, paused: row.get(2)?, due: 0, later: 0, running: 0, oldest: None };
            order.push(row.get(0)?);
            views.insert(row.get(0)?, view);
        }
    }
    let lanes: BTreeMap<u32, i64> =
        db.sql(LANES)?.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
    {
        let mut statement = db.sql(COUNTS)?;
        let mut rows = statement.query(params![now.as_micros()])?;
        while let Some(row) = rows.next()? {
            let lane: u32 = row.get(0)?;
            let Some(view) = lanes.get(&lane).and_then(|queue| views.get_mut(queue)) else { continue };
            let (all, due): (i64, i64) = (row.get(1)?, row.get(2)?);
            view.due += due.unsigned_abs();
            view.later += all.saturating_sub(due).unsigned_abs();
            let first = Timestamp::from_micros(row.get(3)?);
            if first <= now {
                view.oldest = Some(view.oldest.map_or(first, |oldest| oldest.min(first)));
            }
        }
    }
    let mut statement = db.sql(CLAIMS)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        for held in unpack_held(row.get_ref(0)?.as_blob()?)? {
            if let Some(view) = lanes.get(&held.lane).and_then(|queue| views.get_mut(queue)) {
                view.running += 1;
            }
        }
    }
    Ok(order.iter().filter_map(|id| views.remove(id)).collect())
}
