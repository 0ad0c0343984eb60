//! Claims: which waiting tasks a worker gets, and what it needs to run them.

use crate::connection::Db;
use crate::definitions::Definitions;
use crate::errors::{Done, Fault};
use crate::holdings;
use crate::keys;
use crate::names::Names;
use crate::session::Session;
use crate::tasks::{ADD_READY, READ, TaskRow};
use crate::workers;
use punctual_clock::Timestamp;
use punctual_task::planner::UNREADABLE_WAIT;
use punctual_task::rows::{FLAG_KEY, Held};
use punctual_task::task::LEVEL_AGE;
use punctual_task::{ClaimBatch, ClaimRequest, Claimed, TaskId, WorkerId};
use rusqlite::{OptionalExtension, Row, params};
use std::collections::{BTreeMap, BTreeSet};

/// How many tasks one claim gives at most: more would hold the write lock for longer than a group may.
pub const CLAIM_MAX: u32 = 10_000;
/// What the class of a suspect is above its level.
const SUSPECT: i64 = 4;

/// The first task of the lane's next class, and of the next lane: one seek passes over a group, however large it is. As one
/// comparison of pairs SQLite would read the whole group.
pub(crate) const NEXT_CLASS: &str = "SELECT lane, class, due, id FROM ready WHERE lane = ?1 AND class > ?2
    ORDER BY class, due, id LIMIT 1";
pub(crate) const NEXT_LANE: &str = "SELECT lane, class, due, id FROM ready WHERE lane >= ?1
    ORDER BY lane, class, due, id LIMIT 1";
pub(crate) const HEAD: &str = "SELECT due FROM ready WHERE lane = ?1 AND class = ?2 ORDER BY due, id LIMIT 1";
pub(crate) const FIRST: &str = "SELECT due, id, n, spent, losses FROM ready
    WHERE lane = ?1 AND class = ?2 AND due <= ?3 ORDER BY due, id LIMIT ?4";
pub(crate) const TAKE: &str = "DELETE FROM ready WHERE lane = ?1 AND class = ?2 AND (due, id) <= (?3, ?4)";
pub(crate) const PAUSED: &str = "SELECT id FROM queue WHERE paused = 1";

/// The tasks of one lane and class, by due time and id.
#[derive(Debug, Clone, Copy)]
struct Group {
    lane: u32,
    class: i64,
    /// The first task's due time and id.
    head: (i64, i64),
}

impl Group {
    fn level(&self) -> i64 {
        self.class % SUSPECT
    }

    fn suspect(&self) -> bool {
        self.class >= SUSPECT
    }

    /// What levels are compared by: the due time, later by the age that a task of this level must have.
    fn aged(&self) -> (i64, i64) {
        let age = i64::try_from(LEVEL_AGE.as_micros()).unwrap_or(i64::MAX);
        (self.head.0.saturating_add(self.level().saturating_mul(age)), self.level())
    }
}

/// The class of a task of this level that was lost so often in a row.
pub(crate) fn class(level: u8, losses: u32) -> i64 {
    i64::from(level) + if losses > 0 { SUSPECT } else { 0 }
}

/// Takes due tasks for a live worker.
pub(crate) fn claim(session: &mut Session, worker: WorkerId, request: &ClaimRequest) -> Done<ClaimBatch> {
    workers::check_alive(&session.db, worker)?;
    let now = session.now();
    let groups = groups(session, request)?;
    let (taken, touched) = take(&session.db, &groups, now, request.limit.min(CLAIM_MAX))?;
    let next_due = next_due(&session.db, &groups, &touched)?;
    let tasks = bodies(session, worker, now, taken)?;
    Ok(ClaimBatch { tasks, next_due: next_due.map(Timestamp::from_micros) })
}

/// The groups that the request is for and that hold a task.
fn groups(session: &mut Session, request: &ClaimRequest) -> Done<Vec<Group>> {
    let Session { db, names, .. } = session;
    let queue = match &request.queue {
        None => None,
        Some(name) => match names.find_queue(name) {
            None => return Ok(Vec::new()),
            found => found,
        },
    };
    let paused: BTreeSet<i64> = db.sql(PAUSED)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut wanted = names.wanted(queue, &request.methods);
    if !paused.is_empty() {
        wanted.retain(|lane| names.pair(*lane).is_ok_and(|pair| !paused.contains(&pair.queue)));
    }
    let read = |row: &Row<'_>| Ok(Group { lane: row.get(0)?, class: row.get(1)?, head: (row.get(2)?, row.get(3)?) });
    let mut found = Vec::new();
    let mut next_lane = db.sql(NEXT_LANE)?;
    let mut next_class = db.sql(NEXT_CLASS)?;
    // Both sides are in order of lanes, and each step passes over what the other side does not have.
    let mut lanes = wanted.as_slice();
    while let Some(first) = lanes.first() {
        let mut group = next_lane.query_row(params![first], read).optional()?;
        let lane = match group {
            None => break,
            Some(group) => group.lane,
        };
        lanes = lanes.get(lanes.partition_point(|wanted| *wanted < lane)..).unwrap_or_default();
        if lanes.first() != Some(&lane) {
            continue;
        }
        while let Some(next) = group {
            if request.suspects || !next.suspect() {
                found.push(next);
            }
            group = next_class.query_row(params![lane, next.class], read).optional()?;
        }
        lanes = lanes.get(1..).unwrap_or_default();
    }
    Ok(found)
}

/// A task on its way from `ready` to its worker.
#[derive(Debug, Clone, Copy)]
struct Taken {
    due: i64,
    id: i64,
    lane: u32,
    class: i64,
    n: u32,
    spent: u32,
    losses: u32,
}

/// Tasks, and the lanes and classes that they were taken from.
type Haul = (Vec<Taken>, BTreeSet<(u32, i64)>);

