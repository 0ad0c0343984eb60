//! Claims: which waiting tasks a worker gets, and what it needs to run them. Two round trips and the commit; one where nothing
//! is due.

use crate::definitions::Read;
use crate::errors::{Done, Fault};
use crate::holdings;
use crate::keys;
use crate::names::may_exist;
use crate::ready::{self, Waits};
use crate::session::{Session, step};
use crate::store::Shared;
use crate::tasks::{self, TaskRow};
use crate::workers;
use punctual_clock::{Clock, SystemClock, Timestamp};
use punctual_task::planner::UNREADABLE_WAIT;
use punctual_task::rows::{FLAG_KEY, FloorGroup, FloorPlace, Held};
use punctual_task::task::LEVEL_AGE;
use punctual_task::{ClaimBatch, ClaimRequest, Claimed, TaskId, WorkerId};
use std::collections::{BTreeMap, BTreeSet};
use tokio_postgres::Row;

/// How many tasks one claim gives at most.
pub const CLAIM_MAX: u32 = 10_000;
/// What the class of a suspect is above its level.
const SUSPECT: i16 = 4;

/// The first task of each lane and class that is asked for, at its floor or above. A lane in which nothing waits is passed over with
/// one look; with a floor it is not looked at as a whole, since that would step over its dead rows.
pub(crate) const HEADS: &str = "SELECT l.id, g.class::smallint, h.due, h.id, q.name, m.name
    FROM unnest($1::text[]) u (name) JOIN method m ON m.name = u.name JOIN lane l ON l.method = m.id
    JOIN queue q ON q.id = l.queue
    CROSS JOIN LATERAL (SELECT 1 WHERE l.id = ANY($4::int[]) UNION ALL
        (SELECT 1 FROM ready r WHERE r.lane = l.id AND NOT l.id = ANY($4::int[]) LIMIT 1)) waits
    CROSS JOIN LATERAL generate_series(0, $3::int) g (class)
    LEFT JOIN LATERAL (SELECT f.due, f.id FROM unnest($4::int[], $5::smallint[], $6::bigint[], $7::bigint[]) f (lane, class, due, id)
        WHERE f.lane = l.id AND f.class = g.class) f ON true
    CROSS JOIN LATERAL (SELECT r.due, r.id FROM ready r WHERE r.lane = l.id AND r.class = g.class::smallint
        AND (r.due, r.id) >= (coalesce(f.due, -9223372036854775808), coalesce(f.id, -9223372036854775808))
        ORDER BY r.due, r.id LIMIT 1) h
    WHERE NOT q.paused AND ($2::text IS NULL OR q.name = $2)";
pub(crate) const TAKE: &str = "WITH picked AS MATERIALIZED (SELECT r.id, r.class, r.due, r.n, r.spent, r.losses
        FROM unnest($1::int[], $2::smallint[], $5::bigint[], $6::bigint[]) g (lane, class, due, id)
        CROSS JOIN LATERAL (SELECT r.id, r.class, r.due, r.n, r.spent, r.losses FROM ready r
            WHERE r.lane = g.lane AND r.class = g.class AND (r.due, r.id) >= (g.due, g.id) AND r.due <= $3
            ORDER BY r.due, r.id LIMIT $4
            FOR UPDATE SKIP LOCKED) r
        ORDER BY r.due, r.id LIMIT $4),
    gone AS (DELETE FROM ready WHERE id IN (SELECT id FROM picked))
    SELECT p.id, p.class, p.due, p.n, p.spent, p.losses, t.id, t.lane, t.lvl, t.created, t.due, t.schema, t.options,
        t.unique_key, t.schedule, t.slot, t.at, t.run, t.catch_up, t.version, coalesce(t.args, b.args), t.pass
    FROM picked p LEFT JOIN task t ON t.id = p.id LEFT JOIN task_body b ON b.id = t.id ORDER BY p.due, p.id";
pub(crate) const NEXT: &str = "SELECT min(h.due) FROM unnest($1::int[], $2::smallint[], $3::bigint[], $4::bigint[]) g (lane, class, due, id)
    CROSS JOIN LATERAL (SELECT r.due FROM ready r WHERE r.lane = g.lane AND r.class = g.class AND (r.due, r.id) >= (g.due, g.id)
        ORDER BY r.due, r.id LIMIT 1) h";

/// The tasks of one lane and class, by due time and id.
#[derive(Debug)]
struct Group {
    lane: i32,
    class: i16,
    /// The first task's due time and id.
    head: (i64, i64),
    queue: String,
    method: String,
}

impl Group {
    fn from_row(row: &Row) -> Done<Self> {
        Ok(Group {
            lane: row.try_get(0)?,
            class: row.try_get(1)?,
            head: (row.try_get(2)?, row.try_get(3)?),
            queue: row.try_get(4)?,
            method: row.try_get(5)?,
        })
    }

    /// What its floor is known by.
    fn key(&self) -> FloorGroup {
        (self.lane.cast_unsigned(), u8::try_from(self.class).unwrap_or(u8::MAX))
    }

