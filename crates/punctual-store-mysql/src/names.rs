//! Names stored once: queues, methods, and the lanes that pair them.
//!
//! What is known stays in memory, since names are only ever added. A lane that a transaction adds is known to others when
//! it is committed.

use crate::answers::cell;
use crate::connection::Session;
use crate::errors::{Done, Fault};
use crate::script::Script;
use punctual_task::StoreError;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many lanes a database may have: all are kept in memory (about 300 bytes each), and a claim looks at the head of each
/// lane that it is for.
pub(crate) const LANES_MAX: usize = 100_000;

/// A pair of queue and method.
#[derive(Debug, Clone)]
pub(crate) struct Lane {
    pub(crate) queue: u32,
    pub(crate) queue_name: Arc<str>,
    pub(crate) method: u32,
    pub(crate) method_name: Arc<str>,
}

/// The lanes known so far.
#[derive(Debug, Default)]
pub(crate) struct Names {
    lanes: BTreeMap<u32, Lane>,
    ids: BTreeMap<(Arc<str>, Arc<str>), u32>,
}

const BY_NAME: &str = "SELECT l.id, l.queue, l.method FROM punctual_queue q STRAIGHT_JOIN punctual_method m
    STRAIGHT_JOIN punctual_lane l ON l.queue = q.id AND l.method = m.id WHERE q.name = ? AND m.name = ?";
const BY_ID: &str = "SELECT l.id, l.queue, l.method, q.name, m.name FROM punctual_lane l
    STRAIGHT_JOIN punctual_queue q ON q.id = l.queue STRAIGHT_JOIN punctual_method m ON m.id = l.method WHERE l.id IN (?)";
const FIND_QUEUE: &str = "SELECT id FROM punctual_queue WHERE name = ?";
const FIND_METHOD: &str = "SELECT id FROM punctual_method WHERE name = ?";
/// A row that another transaction has just added gives its number all the same.
const ADD_QUEUE: &str = "INSERT INTO punctual_queue (name) VALUES (?) ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id)";
const ADD_METHOD: &str =
    "INSERT INTO punctual_method (name) VALUES (?) ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id)";
const ADD_LANE: &str =
    "INSERT INTO punctual_lane (queue, method) VALUES (?, ?) ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id)";
const COUNT: &str = "SELECT COUNT(*) FROM punctual_lane";

impl Names {
    /// Remembers lanes that are committed.
    pub(crate) fn learn(&mut self, lanes: impl IntoIterator<Item = (u32, Lane)>) {
        for (id, lane) in lanes {
            self.ids.insert((lane.queue_name.clone(), lane.method_name.clone()), id);
            self.lanes.insert(id, lane);
        }
    }

    /// The number of a lane, if it is known.
    pub(crate) fn find(&self, queue: &str, method: &str) -> Option<u32> {
        self.ids.get(&(Arc::from(queue), Arc::from(method))).copied()
    }

    /// What a lane pairs, if it is known.
    pub(crate) fn pair(&self, lane: u32) -> Option<Lane> {
        self.lanes.get(&lane).cloned()
    }
}

/// The number of a lane, which is stored with this transaction if it is new.
pub(crate) async fn lane(session: &mut Session, queue: &str, method: &str) -> Done<u32> {
    let known = session.shared.names().find(queue, method);
    if let Some(known) = known {
        return Ok(known);
    }
    let mine = |(_, lane): &&(u32, Lane)| *lane.queue_name == *queue && *lane.method_name == *method;
    if let Some((id, _)) = session.fresh.iter().find(mine) {
        return Ok(*id);
    }
    let rows = session.run(&Script::of(BY_NAME, &[queue.into(), method.into()])).await?.rows()?;
    let (id, queue_id, method_id) = match rows.first() {
        Some(row) => (cell(row, 0)?, cell(row, 1)?, cell(row, 2)?),
        None => add_lane(session, queue, method).await?,
    };
    let lane =
        Lane { queue: queue_id, queue_name: Arc::from(queue), method: method_id, method_name: Arc::from(method) };
    session.fresh.push((id, lane));
    Ok(id)
}

