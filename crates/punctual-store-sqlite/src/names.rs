//! Names stored once: queues, methods, and the lanes that pair them.
//!
//! The writer keeps all of them in memory. They are only ever added to, so what is known stays right when another process
//! writes; only a rollback takes names back, and then everything is forgotten.

use crate::connection::Sql;
use crate::errors::{Done, Fault};
use punctual_task::StoreError;
use rusqlite::{OptionalExtension, params};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many lanes a database may have: a claim on all queues looks at the head of each lane that holds a task, and all
/// are kept in memory (about 200 bytes each).
pub(crate) const LANES_MAX: usize = 100_000;

/// A pair of queue and method.
#[derive(Debug, Clone)]
pub(crate) struct Lane {
    pub(crate) queue: i64,
    pub(crate) queue_name: Arc<str>,
    pub(crate) method: i64,
    pub(crate) method_name: Arc<str>,
}

/// The names known so far.
#[derive(Debug, Default)]
pub(crate) struct Names {
    queues: Table,
    methods: Table,
    lanes: BTreeMap<u32, Lane>,
    lane_ids: BTreeMap<(i64, i64), u32>,
    /// By method, in order of lanes: what a claim of all queues asks for.
    by_method: BTreeMap<i64, Vec<u32>>,
}

#[derive(Debug, Default)]
struct Table {
    ids: BTreeMap<Arc<str>, i64>,
    names: BTreeMap<i64, Arc<str>>,
}

impl Table {
    fn last(&self) -> i64 {
        self.names.last_key_value().map_or(0, |(id, _)| *id)
    }

    fn add(&mut self, id: i64, name: Arc<str>) {
        self.ids.insert(name.clone(), id);
        self.names.insert(id, name);
    }
}

const NEW_QUEUES: &str = "SELECT id, name FROM queue WHERE id > ?1 ORDER BY id";
const NEW_METHODS: &str = "SELECT id, name FROM method WHERE id > ?1 ORDER BY id";
const NEW_LANES: &str = "SELECT id, queue, method FROM lane WHERE id > ?1 ORDER BY id";
const QUEUE: &str = "SELECT id FROM queue WHERE name = ?1";
const METHOD: &str = "SELECT id FROM method WHERE name = ?1";
const LANE: &str = "SELECT id FROM lane WHERE queue = ?1 AND method = ?2";
const ADD_QUEUE: &str = "INSERT INTO queue (name) VALUES (?1)";
const ADD_METHOD: &str = "INSERT INTO method (name) VALUES (?1)";
const ADD_LANE: &str = "INSERT INTO lane (queue, method) VALUES (?1, ?2)";

impl Names {
    /// Reads what other processes added.
    pub(crate) fn refresh(&mut self, db: &dyn Sql) -> Done<()> {
        for (sql, table) in [(NEW_QUEUES, &mut self.queues), (NEW_METHODS, &mut self.methods)] {
            let mut statement = db.sql(sql)?;
            let mut rows = statement.query(params![table.last()])?;
            while let Some(row) = rows.next()? {
                table.add(row.get(0)?, Arc::from(row.get::<_, String>(1)?));
            }
        }
        let mut statement = db.sql(NEW_LANES)?;
        let last = self.lanes.last_key_value().map_or(0, |(id, _)| *id);
        let mut rows = statement.query(params![last])?;
        while let Some(row) = rows.next()? {
            self.add_lane(row.get(0)?, row.get(1)?, row.get(2)?)?;
        }
        Ok(())
    }

    fn add_lane(&mut self, id: u32, queue: i64, method: i64) -> Done<()> {
        let missing = || Fault::corrupt(format!("lane {id} pairs names that are not there"));
        let queue_name = self.queues.names.get(&queue).ok_or_else(missing)?.clone();
        let method_name = self.methods.names.get(&method).ok_or_else(missing)?.clone();
        self.lanes.insert(id, Lane { queue, queue_name, method, method_name });
        self.lane_ids.insert((queue, method), id);
        self.by_method.entry(method).or_default().push(id);
        Ok(())
    }

