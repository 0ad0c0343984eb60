//! Queues as an operator sees them.

use crate::errors::Done;
use crate::holdings;
use crate::session::{Session, step};
use punctual_clock::Timestamp;
use punctual_task::QueueView;
use std::collections::BTreeMap;

/// A queue that nobody named is not created by resuming it.
const PAUSE: &str = "INSERT INTO queue (name, paused, listed) VALUES ($1, true, true)
    ON CONFLICT (name) DO UPDATE SET paused = true, listed = true WHERE NOT queue.paused RETURNING 1";
const RESUME: &str = "UPDATE queue SET paused = false WHERE name = $1 AND paused RETURNING 1";
const LIST: &str = "SELECT id, name, paused FROM queue WHERE listed ORDER BY name";
const LANES: &str = "SELECT id, queue FROM lane";
/// One pass over the waiting tasks, in the order of the claim.
pub(crate) const COUNTS: &str =
    "SELECT lane, count(*), count(*) FILTER (WHERE due <= $1), min(due) FROM ready GROUP BY lane";

/// Pauses or resumes a queue.
pub(crate) async fn pause(session: &mut Session, queue: &str, paused: bool) -> Done<bool> {
    let sql = if paused { PAUSE } else { RESUME };
    let answers = session.commit(vec![step!(sql, queue.to_owned())]).await?;
    Ok(answers.first().is_some_and(|rows| !rows.is_empty()))
}

/// All queues, by name.
pub(crate) async fn list(session: &mut Session) -> Done<Vec<QueueView>> {
    let answers = session.ask(vec![step!(LIST), step!(LANES)]).await?;
    let now = session.now()?;
    let (mut order, mut views, mut lanes) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
    for row in answers.first().into_iter().flatten() {
        let id: i32 = row.try_get(0)?;
        let view =
            QueueView { name: row.try_get(1)?, paused: row.try_get(2)?, due: 0, later: 0, running: 0, oldest: None };
        order.push(id);
        views.insert(id, view);
    }
    for row in answers.get(1).into_iter().flatten() {
        lanes.insert(row.try_get::<_, i32>(0)?, row.try_get::<_, i32>(1)?);
    }
    for row in session.rows(step!(COUNTS, now.as_micros())).await? {
        let lane: i32 = row.try_get(0)?;
        let Some(view) = lanes.get(&lane).and_then(|queue| views.get_mut(queue)) else { continue };
        let (all, due): (i64, i64) = (row.try_get(1)?, row.try_get(2)?);
        view.due += due.unsigned_abs();
        view.later += all.saturating_sub(due).unsigned_abs();
        let first = Timestamp::from_micros(row.try_get(3)?);
        if first <= now {
            view.oldest = Some(view.oldest.map_or(first, |oldest| oldest.min(first)));
        }
    }
    for held in holdings::running(session).await?.values() {
        if let Some(view) = lanes.get(&held.lane.cast_signed()).and_then(|queue| views.get_mut(queue)) {
            view.running += 1;
        }
    }
    Ok(order.iter().filter_map(|id| views.remove(id)).collect())
}