async fn add_lane(session: &mut Session, queue: &str, method: &str) -> Done<(u32, u32, u32)> {
    let mut script = Script::of(COUNT, &[]);
    script.add(ADD_QUEUE, &[queue.into()]);
    script.add(ADD_METHOD, &[method.into()]);
    let mut answers = session.run(&script).await?;
    let rows = answers.rows()?;
    let count: usize = rows.first().map_or(Ok(0), |row| cell(row, 0))?;
    if count >= LANES_MAX {
        return Err(Fault::Store(StoreError::refused(format!(
            "the database has {LANES_MAX} pairs of queue and method, which is the limit; use fewer queues"
        ))));
    }
    let number = |drawn: u64| u32::try_from(drawn).map_err(|_| Fault::corrupt(format!("the number {drawn} of a name")));
    let (queue, method) = (number(answers.set()?.drawn)?, number(answers.set()?.drawn)?);
    let lane = session.run(&Script::of(ADD_LANE, &[queue.into(), method.into()])).await?.set()?.drawn;
    Ok((number(lane)?, queue, method))
}

/// The number of a queue, which is stored with this transaction if it is new.
pub(crate) async fn add_queue(session: &mut Session, name: &str) -> Done<u32> {
    let drawn = session.run(&Script::of(ADD_QUEUE, &[name.into()])).await?.set()?.drawn;
    u32::try_from(drawn).map_err(|_| Fault::corrupt(format!("the number {drawn} of a queue")))
}

/// A queue's number, if it was ever named.
pub(crate) async fn find_queue(session: &mut Session, name: &str) -> Done<Option<u32>> {
    let rows = session.run(&Script::of(FIND_QUEUE, &[name.into()])).await?.rows()?;
    rows.first().map(|row| cell(row, 0)).transpose()
}

/// A method's number, if it was ever named.
pub(crate) async fn find_method(session: &mut Session, name: &str) -> Done<Option<u32>> {
    let rows = session.run(&Script::of(FIND_METHOD, &[name.into()])).await?.rows()?;
    rows.first().map(|row| cell(row, 0)).transpose()
}

/// What these lanes pair.
pub(crate) async fn pairs(session: &mut Session, lanes: impl IntoIterator<Item = u32>) -> Done<BTreeMap<u32, Lane>> {
    let mut found = BTreeMap::new();
    let mut missing = Vec::new();
    {
        let names = session.shared.names();
        for lane in lanes {
            match names.pair(lane).or_else(|| session.fresh.iter().find(|(id, _)| *id == lane).map(|(_, l)| l.clone()))
            {
                Some(pair) => drop(found.insert(lane, pair)),
                None => missing.push(i64::from(lane)),
            }
        }
    }
    if missing.is_empty() {
        return Ok(found);
    }
    let rows = session.run(&Script::of(BY_ID, &[missing.as_slice().into()])).await?.rows()?;
    let mut read = Vec::with_capacity(rows.len());
    for row in &rows {
        let (queue_name, method_name) = (cell::<String>(row, 3)?, cell::<String>(row, 4)?);
        let lane = Lane {
            queue: cell(row, 1)?,
            queue_name: Arc::from(queue_name),
            method: cell(row, 2)?,
            method_name: Arc::from(method_name),
        };
        read.push((cell(row, 0)?, lane));
    }
    found.extend(read.iter().cloned());
    // They name committed rows, or this very transaction's.
    let fresh: Vec<u32> = session.fresh.iter().map(|(id, _)| *id).collect();
    session.shared.names().learn(read.into_iter().filter(|(id, _)| !fresh.contains(id)));
    missing.retain(|lane| u32::try_from(*lane).is_ok_and(|lane| !found.contains_key(&lane)));
    match missing.first() {
        Some(lane) => Err(Fault::corrupt(format!("a row names lane {lane}, which is not there"))),
        None => Ok(found),
    }
}
