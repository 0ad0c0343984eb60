//! Claims: which waiting tasks a worker gets, and what it needs to run them.
//!
//! ```text
//! 1  begin · share lock on the worker's row · the lanes of the methods asked for
//! 2  the head of each lane and level: two seeks each, whatever waits behind
//! 3  SELECT .. ORDER BY due, id LIMIT n FOR UPDATE SKIP LOCKED, in the order of the table's key
//! 4  delete by id · one packed row of `claim` · commit · the tasks' rows
//! ```
//! Rows that another claim has locked are passed over. The worker's row is locked in share mode until the commit, so that a
//! rescuer, who takes it alone, comes either before or after the whole claim.

use crate::answers::cell;
use crate::connection::Session;
use crate::errors::{Done, Fault};
use crate::holdings;
use crate::keys;
use crate::moment::Moment;
use crate::ready::{Ready, SUSPECT};
use crate::script::{Script, Value};
use crate::tasks::{self, READ, TaskRow, calls};
use crate::workers::{SHARE, check_alive, put_off};
use punctual_clock::{Clock, SystemClock, Timestamp};
use punctual_task::rows::{FLAG_KEY, FloorLook, Held};
use punctual_task::task::LEVEL_AGE;
use punctual_task::{ClaimBatch, ClaimRequest, Claimed, Policy, TaskId, WorkerId};
use std::collections::BTreeMap;

/// How many tasks one claim gives at most.
pub const CLAIM_MAX: u32 = 10_000;

/// The lanes of some methods, with what they are called and whether their queue is paused.
pub(crate) const LANES: &str = "SELECT l.id, q.name, m.name, q.paused FROM punctual_method m
    STRAIGHT_JOIN punctual_lane l FORCE INDEX (punctual_lane_method) ON l.method = m.id
    STRAIGHT_JOIN punctual_queue q ON q.id = l.queue WHERE m.name IN (?)";
/// With one key part after another bound the optimizer reads the first row of the range and nothing else.
pub(crate) const HEAD: &str =
    "SELECT ? AS lane, ? AS class, MIN(due) FROM punctual_ready WHERE lane = ? AND class = ? AND due >= ?";
/// The lower bound is left out of the range: where one value is both bounds, MariaDB finds the rows by it and then sorts
/// them, and a sort locks every candidate.
pub(crate) const FIRST_ID: &str = "(SELECT lane, class, due, id FROM punctual_ready FORCE INDEX (PRIMARY)
    WHERE lane = ? AND class = ? AND due > ? ORDER BY due, id LIMIT 1)";
/// What a claim from several lanes would take, to know how many of each.
pub(crate) const PEEK: &str = "(SELECT lane, class, due, id FROM punctual_ready FORCE INDEX (PRIMARY)
    WHERE lane = ? AND class = ? AND due > ? AND due <= ? ORDER BY due, id LIMIT ?)";
pub(crate) const TAKE: &str = "SELECT lane, class, due, id, n, spent, losses, gate, flags
    FROM punctual_ready FORCE INDEX (PRIMARY) WHERE lane = ? AND class = ? AND due > ? AND due <= ?
    ORDER BY due, id LIMIT ? FOR UPDATE SKIP LOCKED";
const STILL_WAITING: &str = "SELECT id FROM punctual_ready FORCE INDEX (punctual_ready_id) WHERE id = ? FOR UPDATE";

/// The tasks of one lane and class, by due time and id.
#[derive(Debug, Clone, Copy)]
struct Group {
    lane: u32,
    class: u8,
    /// The first task's due time.
    head: i64,
}

impl Group {
    fn level(&self) -> u8 {
        self.class % SUSPECT
    }

    /// Just before the first task.
    fn below(&self) -> i64 {
        self.head.saturating_sub(1)
    }

    fn suspect(&self) -> bool {
        self.class >= SUSPECT
    }

    /// What levels are compared by: the due time, later by the age that a task of this level must have.
    fn aged(&self) -> (i64, u8) {
        let age = i64::try_from(LEVEL_AGE.as_micros()).unwrap_or(i64::MAX);
        (self.head.saturating_add(i64::from(self.level()).saturating_mul(age)), self.level())
    }
}

