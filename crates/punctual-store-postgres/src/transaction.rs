//! Tasks in a transaction of the caller's, on the caller's own connection to the same database.
//!
//! Names of queues and methods are written beside it, on a connection of the store's: in a transaction that may stay open for
//! long they would hold up everybody who uses the same name for the first time. Without unique keys the rest is one round trip, of
//! a statement that names the schema itself; with keys it is a savepoint, in which the schema is the search path.

use crate::enqueue::{self, ADD};
use crate::errors::{Done, Fault};
use crate::migrations::IDENTITY;
use crate::names::Lane;
use crate::session::{Answers, Asking, NOW, Step, Value, all, step};
use crate::store::{Doing, PostgresStore, Shared};
use punctual_clock::Timestamp;
use punctual_task::{Enqueued, NewTask, Reply, StoreError, StoreErrorKind, TransactionOf};
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Row, Statement, Transaction};

const LEAVE: &str =
    "SELECT set_config('search_path', current_setting('punctual.path'), true); RELEASE SAVEPOINT punctual";
/// The search path goes back with the savepoint.
const UNDO: &str = "ROLLBACK TO SAVEPOINT punctual; RELEASE SAVEPOINT punctual";

/// The types of what is bound to [`ADD`], and of the identity behind it.
const ADD_TYPES: [Type; 11] = [
    Type::INT8,
    Type::INT8_ARRAY,
    Type::INT4_ARRAY,
    Type::INT2_ARRAY,
    Type::INT8_ARRAY,
    Type::INT8_ARRAY,
    Type::INT8_ARRAY,
    Type::BYTEA_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT,
];

/// [`ADD`] in a schema of this name, whatever the search path is, which writes nothing where the schema is not the store's.
fn add_in(schema: &str) -> String {
    // SQL-FORMAT: the name was checked when the address was read: small letters, digits and underscores.
    let ours = format!(
        "unique_key) WHERE EXISTS (SELECT FROM {schema}.meta
            WHERE name = 'identity' AND value = $11)),"
    );
    // SQL-FORMAT: the same name.
    let add = ADD.replace("INSERT INTO ", &format!("INSERT INTO {schema}."));
    add.replace("unique_key)),", &ours)
}

/// Begins the part with unique keys.
fn enter(schema: &str) -> String {
    // SQL-FORMAT: the name was checked when the address was read: small letters, digits and underscores.
    format!(
        "SAVEPOINT punctual; SELECT set_config('punctual.path', current_setting('search_path'), true);
        SELECT set_config('search_path', '{schema}', true)"
    )
}

impl TransactionOf<PostgresStore> for Transaction<'_> {
    fn enqueue<'a>(&'a mut self, store: &'a PostgresStore, tasks: Vec<NewTask>) -> Reply<'a, Vec<Enqueued>> {
        Box::pin(async move {
            enqueue::check(&tasks)?;
            if tasks.is_empty() {
                return Ok(Vec::new());
            }
            let tasks = Arc::new(tasks);
            let lanes = store.run(Arc::clone(&tasks), name).await?;
            let batch: Vec<(&NewTask, Lane)> = tasks.iter().zip(lanes).collect();
            let given = if tasks.iter().all(|task| task.key.is_none()) {
                write(self, store, &batch).await
            } else {
                write_with_keys(self, store, &batch).await
            };
            given.map_err(|fault| {
                if fault.is_duplicate() {
                    let text = "an id of these tasks is in the database already; roll back, and draw fresh ids";
                    return StoreError::new(StoreErrorKind::Conflict, format!("{}: {text}", store.location()));
                }
                fault.named(store.location())
            })
        })
    }
}

/// The lanes of tasks, listed, and their ids never to be drawn again, in commits of the store's own.
fn name<'a>(
    shared: &'a Shared,
    session: &'a mut crate::session::Session,
    tasks: &'a Arc<Vec<NewTask>>,
) -> Doing<'a, Vec<Lane>> {
    Box::pin(async move {
        let pairs: Vec<(&str, &str)> = tasks.iter().map(|task| (&*task.queue, &*task.method)).collect();
        let lanes = shared.names.lanes(session, &pairs).await?;
        shared.sequence.pass(session, tasks.iter().map(|task| task.id.0).max().unwrap_or_default()).await?;
        if let Some(list) = shared.names.list(&lanes) {
            session.once(list).await?;
            shared.names.listed(&lanes);
        }
        Ok(lanes)
    })
}