    fn level(&self) -> i16 {
        self.class % SUSPECT
    }

    fn suspect(&self) -> bool {
        self.class >= SUSPECT
    }

    /// What levels are compared by: the due time, later by the age that a task of this level must have.
    fn aged(&self) -> (i64, i16) {
        let age = i64::try_from(LEVEL_AGE.as_micros()).unwrap_or(i64::MAX);
        (self.head.0.saturating_add(i64::from(self.level()).saturating_mul(age)), self.level())
    }
}

/// Places in groups, a column each.
#[derive(Debug, Default)]
pub(crate) struct Places {
    pub(crate) lanes: Vec<i32>,
    pub(crate) classes: Vec<i16>,
    pub(crate) dues: Vec<i64>,
    pub(crate) ids: Vec<i64>,
}

impl Places {
    pub(crate) fn of(places: impl Iterator<Item = (FloorGroup, FloorPlace)>) -> Self {
        let mut columns = Places::default();
        for ((lane, class), (due, id)) in places {
            columns.lanes.push(lane.cast_signed());
            columns.classes.push(class.into());
            columns.dues.push(due);
            columns.ids.push(id);
        }
        columns
    }
}

/// The class of a task of this level that was lost so often in a row.
pub(crate) fn class(level: u8, losses: u32) -> i16 {
    i16::from(level) + if losses > 0 { SUSPECT } else { 0 }
}

/// A task on its way from `ready` to its worker.
#[derive(Debug, Clone, Copy)]
struct Taken {
    id: i64,
    class: i16,
    due: i64,
    n: i32,
    spent: i32,
    losses: i32,
}

/// Takes due tasks for a live worker.
pub(crate) async fn claim(
    shared: &Shared,
    session: &mut Session,
    worker: WorkerId,
    request: &ClaimRequest,
) -> Done<ClaimBatch> {
    let classes = i32::from(if request.suspects { SUSPECT * 2 } else { SUSPECT }) - 1;
    let methods: BTreeSet<&String> = request.methods.iter().filter(|name| may_exist(name)).collect();
    let mut methods: Vec<String> = methods.into_iter().cloned().collect();
    let queue = request.queue.clone().filter(|name| may_exist(name));
    if queue.is_none() && request.queue.is_some() {
        methods.clear();
    }
    let look = shared.floors().look(SystemClock.now());
    let floors = Places::of(look.iter());
    let heads = step!(HEADS, methods, queue, classes, floors.lanes, floors.classes, floors.dues, floors.ids);
    let answers = session.ask(vec![workers::alive(worker), heads]).await?;
    let [alive, heads] = answers.as_slice() else { return Err(Fault::bug("a claim got no answer")) };
    workers::check_alive(worker, alive)?;
    let groups: Vec<Group> = heads.iter().map(Group::from_row).collect::<Done<_>>()?;
    let now = session.now()?;
    let limit = request.limit.min(CLAIM_MAX);
    let heads = groups.iter().map(|group| (group.key(), group.head));
    shared.floors().seen(&look, heads, now, SystemClock.now());
    let (chosen, limit) = choose(&groups, now, limit);
    let first = groups.iter().map(|group| group.head.0).min().map(Timestamp::from_micros);
    if chosen.is_empty() || limit == 0 {
        return Ok(ClaimBatch { tasks: Vec::new(), next_due: first });
    }
    let Places { lanes, classes, dues, ids } = Places::of(chosen.iter().map(|group| (group.key(), group.head)));
    let (lane, class, due, id) = (lanes.clone(), classes.clone(), dues.clone(), ids.clone());
    let take = step!(TAKE, lane, class, now.as_micros(), i64::from(limit), due, id);
    let answers = session.ask(vec![workers::fence(worker), take]).await?;
    let [alive, taken] = answers.as_slice() else { return Err(Fault::bug("a claim got no answer")) };
    workers::check_alive(worker, alive)?;
    let (claimed, held, waits) = bodies(shared, session, &groups, now, taken).await?;
    let mut steps = Vec::new();
    if !held.is_empty() {
        steps.push(holdings::add(worker.0, now, &held));
    }
    let keyed: Vec<i64> = held.iter().filter(|held| held.flags & FLAG_KEY != 0).map(|held| held.task).collect();
    if !keyed.is_empty() {
        steps.push(keys::claimed(keyed));
    }
    steps.extend(ready::add(&waits));
    steps.push(step!(NEXT, lanes, classes, dues, ids));
    let answers = session.commit(steps).await?;
    if let Some(rows) = answers.first().filter(|_| !held.is_empty()) {
        holdings::remember(shared, &held, rows)?;
    }
    let left: Option<i64> = answers.last().and_then(|rows| rows.first()).map_or(Ok(None), |row| row.try_get(0))?;
    let is_chosen = |group: &Group| chosen.iter().any(|one| (one.lane, one.class) == (group.lane, group.class));
    let untouched = groups.iter().filter(|group| !is_chosen(group)).map(|group| group.head.0).min();
    let next_due = left.into_iter().chain(untouched).min().map(Timestamp::from_micros);
    Ok(ClaimBatch { tasks: claimed, next_due })
}