/// What a claim has taken and may have committed.
#[derive(Debug, Clone)]
pub(crate) struct Haul {
    taken: Vec<Ready>,
    next_due: Option<i64>,
    /// Names of the lanes: queue, method.
    lanes: BTreeMap<u32, (String, String)>,
}

/// Takes due tasks for a live worker.
pub(crate) async fn claim(
    session: &mut Session,
    worker: WorkerId,
    request: &ClaimRequest,
    unsure: &mut Option<Haul>,
) -> Done<ClaimBatch> {
    let mut first = Script::of(SHARE, &[worker.0.into()]);
    first.add(LANES, &[Value::Names(&request.methods)]);
    let (moment, mut answers) = session.begin(&first).await?;
    check_alive(&answers.rows()?, worker)?;
    let lanes = answers.rows()?;
    if let Some(haul) = unsure.clone()
        && arrived(session, worker, &haul).await?
    {
        session.end().await?;
        let ids: Vec<i64> = haul.taken.iter().map(|taken| taken.id).collect();
        let rows = tasks::read(session, &ids).await?;
        return bodies(session, worker, haul, rows).await;
    }
    let mut names = BTreeMap::new();
    for row in &lanes {
        let (lane, queue, method): (u32, String, String) = (cell(row, 0)?, cell(row, 1)?, cell(row, 2)?);
        let paused: bool = cell(row, 3)?;
        if !paused && request.queue.as_ref().is_none_or(|wanted| *wanted == queue) {
            names.insert(lane, (queue, method));
        }
    }
    let groups = groups(session, request, &names, moment).await?;
    let limit = request.limit.min(CLAIM_MAX);
    let taken = take(session, &groups, moment, limit).await?;
    if taken.is_empty() {
        session.end().await?;
        let next_due = groups.iter().map(|group| group.head).min().map(Timestamp::from_micros);
        return Ok(ClaimBatch { tasks: Vec::new(), next_due });
    }
    write(session, worker, moment, &groups, taken, names, unsure).await
}

/// Whether a claim whose answer was lost was committed. The rows that it took stay locked until that is decided.
async fn arrived(session: &mut Session, worker: WorkerId, haul: &Haul) -> Done<bool> {
    let Some(first) = haul.taken.first() else { return Ok(false) };
    let mut script = Script::of(STILL_WAITING, &[first.id.into()]);
    script.add(holdings::LOCK, &[worker.0.into()]);
    let mut answers = session.run(&script).await?;
    let waits = !answers.rows()?.is_empty();
    let holding = holdings::unpack(&answers.rows()?, worker.0)?;
    Ok(!waits && holding.get(first.id).is_some_and(|held| held.n == first.n.saturating_add(1)))
}

/// The groups that the request is for and that hold a task.
async fn groups(
    session: &mut Session,
    request: &ClaimRequest,
    lanes: &BTreeMap<u32, (String, String)>,
    moment: Moment,
) -> Done<Vec<Group>> {
    let suspects = (SUSPECT..=SUSPECT + Policy::LEVEL_MAX).filter(|_| request.suspects);
    let classes: Vec<u8> = (0..=Policy::LEVEL_MAX).chain(suspects).collect();
    let look = session.shared.floors().look(SystemClock.now());
    let mut script = Script::new();
    let branches = lanes.keys().flat_map(|lane| classes.iter().map(move |class| (*lane, *class)));
    let branches = branches.map(|(lane, class)| {
        [Value::from(lane), class.into(), lane.into(), class.into(), look.floor((lane, class)).0.into()]
    });
    let branches: Vec<_> = branches.collect();
    let statements = script.union(HEAD, branches);
    let mut groups = Vec::new();
    for row in session.run(&script).await?.rows_of(statements)? {
        let (lane, class): (u32, u8) = (cell(&row, 0)?, cell(&row, 1)?);
        let head: Option<i64> = cell(&row, 2)?;
        if let Some(head) = head {
            groups.push(Group { lane, class, head });
        }
    }
    remember(session, &look, &groups, moment.now);
    Ok(groups)
}