    /// The number of a queue, which is stored if it is new.
    pub(crate) fn queue(&mut self, db: &dyn Sql, name: &str) -> Done<i64> {
        if let Some(id) = self.queues.ids.get(name) {
            return Ok(*id);
        }
        let id = db.sql(ADD_QUEUE)?.insert(params![name])?;
        self.queues.add(id, Arc::from(name));
        Ok(id)
    }

    /// The number of a method, which is stored if it is new.
    fn method(&mut self, db: &dyn Sql, name: &str) -> Done<i64> {
        if let Some(id) = self.methods.ids.get(name) {
            return Ok(*id);
        }
        let id = db.sql(ADD_METHOD)?.insert(params![name])?;
        self.methods.add(id, Arc::from(name));
        Ok(id)
    }

    /// The number of a lane, which is stored if it is new.
    pub(crate) fn lane(&mut self, db: &dyn Sql, queue: &str, method: &str) -> Done<u32> {
        if let Some(lane) = self.find_lane(queue, method) {
            return Ok(lane);
        }
        if self.lanes.len() >= LANES_MAX {
            return Err(Fault::Store(StoreError::refused(format!(
                "the database has {LANES_MAX} pairs of queue and method, which is the limit; use fewer queues"
            ))));
        }
        let (queue, method) = (self.queue(db, queue)?, self.method(db, method)?);
        let id = db.sql(ADD_LANE)?.insert(params![queue, method])?;
        let id = u32::try_from(id).map_err(|_| Fault::corrupt(format!("lane {id}")))?;
        self.add_lane(id, queue, method)?;
        Ok(id)
    }

    /// Reads what the tables have of one pair, for who does not read them all.
    pub(crate) fn learn(&mut self, db: &dyn Sql, queue: &str, method: &str) -> Done<()> {
        for (sql, name, table) in [(QUEUE, queue, &mut self.queues), (METHOD, method, &mut self.methods)] {
            if !table.ids.contains_key(name)
                && let Some(id) = db.sql(sql)?.query_row(params![name], |row| row.get(0)).optional()?
            {
                table.add(id, Arc::from(name));
            }
        }
        let pair = self.queues.ids.get(queue).copied().zip(self.methods.ids.get(method).copied());
        if let Some((queue, method)) = pair
            && !self.lane_ids.contains_key(&(queue, method))
            && let Some(id) = db.sql(LANE)?.query_row(params![queue, method], |row| row.get(0)).optional()?
        {
            self.add_lane(id, queue, method)?;
        }
        Ok(())
    }

    /// A lane's number, if both were ever paired.
    pub(crate) fn find_lane(&self, queue: &str, method: &str) -> Option<u32> {
        let pair = (*self.queues.ids.get(queue)?, *self.methods.ids.get(method)?);
        self.lane_ids.get(&pair).copied()
    }

    /// A queue's number, if it was ever named.
    pub(crate) fn find_queue(&self, name: &str) -> Option<i64> {
        self.queues.ids.get(name).copied()
    }

    /// A method's number, if it was ever named.
    pub(crate) fn find_method(&self, name: &str) -> Option<i64> {
        self.methods.ids.get(name).copied()
    }

    /// What a lane pairs.
    pub(crate) fn pair(&self, lane: u32) -> Done<&Lane> {
        self.lanes.get(&lane).ok_or_else(|| Fault::corrupt(format!("a row names lane {lane}, which is not there")))
    }

    /// The lanes of these methods, in one queue or in all of them, ascending, each once.
    pub(crate) fn wanted(&self, queue: Option<i64>, methods: &[String]) -> Vec<u32> {
        let methods = methods.iter().filter_map(|name| self.methods.ids.get(name.as_str()));
        let mut lanes: Vec<u32> = match queue {
            Some(queue) => methods.filter_map(|method| self.lane_ids.get(&(queue, *method))).copied().collect(),
            None => methods.filter_map(|method| self.by_method.get(method)).flatten().copied().collect(),
        };
        lanes.sort_unstable();
        lanes.dedup();
        lanes
    }
}