async fn write(tx: &Transaction<'_>, store: &PostgresStore, batch: &[(&NewTask, Lane)]) -> Done<Vec<Enqueued>> {
    let add = add_in(&store.location().schema);
    for Step { mut values, .. } in enqueue::additions(batch, store.own_now())? {
        values.push(Box::new(store.identity().to_owned()));
        let typed: Vec<(&(dyn ToSql + Sync), Type)> =
            values.iter().zip(ADD_TYPES).map(|(value, of)| (&**value as &(dyn ToSql + Sync), of)).collect();
        match tx.execute_typed(&add, &typed).await {
            Ok(0) => return Err(elsewhere()),
            Ok(_) => {}
            Err(error) => return Err(here(error.into())),
        }
    }
    Ok(batch.iter().map(|(task, _)| Enqueued { id: task.id, inserted: true }).collect())
}

async fn write_with_keys(
    tx: &Transaction<'_>,
    store: &PostgresStore,
    batch: &[(&NewTask, Lane)],
) -> Done<Vec<Enqueued>> {
    tx.batch_execute(&enter(&store.location().schema)).await?;
    let given = inside(tx, store, batch).await;
    tx.batch_execute(if given.is_ok() { LEAVE } else { UNDO }).await?;
    given
}

/// What is done between [`enter`] and [`LEAVE`].
async fn inside(tx: &Transaction<'_>, store: &PostgresStore, batch: &[(&NewTask, Lane)]) -> Done<Vec<Enqueued>> {
    let mut guest = Guest { tx, statements: HashMap::new() };
    let own = store.own_now().map(Timestamp::as_micros);
    let answers = guest.ask(vec![step!(IDENTITY), step!(NOW, own, own)]).await.map_err(here)?;
    let [identity, now] = answers.as_slice() else {
        return Err(Fault::bug("two statements gave other than two answers"));
    };
    if identity.first().map(|row| row.try_get::<_, String>(0)).transpose()?.as_deref() != Some(store.identity()) {
        return Err(elsewhere());
    }
    let now = now.first().ok_or_else(|| Fault::bug("the clock gave no time"))?;
    let now = Timestamp::from_micros(now.try_get(0)?);
    let (new, given) = enqueue::sort_out(&mut guest, batch).await?;
    guest.ask(enqueue::additions(&new, Some(now))?).await?;
    Ok(given)
}

fn elsewhere() -> Fault {
    Fault::Store(StoreError::refused(
        "the transaction is not in the store's database, or its schema is another store's; begin it in the same database",
    ))
}

/// Tables that are not there are those of a database that the transaction should not be in.
fn here(fault: Fault) -> Fault {
    match &fault {
        Fault::Sql(error) if error.code().is_some_and(|code| matches!(code.code(), "42P01" | "3F000")) => elsewhere(),
        _ => fault,
    }
}

/// The caller's transaction, as what asks for things in one of the store's own.
struct Guest<'a, 't> {
    tx: &'a Transaction<'t>,
    /// Prepared for this call, and gone with it.
    statements: HashMap<&'static str, Statement>,
}

type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T, tokio_postgres::Error>> + Send + 'a>>;

impl Asking for Guest<'_, '_> {
    async fn ask(&mut self, steps: Vec<Step>) -> Done<Answers> {
        let mut missing: Vec<&'static str> =
            steps.iter().map(|step| step.sql).filter(|sql| !self.statements.contains_key(sql)).collect();
        missing.sort_unstable();
        missing.dedup();
        let preparing: Vec<Pending<'_, Statement>> =
            missing.iter().map(|sql| Box::pin(self.tx.prepare(sql)) as Pending<'_, Statement>).collect();
        let prepared = all(preparing).await;
        for (sql, statement) in missing.into_iter().zip(prepared) {
            self.statements.insert(sql, statement?);
        }
        let mut running: Vec<Pending<'_, Vec<Row>>> = Vec::with_capacity(steps.len());
        for step in &steps {
            let statement = self.statements.get(step.sql).ok_or_else(|| Fault::bug("a statement was not prepared"))?;
            running.push(Box::pin(query(self.tx, statement, &step.values)));
        }
        Ok(all(running).await.into_iter().collect::<Result<_, _>>()?)
    }
}

async fn query(
    tx: &Transaction<'_>,
    statement: &Statement,
    values: &[Value],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect();
    tx.query(statement, &values).await
}

#[cfg(test)]
mod tests {
    use super::{add_in, enter};

    /// The statement for a caller's transaction names the schema wherever a table is named, and looks once whether it is the
    /// store's: a search path of the caller's decides nothing.
    #[test]
    fn every_table_is_named_with_its_schema() {
        let add = add_in("app");
        assert_eq!(add.matches("INSERT INTO app.").count(), 3, "{add}");
        assert_eq!(add.matches("INSERT INTO ").count(), 3, "{add}");
        assert_eq!(add.matches("app.meta").count(), 1, "{add}");
        assert!(enter("app").contains("'app'"));
    }
}