/// Takes the first due tasks of the level whose turn it is out of `ready`.
fn take(db: &Db, groups: &[Group], now: Timestamp, limit: u32) -> Done<Haul> {
    if limit == 0 {
        return Ok(Default::default());
    }
    let due = groups.iter().filter(|group| group.head.0 <= now.as_micros());
    let Some(level) = due.clone().min_by_key(|group| group.aged()).map(Group::level) else {
        return Ok(Default::default());
    };
    let mut due: Vec<&Group> = due.filter(|group| group.level() == level).collect();
    due.sort_unstable_by_key(|group| group.head);
    let alone = due.first().is_some_and(|group| group.suspect());
    due.retain(|group| group.suspect() == alone);
    let limit = if alone { 1 } else { limit };
    let mut taken: Vec<Taken> = Vec::new();
    let mut first = db.sql(FIRST)?;
    // In order of heads: once the limit is reached, the last one taken bounds what the other groups can add.
    let mut until = now.as_micros();
    for group in due {
        if group.head.0 > until {
            break;
        }
        let mut rows = first.query(params![group.lane, group.class, until, limit])?;
        while let Some(row) = rows.next()? {
            taken.push(Taken {
                due: row.get(0)?,
                id: row.get(1)?,
                lane: group.lane,
                class: group.class,
                n: row.get(2)?,
                spent: row.get(3)?,
                losses: row.get(4)?,
            });
        }
        taken.sort_unstable_by_key(|task| (task.due, task.id));
        taken.truncate(limit as usize);
        if let Some(last) = taken.last().filter(|_| taken.len() == limit as usize) {
            until = last.due;
        }
    }
    // What is taken of a group is its beginning: one statement removes it.
    let mut parts: BTreeMap<(u32, i64), (&Taken, usize)> = BTreeMap::new();
    for task in &taken {
        let part = parts.entry((task.lane, task.class)).or_insert((task, 0));
        *part = (task, part.1 + 1);
    }
    for ((lane, class), (last, count)) in &parts {
        let removed = db.sql(TAKE)?.execute(params![lane, class, last.due, last.id])?;
        if removed != *count {
            return Err(Fault::bug(format!("a claim of {count} tasks removed {removed}")));
        }
    }
    let parts = parts.into_keys().collect();
    Ok((taken, parts))
}

/// When the first task that is left becomes or became due.
fn next_due(db: &Db, groups: &[Group], touched: &BTreeSet<(u32, i64)>) -> Done<Option<i64>> {
    let mut next = None;
    let mut head = db.sql(HEAD)?;
    for group in groups {
        let due = if touched.contains(&(group.lane, group.class)) {
            head.query_row(params![group.lane, group.class], |row| row.get(0)).optional()?
        } else {
            Some(group.head.0)
        };
        next = next.into_iter().chain(due).min();
    }
    Ok(next)
}

/// Gives the tasks to the worker, with all that it needs to run them. A task that cannot be read is moved out of the way
/// of the others and reported: it waits for a build that can read it, or for an operator who cancels it.
fn bodies(session: &mut Session, worker: WorkerId, now: Timestamp, taken: Vec<Taken>) -> Done<Vec<Claimed>> {
    let Session { db, names, definitions, holdings, location, .. } = session;
    let mut claimed = Vec::with_capacity(taken.len());
    let mut held = Vec::with_capacity(taken.len());
    let mut read = db.sql(READ)?;
    for taken in taken {
        let row = read.query_row(params![taken.id], TaskRow::from_row).optional().map_err(Fault::from);
        match row.and_then(|row| body(db, names, definitions, row, taken)) {
            Ok((claim, holding)) => {
                if holding.flags & FLAG_KEY != 0 {
                    keys::claimed(db, taken.id)?;
                }
                claimed.push(claim);
                held.push(holding);
            }
            Err(fault) if fault.is_unreadable() => {
                let due = now.after(UNREADABLE_WAIT).as_micros();
                let Taken { id, lane, class, n, spent, losses, .. } = taken;
                db.sql(ADD_READY)?.execute(params![lane, class, due, id, n, spent, losses])?;
                let error = fault.named(location);
                tracing::error!(task = %TaskId(id), %error, "a task cannot be read; it waits for another minute");
            }
            Err(fault) => return Err(fault),
        }
    }
    if !held.is_empty() {
        holdings::add(holdings.of(db, worker.0)?, db, worker.0, now, &held)?;
    }
    Ok(claimed)
}

/// One task as its worker needs it, and as it is held.
fn body(
    db: &Db,
    names: &Names,
    definitions: &mut Definitions,
    row: Option<TaskRow>,
    taken: Taken,
) -> Done<(Claimed, Held)> {
    let task = row.ok_or_else(|| Fault::corrupt(format!("the waiting task {} has no row", TaskId(taken.id))))?;
    let n = taken.n.saturating_add(1);
    let held = Held {
        task: taken.id,
        gate: task.gate(),
        lane: taken.lane,
        level: task.level,
        flags: if task.key.is_some() { FLAG_KEY } else { 0 },
        n,
        spent: taken.spent,
        losses: taken.losses,
        due: taken.due,
    };
    let lane = names.pair(taken.lane)?;
    let occurrence = task.occurrence(db, definitions)?;
    let (args, schema, options) = task.call(db, definitions)?;
    let claimed = Claimed {
        task: TaskId(taken.id),
        n,
        spent: taken.spent,
        losses: taken.losses,
        method: lane.method_name.to_string(),
        queue: lane.queue_name.to_string(),
        args,
        schema,
        options,
        created: task.created,
        due: Timestamp::from_micros(taken.due),
        occurrence,
    };
    Ok((claimed, held))
}
