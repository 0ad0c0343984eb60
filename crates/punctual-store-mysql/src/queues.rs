//! Queues as an operator sees them.

use crate::answers::cell;
use crate::cancels::CLAIMS;
use crate::connection::Session;
use crate::errors::Done;
use crate::names;
use crate::script::Script;
use bytes::Bytes;
use punctual_clock::Timestamp;
use punctual_task::QueueView;
use punctual_task::rows::unpack_held;
use std::collections::BTreeMap;

const PAUSE: &str = "UPDATE punctual_queue SET paused = ? WHERE id = ?";
const LIST: &str = "SELECT id, name, paused FROM punctual_queue ORDER BY name";
const LANES: &str = "SELECT id, queue FROM punctual_lane";
/// One pass over the waiting tasks, in the order in which they lie.
pub(crate) const COUNTS: &str = "SELECT lane, COUNT(*), SUM(due <= @now), MIN(due)
    FROM punctual_ready FORCE INDEX (PRIMARY) GROUP BY lane";

/// Pauses or resumes a queue. A queue that nobody named is not created by resuming it.
pub(crate) async fn pause(session: &mut Session, queue: &str, paused: bool, unsure: &mut Option<bool>) -> Done<bool> {
    session.begin(&Script::new()).await?;
    let id = match names::find_queue(session, queue).await? {
        Some(id) => id,
        None if paused => names::add_queue(session, queue).await?,
        None => {
            session.end().await?;
            return Ok(false);
        }
    };
    let changed = session.run(&Script::of(PAUSE, &[paused.into(), id.into()])).await?.set()?.affected == 1;
    let changed = changed || unsure.take().unwrap_or(false);
    *unsure = Some(changed);
    session.commit(Script::new()).await?;
    Ok(changed)
}

/// All queues, by name.
pub(crate) async fn list(session: &mut Session) -> Done<Vec<QueueView>> {
    let mut first = Script::of(LIST, &[]);
    for text in [LANES, COUNTS, CLAIMS] {
        first.add(text, &[]);
    }
    let (moment, mut answers) = session.begin_reading(&first).await?;
    session.end().await?;
    let mut views: BTreeMap<u32, QueueView> = BTreeMap::new();
    let mut order = Vec::new();
    for row in answers.rows()? {
        let view =
            QueueView { name: cell(&row, 1)?, paused: cell(&row, 2)?, due: 0, later: 0, running: 0, oldest: None };
        order.push(cell(&row, 0)?);
        views.insert(cell(&row, 0)?, view);
    }
    let mut lanes: BTreeMap<u32, u32> = BTreeMap::new();
    for row in answers.rows()? {
        lanes.insert(cell(&row, 0)?, cell(&row, 1)?);
    }
    for row in answers.rows()? {
        let lane: u32 = cell(&row, 0)?;
        let Some(view) = lanes.get(&lane).and_then(|queue| views.get_mut(queue)) else { continue };
        let (all, due): (u64, u64) = (cell(&row, 1)?, cell(&row, 2)?);
        view.due += due;
        view.later += all.saturating_sub(due);
        let first = Timestamp::from_micros(cell(&row, 3)?);
        if first <= moment.now {
            view.oldest = Some(view.oldest.map_or(first, |oldest| oldest.min(first)));
        }
    }
    for row in answers.rows()? {
        let bytes: Bytes = cell(&row, 1)?;
        for held in unpack_held(&bytes)? {
            if let Some(view) = lanes.get(&held.lane).and_then(|queue| views.get_mut(queue)) {
                view.running += 1;
            }
        }
    }
    Ok(order.iter().filter_map(|id| views.remove(id)).collect())
}