/// Keeps how far each group's dead rows reach.
fn remember(session: &Session, look: &FloorLook, groups: &[Group], now: Timestamp) {
    let heads = groups.iter().map(|group| ((group.lane, group.class), (group.head, i64::MIN)));
    session.shared.floors().seen(look, heads, now, SystemClock.now());
}

/// Locks the first due tasks of the level whose turn it is.
async fn take(session: &mut Session, groups: &[Group], moment: Moment, limit: u32) -> Done<Vec<Ready>> {
    let now = moment.now.as_micros();
    let due = groups.iter().filter(|group| group.head <= now);
    let Some(level) = due.clone().min_by_key(|group| group.aged()).map(Group::level).filter(|_| limit > 0) else {
        return Ok(Vec::new());
    };
    let mut due: Vec<Group> = due.filter(|group| group.level() == level).copied().collect();
    let alone = first_is_suspect(session, &due).await?;
    due.retain(|group| group.suspect() == alone);
    let limit = if alone { 1 } else { limit };
    let parts = if due.len() > 1 {
        parts(session, &due, now, limit).await?
    } else {
        due.iter().map(|group| (*group, limit)).collect()
    };
    let mut script = Script::new();
    for (group, limit) in &parts {
        let (lane, class, below) = (group.lane, group.class, group.below());
        script.add(TAKE, &[lane.into(), class.into(), below.into(), now.into(), (*limit).into()]);
    }
    let rows = session.run(&script).await?.rows_of(parts.len())?;
    let mut taken = rows.iter().map(Ready::from_row).collect::<Done<Vec<_>>>()?;
    taken.sort_unstable_by_key(|task| (task.due, task.id));
    Ok(taken)
}

/// Whether the first of these groups' tasks is a suspect.
async fn first_is_suspect(session: &mut Session, due: &[Group]) -> Done<bool> {
    if !due.iter().any(Group::suspect) {
        return Ok(false);
    }
    let mut script = Script::new();
    let branches = due.iter().map(|group| [Value::from(group.lane), group.class.into(), group.below().into()]);
    let statements = script.union(FIRST_ID, branches);
    let mut first: Option<((i64, i64), u8)> = None;
    for row in session.run(&script).await?.rows_of(statements)? {
        let this = ((cell(&row, 2)?, cell(&row, 3)?), cell(&row, 1)?);
        first = Some(first.map_or(this, |first| first.min(this)));
    }
    Ok(first.is_some_and(|(_, class)| class >= SUSPECT))
}

/// How many tasks of each group are among the first `limit` of all: no more rows are locked than are taken.
async fn parts(session: &mut Session, due: &[Group], now: i64, limit: u32) -> Done<Vec<(Group, u32)>> {
    let mut script = Script::new();
    let branches = due
        .iter()
        .map(|group| [Value::from(group.lane), group.class.into(), group.below().into(), now.into(), limit.into()]);
    let statements = script.union(PEEK, branches);
    let mut first = Vec::new();
    for row in session.run(&script).await?.rows_of(statements)? {
        let place: (u32, u8) = (cell(&row, 0)?, cell(&row, 1)?);
        first.push((cell::<i64>(&row, 2)?, cell::<i64>(&row, 3)?, place));
    }
    first.sort_unstable();
    first.truncate(limit as usize);
    let count = |group: &Group| first.iter().filter(|(_, _, place)| *place == (group.lane, group.class)).count();
    let parts = due.iter().map(|group| (*group, u32::try_from(count(group)).unwrap_or(limit)));
    Ok(parts.filter(|(_, count)| *count > 0).collect())
}

