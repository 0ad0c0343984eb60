//! Names stored once: queues, methods, and the lanes that pair them.
//!
//! New names are written in a transaction of their own before the one that uses them, so that no lock on a name is held for
//! longer than that, and what is known stays right for ever. A queue is listed once a task was written to it; until then its
//! row is only a number for its name.

use crate::errors::{Done, Fault};
use crate::session::{Session, Step, step};
use punctual_task::StoreError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// How many lanes a database may have: a claim on all queues looks at the head of each lane of its methods.
pub(crate) const LANES_MAX: i64 = 100_000;
/// How many lanes are kept in memory before all are forgotten and read again, about 300 bytes each.
const KNOWN_MAX: usize = 100_000;

/// Whether a name may be in the database at all: PostgreSQL stores no NUL, and asking for one would be an error.
pub(crate) fn may_exist(name: &str) -> bool {
    !name.contains('\0')
}

/// A pair of queue and method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lane {
    pub(crate) id: i32,
    pub(crate) queue: i32,
    pub(crate) method: i32,
}

/// The names known so far.
#[derive(Debug, Default)]
pub(crate) struct Names {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// By queue, then method.
    lanes: BTreeMap<String, BTreeMap<String, Lane>>,
    count: usize,
    /// Queues that are known to be listed.
    listed: BTreeSet<i32>,
}

const ADD_QUEUES: &str = "INSERT INTO queue (name) SELECT DISTINCT u.name FROM unnest($1::text[]) u (name)
    WHERE NOT EXISTS (SELECT 1 FROM queue q WHERE q.name = u.name) ORDER BY u.name ON CONFLICT DO NOTHING";
const ADD_METHODS: &str = "INSERT INTO method (name) SELECT DISTINCT u.name FROM unnest($1::text[]) u (name)
    WHERE NOT EXISTS (SELECT 1 FROM method m WHERE m.name = u.name) ORDER BY u.name ON CONFLICT DO NOTHING";
const ADD_LANES: &str = "INSERT INTO lane (queue, method) SELECT DISTINCT q.id, m.id
    FROM unnest($1::text[], $2::text[]) u (queue, method) JOIN queue q ON q.name = u.queue JOIN method m ON m.name = u.method
    WHERE NOT EXISTS (SELECT 1 FROM lane l WHERE l.queue = q.id AND l.method = m.id)
    ORDER BY q.id, m.id ON CONFLICT DO NOTHING";
const LANES: &str = "SELECT q.name, m.name, l.id, q.id, m.id, q.listed
    FROM unnest($1::text[], $2::text[]) u (queue, method) JOIN queue q ON q.name = u.queue JOIN method m ON m.name = u.method
    JOIN lane l ON l.queue = q.id AND l.method = m.id";
const COUNT: &str = "SELECT count(*) FROM lane";
const LIST: &str = "UPDATE queue SET listed = true WHERE id IN
    (SELECT id FROM queue WHERE id = ANY($1) AND NOT listed ORDER BY id FOR UPDATE)";

impl Names {
    /// The lanes of these pairs of queue and method, in their order; written if they are new. To be called between
    /// transactions; inside of one, what is new is written with it and not remembered.
    pub(crate) async fn lanes(&self, session: &mut Session, pairs: &[(&str, &str)]) -> Done<Vec<Lane>> {
        let mut found: BTreeMap<(&str, &str), Lane> = BTreeMap::new();
        let mut missing: BTreeSet<(&str, &str)> = BTreeSet::new();
        {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if known.count > KNOWN_MAX {
                *known = Known::default();
            }
            for (queue, method) in pairs {
                match known.lane(queue, method) {
                    Some(lane) => drop(found.insert((queue, method), lane)),
                    None => drop(missing.insert((queue, method))),
                }
            }
        }
        let learnt = if missing.is_empty() { Vec::new() } else { self.learn(session, &missing).await? };
        for (queue, method, lane) in &learnt {
            found.insert((queue, method), *lane);
        }
        let lanes = pairs.iter().map(|pair| found.get(pair).copied());
        lanes.collect::<Option<Vec<_>>>().ok_or_else(|| Fault::bug("a lane was written and is not there"))
    }

    async fn learn(
        &self,
        session: &mut Session,
        missing: &BTreeSet<(&str, &str)>,
    ) -> Done<Vec<(String, String, Lane)>> {
        let queues: Vec<String> = missing.iter().map(|(queue, _)| (*queue).to_owned()).collect();
        let methods: Vec<String> = missing.iter().map(|(_, method)| (*method).to_owned()).collect();
        let mut rows = session.single(step!(LANES, queues.clone(), methods.clone())).await?;
        let mut committed = true;
        if rows.len() < missing.len() {
            let count: i64 = session.single(step!(COUNT)).await?.first().map_or(Ok(0), |row| row.try_get(0))?;
            if count.saturating_add(i64::try_from(missing.len()).unwrap_or(i64::MAX)) > LANES_MAX {
                return Err(Fault::Store(StoreError::refused(format!(
                    "the database has {count} pairs of queue and method, and the limit is {LANES_MAX}; use fewer queues"
                ))));
            }
            // One by one: a statement does not see what another process committed after it began.
            session.single(step!(ADD_QUEUES, queues.clone())).await?;
            session.single(step!(ADD_METHODS, methods.clone())).await?;
            session.single(step!(ADD_LANES, queues.clone(), methods.clone())).await?;
            rows = session.single(step!(LANES, queues, methods)).await?;
            committed = !session.is_open();
        }
        let mut learnt = Vec::with_capacity(rows.len());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for row in rows {
            let (queue, method): (String, String) = (row.try_get(0)?, row.try_get(1)?);
            let lane = Lane { id: row.try_get(2)?, queue: row.try_get(3)?, method: row.try_get(4)? };
            if committed {
                if row.try_get(5)? {
                    known.listed.insert(lane.queue);
                }
                if known.lanes.entry(queue.clone()).or_default().insert(method.clone(), lane).is_none() {
                    known.count += 1;
                }
            }
            learnt.push((queue, method, lane));
        }
        Ok(learnt)
    }

    /// What lists these queues, if one of them is not listed yet as far as is known.
    pub(crate) fn list(&self, lanes: &[Lane]) -> Option<Step> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let new: BTreeSet<i32> =
            lanes.iter().map(|lane| lane.queue).filter(|queue| !known.listed.contains(queue)).collect();
        (!new.is_empty()).then(|| step!(LIST, new.into_iter().collect::<Vec<i32>>()))
    }

    /// Tasks in these lanes were committed.
    pub(crate) fn listed(&self, lanes: &[Lane]) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for lane in lanes {
            if !known.listed.contains(&lane.queue) {
                known.listed.insert(lane.queue);
            }
        }
    }
}

impl Known {
    fn lane(&self, queue: &str, method: &str) -> Option<Lane> {
        self.lanes.get(queue)?.get(method).copied()
    }
}
