//! Tasks in a transaction of the caller's, on the caller's own connection to the same database.
//!
//! Names of queues and methods are written beside it, on a connection of the store's: in a transaction that may stay open for
//! long they would hold up everybody who uses the same name for the first time. The rest is one round trip, or two with unique
//! keys, behind a savepoint that undoes it as a whole.

use crate::answers::{Answers, cell};
use crate::connection::{PACKET_BYTES_MAX, exchange};
use crate::errors::{Done, Fault};
use crate::migrations::IDENTITY;
use crate::names::{self, Lane};
use crate::script::Script;
use crate::store::MysqlStore;
use crate::{ids, keys, tasks};
use mysql_async::Transaction;
use punctual_task::rows::Code;
use punctual_task::{Enqueued, NewTask, Reply, StoreError, StoreErrorKind, TaskId, TransactionOf};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A variable of the session may be the caller's, too.
const KEEP: &str = "SET @punctual_now = @now";
const GIVE_BACK: &str = "SET @now = @punctual_now";
const SAVEPOINT: &str = "SAVEPOINT punctual";
const UNDO: &str = "ROLLBACK TO SAVEPOINT punctual";
/// Of a row that this transaction has locked, whatever it could see when it began.
const HOLDER: &str = "SELECT task FROM punctual_unique_key WHERE scope = ? AND target = ? AND name = ? FOR UPDATE";

impl TransactionOf<MysqlStore> for Transaction<'_> {
    fn enqueue<'a>(&'a mut self, store: &'a MysqlStore, tasks: Vec<NewTask>) -> Reply<'a, Vec<Enqueued>> {
        Box::pin(async move {
            tasks::check(&tasks)?;
            if tasks.is_empty() {
                return Ok(Vec::new());
            }
            let tasks = Arc::new(tasks);
            let lanes = name(store, &tasks).await?;
            let batch: Vec<(&NewTask, (u32, Lane))> = tasks.iter().zip(lanes).collect();
            let written = write(self, store, &batch).await;
            if written.is_err() {
                // Where the server has rolled back the whole transaction, there is no savepoint to go back to.
                let mut undo = Script::of(UNDO, &[]);
                undo.add(GIVE_BACK, &[]);
                let _ = ask(self, &undo).await;
            }
            written.map_err(|fault| {
                if fault.is_duplicate() {
                    let text = "an id of these tasks is in the database already; draw fresh ids";
                    return StoreError::new(StoreErrorKind::Conflict, format!("{}: {text}", store.shared.address));
                }
                fault.named(&store.shared.address)
            })
        })
    }
}

/// The lanes of tasks, and their ids never to be drawn again, in a commit of the store's own where one is new.
async fn name(store: &MysqlStore, tasks: &Arc<Vec<NewTask>>) -> Result<Vec<(u32, Lane)>, StoreError> {
    let known = || {
        let names = store.shared.names();
        let lane = |task: &NewTask| names.find(&task.queue, &task.method).and_then(|id| Some((id, names.pair(id)?)));
        tasks.iter().map(lane).collect::<Option<Vec<_>>>()
    };
    let last = tasks.iter().map(|task| task.id.0).max().unwrap_or_default();
    if let Some(lanes) = known().filter(|_| store.shared.ids.knows(last)) {
        return Ok(lanes);
    }
    let tasks = Arc::clone(tasks);
    let learnt = store.on(&store.writes, move |session, _: &mut Option<()>| {
        let tasks = Arc::clone(&tasks);
        Box::pin(async move {
            session.begin(&Script::new()).await?;
            for task in tasks.iter() {
                names::lane(session, &task.queue, &task.method).await?;
            }
            let mut script = Script::new();
            ids::pass(session, last, &mut script).await?;
            session.commit(script).await.map(drop)
        })
    });
    learnt.await?;
    known().ok_or_else(|| Fault::bug("a lane was written and is not known").named(&store.shared.address))
}

async fn write(tx: &mut Transaction<'_>, store: &MysqlStore, batch: &[(&NewTask, (u32, Lane))]) -> Done<Vec<Enqueued>> {
    let shared = &store.shared;
    let mut script = Script::of(KEEP, &[]);
    script.add(SAVEPOINT, &[]);
    script.add(IDENTITY, &[]);
    shared.time.ask(&mut script);
    let mut given: Vec<Enqueued> = batch.iter().map(|(task, _)| Enqueued { id: task.id, inserted: true }).collect();
    // In the order of the keys, so that those who meet on several of them wait and do not deadlock; of equal ones the first wins.
    let mut keyed: Vec<(usize, (i16, u32, &str))> = Vec::new();
    for (at, (task, (_, lane))) in batch.iter().enumerate() {
        if let Some(key) = &task.key {
            keyed.push((at, (key.scope.code(), keys::target(key, lane), &key.text)));
        }
    }
    keyed.sort_by_key(|(_, place)| *place);
    for (at, (scope, target, text)) in &keyed {
        if let Some((task, key)) = batch.get(*at).and_then(|(task, _)| Some((task, task.key.as_ref()?))) {
            keys::add_take(&mut script, key, *target, task.id.0);
            script.add(HOLDER, &[(*scope).into(), (*target).into(), (*text).into()]);
        }
    }
    if keyed.is_empty() {
        let all: Vec<(&NewTask, u32)> = batch.iter().map(|(task, (lane, _))| (*task, *lane)).collect();
        tasks::write(&mut script, &all)?;
        script.add(GIVE_BACK, &[]);
    }
    let mut answers = ask(tx, &script).await.map_err(here)?;
    answers.skip(2)?;
    let identity = answers.rows()?;
    if identity.first().map(|row| cell::<String>(row, 0)).transpose()?.as_deref() != Some(store.identity()) {
        return Err(elsewhere());
    }
    shared.time.answer(&mut answers)?;
    if keyed.is_empty() {
        return Ok(given);
    }
    let mut holders: BTreeMap<usize, i64> = BTreeMap::new();
    for (at, _) in &keyed {
        answers.skip(1)?;
        let rows = answers.rows()?;
        let row = rows.first().ok_or_else(|| Fault::bug("a unique key was neither free nor held"))?;
        holders.insert(*at, cell(row, 0)?);
    }
    let mut new = Vec::with_capacity(batch.len());
    for (at, ((task, (lane, _)), given)) in batch.iter().zip(&mut given).enumerate() {
        match (holders.get(&at), &task.key) {
            (Some(holder), Some(key)) if TaskId(*holder) != task.id => *given = tasks::held(key, *holder)?,
            _ => new.push((*task, *lane)),
        }
    }
    let mut script = Script::new();
    tasks::write(&mut script, &new)?;
    script.add(GIVE_BACK, &[]);
    ask(tx, &script).await?;
    Ok(given)
}

/// Runs statements in the caller's transaction.
async fn ask(tx: &mut Transaction<'_>, script: &Script) -> Done<Answers> {
    let mut sets = Vec::with_capacity(script.statements());
    for (packet, count) in script.packets(PACKET_BYTES_MAX) {
        exchange(tx, &packet, count, &mut sets).await?;
    }
    Ok(Answers::new(sets))
}

fn elsewhere() -> Fault {
    Fault::Store(StoreError::refused(
        "the transaction is not in the store's database; begin it on a connection that has the same database selected",
    ))
}

/// Tables that are not there are those of a database that the transaction should not be in.
fn here(fault: Fault) -> Fault {
    // 1046 is "no database selected".
    if matches!(fault.code(), Some(1146 | 1046)) { elsewhere() } else { fault }
}