/// Gives the locked tasks to the worker.
async fn write(
    session: &mut Session,
    worker: WorkerId,
    moment: Moment,
    groups: &[Group],
    taken: Vec<Ready>,
    lanes: BTreeMap<u32, (String, String)>,
    unsure: &mut Option<Haul>,
) -> Done<ClaimBatch> {
    let ids: Vec<i64> = taken.iter().map(|task| task.id).collect();
    let held: Vec<Held> = taken.iter().map(held).collect();
    let keyed: Vec<i64> = taken.iter().filter(|task| task.flags & FLAG_KEY != 0).map(|task| task.id).collect();
    let mut touched: BTreeMap<(u32, u8), i64> = BTreeMap::new();
    for task in &taken {
        // All that was due before it is taken, or being taken by somebody else.
        let last = touched.entry((task.lane, task.class)).or_insert(task.due);
        *last = task.due.max(*last);
    }
    let mut script = Script::new();
    Ready::remove(&mut script, &ids);
    keys::claimed(&mut script, &keyed);
    holdings::add(&mut script, worker.0, moment.now, &held);
    let before = script.statements();
    let branches = touched.iter().map(|((lane, class), last)| {
        [Value::from(*lane), (*class).into(), (*lane).into(), (*class).into(), (*last).into()]
    });
    let heads = script.union(HEAD, branches);
    let mut after = Script::new();
    let parts = after.parts(READ, &ids);
    let untouched = groups.iter().filter(|group| !touched.contains_key(&(group.lane, group.class)));
    let mut next_due = untouched.map(|group| group.head).min();
    *unsure = Some(Haul { taken, next_due, lanes });
    let mut answers = session.commit_then(script, &after).await?;
    answers.skip(before - 1)?;
    holdings::remember(&session.shared, &held, &answers.rows()?)?;
    for row in answers.rows_of(heads)? {
        let head: Option<i64> = cell(&row, 2)?;
        next_due = next_due.into_iter().chain(head).min();
    }
    answers.skip(1)?;
    let rows = TaskRow::from_rows(&answers.rows_of(parts)?)?;
    let haul = unsure.take().ok_or_else(|| Fault::bug("a claim without its tasks"))?;
    bodies(session, worker, Haul { next_due, ..haul }, rows).await
}

fn held(task: &Ready) -> Held {
    Held {
        task: task.id,
        gate: task.gate,
        lane: task.lane,
        level: task.level(),
        flags: task.flags,
        n: task.n.saturating_add(1),
        spent: task.spent,
        losses: task.losses,
        due: task.due,
    }
}

/// All that the worker needs to run the tasks. A task that cannot be read is moved out of the way of the others and
/// reported: it waits for a build that can read it, or for an operator who cancels it.
async fn bodies(
    session: &mut Session,
    worker: WorkerId,
    haul: Haul,
    mut rows: BTreeMap<i64, TaskRow>,
) -> Done<ClaimBatch> {
    let found: Vec<&TaskRow> = haul.taken.iter().filter_map(|task| rows.get(&task.id)).collect();
    let calls = calls(session, &found).await?;
    let mut calls: BTreeMap<i64, Done<tasks::Call>> = found.iter().map(|row| row.id).zip(calls).collect();
    let mut claimed = Vec::with_capacity(haul.taken.len());
    let mut unreadable = Vec::new();
    for task in &haul.taken {
        let row = rows.remove(&task.id);
        let call = match calls.remove(&task.id) {
            Some(Ok(call)) => Ok(call),
            Some(Err(fault)) => Err(fault),
            None => Err(Fault::corrupt(format!("the waiting task {} has no row", TaskId(task.id)))),
        };
        match (row, call, haul.lanes.get(&task.lane)) {
            (Some(row), Ok(call), Some((queue, method))) => claimed.push(Claimed {
                task: TaskId(task.id),
                n: task.n.saturating_add(1),
                spent: task.spent,
                losses: task.losses,
                method: method.clone(),
                queue: queue.clone(),
                args: call.args,
                schema: call.schema,
                options: call.options,
                created: row.created,
                due: Timestamp::from_micros(task.due),
                occurrence: call.occurrence,
            }),
            (_, Err(fault), _) if !fault.is_unreadable() => return Err(fault),
            (_, call, _) => {
                let fault = call.err().unwrap_or_else(|| Fault::bug("a claimed task without its lane"));
                let error = fault.named(&session.shared.address);
                tracing::error!(task = %TaskId(task.id), %error, "a task cannot be read; it waits for another minute");
                unreadable.push(task.id);
            }
        }
    }
    if !unreadable.is_empty() {
        put_off(session, worker, &unreadable).await?;
    }
    Ok(ClaimBatch { tasks: claimed, next_due: haul.next_due.map(Timestamp::from_micros) })
}