/// The groups of the level whose turn it is, and how many tasks may be taken from them.
fn choose(groups: &[Group], now: Timestamp, limit: u32) -> (Vec<&Group>, u32) {
    let due = groups.iter().filter(|group| group.head.0 <= now.as_micros());
    let Some(level) = due.clone().min_by_key(|group| group.aged()).map(Group::level) else {
        return (Vec::new(), limit);
    };
    let mut due: Vec<&Group> = due.filter(|group| group.level() == level).collect();
    due.sort_unstable_by_key(|group| group.head);
    let alone = due.first().is_some_and(|group| group.suspect());
    due.retain(|group| group.suspect() == alone);
    (due, if alone { limit.min(1) } else { limit })
}

/// What a claim gives, what is held from now on, and what waits again since it cannot be read.
type Bodies = (Vec<Claimed>, Vec<Held>, Waits);

/// Makes of the rows what the worker needs to run them. A task that cannot be read is moved out of the way of the others and
/// reported: it waits for a build that can read it, or for an operator who cancels it.
async fn bodies(
    shared: &Shared,
    session: &mut Session,
    groups: &[Group],
    now: Timestamp,
    rows: &[Row],
) -> Done<Bodies> {
    let mut taken = Vec::with_capacity(rows.len());
    for row in rows {
        let place = Taken {
            id: row.try_get(0)?,
            class: row.try_get(1)?,
            due: row.try_get(2)?,
            n: row.try_get(3)?,
            spent: row.try_get(4)?,
            losses: row.try_get(5)?,
        };
        let there: Option<i64> = row.try_get(6)?;
        let task = match there {
            Some(_) => TaskRow::from_row(row, 6),
            None => Err(Fault::corrupt(format!("the waiting task {} has no row", TaskId(place.id)))),
        };
        taken.push((place, task));
    }
    let rows = taken.iter().filter_map(|(_, task)| task.as_ref().ok());
    let definitions = tasks::definitions_of(session, &shared.definitions, rows).await?;
    let lanes: BTreeMap<i32, &Group> = groups.iter().map(|group| (group.lane, group)).collect();
    let (mut claimed, mut held, mut waits) = (Vec::new(), Vec::new(), Waits::default());
    for (place, task) in taken {
        let lane = task.as_ref().ok().map(|task| task.lane);
        match task.and_then(|task| body(&definitions, &lanes, &task, place)) {
            Ok((claim, holding)) => {
                claimed.push(claim);
                held.push(holding);
            }
            Err(fault) if fault.is_unreadable() => {
                let due = now.after(UNREADABLE_WAIT);
                // Without a row of its own a task keeps the first lane that was asked for; it is only to be out of the way.
                let lane = lane.or_else(|| lanes.keys().next().copied()).unwrap_or_default();
                waits.add(place.id, due, lane, place.class, [place.n, place.spent, place.losses]);
                let error = fault.named(shared.location());
                tracing::error!(task = %TaskId(place.id), %error, "a task cannot be read; it waits for another minute");
            }
            Err(fault) => return Err(fault),
        }
    }
    Ok((claimed, held, waits))
}

/// One task as its worker needs it, and as it is held.
fn body(definitions: &Read, lanes: &BTreeMap<i32, &Group>, task: &TaskRow, taken: Taken) -> Done<(Claimed, Held)> {
    let n = taken.n.cast_unsigned().saturating_add(1);
    let (spent, losses) = (taken.spent.cast_unsigned(), taken.losses.cast_unsigned());
    let held = Held {
        task: taken.id,
        gate: task.gate(),
        lane: task.lane.cast_unsigned(),
        level: task.level,
        flags: if task.key.is_some() { FLAG_KEY } else { 0 },
        n,
        spent,
        losses,
        due: taken.due,
    };
    let lane = lanes
        .get(&task.lane)
        .ok_or_else(|| Fault::corrupt(format!("task {} waits in another lane than {}", TaskId(taken.id), task.lane)))?;
    let definition = match task.version().and_then(|version| definitions.get(&version)) {
        Some(Ok(definition)) => Some(definition),
        Some(Err(Fault::Store(error))) => return Err(Fault::Store(error.clone())),
        Some(Err(_)) => return Err(Fault::bug("a definition could not be read and nothing was said")),
        None => None,
    };
    let (args, schema, options) = task.call(definition)?;
    let occurrence = task.series.as_ref().zip(definition);
    let claimed = Claimed {
        task: TaskId(taken.id),
        n,
        spent,
        losses,
        method: lane.method.clone(),
        queue: lane.queue.clone(),
        args,
        schema,
        options,
        created: task.created,
        due: Timestamp::from_micros(taken.due),
        occurrence: occurrence.map(|(series, definition)| series.occurrence(&definition.spec.name)),
    };
    Ok((claimed, held))
}
