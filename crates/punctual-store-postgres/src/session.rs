//! One operation on one connection: transactions whose statements go out together and whose answers are awaited once.
//!
//! A round trip costs more than most statements, so what does not depend on an earlier answer is sent at once: a transaction
//! begins with its first statements and commits with its last. All of a transaction sees one time, which its first statement
//! reads from the database's clock.

use crate::counters::Counters;
use crate::errors::{Done, Fault};
use crate::pool::Lent;
use punctual_clock::{Clock, Timestamp};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

/// A value bound to a statement.
pub(crate) type Value = Box<dyn ToSql + Sync + Send>;

/// A statement with what is bound to it.
pub(crate) struct Step {
    pub(crate) sql: &'static str,
    pub(crate) values: Vec<Value>,
}

/// A [`Step`] of a statement and its values.
macro_rules! step {
    ($sql:expr $(, $value:expr)* $(,)?) => {
        $crate::session::Step { sql: $sql, values: vec![$(Box::new($value) as $crate::session::Value),*] }
    };
}
pub(crate) use step;

/// `clock_timestamp()` and never `now()`, which is the time at which a transaction began, and so before it waited for anything.
/// Kept for the transaction's statements, which say `current_setting('punctual.now')`.
pub(crate) const NOW: &str = "SELECT t.now, t.lease, set_config('punctual.now', t.now::text, true),
    set_config('punctual.lease', t.lease::text, true)
    FROM (SELECT coalesce($1::bigint, c.at) AS now, coalesce($2::bigint, c.at) AS lease
        FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS at) c) t";

/// The time of a transaction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// What decides what is due.
    pub(crate) now: Timestamp,
    /// What leases are measured with: the same, but for a clock that a test owns, where it is the monotonic one.
    pub(crate) lease: i64,
}

/// Whether a transaction writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Write,
    /// Everything is read as it was at one instant.
    Read,
}

impl Kind {
    fn begin(self) -> &'static str {
        match self {
            Kind::Write => "BEGIN",
            Kind::Read => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        }
    }
}

/// One operation's use of a connection.
pub(crate) struct Session {
    lent: Lent,
    kind: Kind,
    clock: Option<Arc<dyn Clock>>,
    counters: Arc<Counters>,
    times: Option<Times>,
    /// A transaction is open, as far as is known.
    open: bool,
    /// A commit was sent, so that a broken connection leaves unknown what was written.
    committed: bool,
}

/// The rows that each of some statements gave.
pub(crate) type Answers = Vec<Vec<Row>>;

/// What statements are asked of: a transaction of the store's, or one of a caller's.
pub(crate) trait Asking: Send {
    /// Runs statements in the transaction.
    fn ask(&mut self, steps: Vec<Step>) -> impl Future<Output = Done<Answers>> + Send;
}

impl Asking for Session {
    fn ask(&mut self, steps: Vec<Step>) -> impl Future<Output = Done<Answers>> + Send {
        Session::ask(self, steps)
    }
}

impl Session {
    pub(crate) fn new(lent: Lent, kind: Kind, clock: Option<Arc<dyn Clock>>, counters: Arc<Counters>) -> Self {
        Session { lent, kind, clock, counters, times: None, open: false, committed: false }
    }

    /// Whether what was written is unknown if the connection broke.
    pub(crate) fn sent_commit(&self) -> bool {
        self.committed
    }

    /// The transaction's time.
    ///
    /// # Errors
    /// Before its first statement.
    pub(crate) fn times(&self) -> Done<Times> {
        self.times.ok_or_else(|| Fault::bug("a transaction's time was asked for before it began"))
    }

    pub(crate) fn now(&self) -> Done<Timestamp> {
        Ok(self.times()?.now)
    }

    /// Runs statements in the transaction, which begins with the first of them.
    pub(crate) async fn ask(&mut self, steps: Vec<Step>) -> Done<Answers> {
        self.send(steps, false).await
    }

    /// Runs one statement in the transaction.
    pub(crate) async fn rows(&mut self, step: Step) -> Done<Vec<Row>> {
        Ok(self.ask(vec![step]).await?.pop().unwrap_or_default())
    }

    /// Runs the last statements of the transaction and commits.
    pub(crate) async fn commit(&mut self, steps: Vec<Step>) -> Done<Answers> {
        self.send(steps, true).await
    }

    /// Ends a transaction that wrote nothing, or whose writes are not wanted.
    pub(crate) async fn roll_back(&mut self) -> Done<()> {
        if self.open {
            self.lent.get()?.client.batch_execute("ROLLBACK").await?;
            self.open = false;
        }
        self.times = None;
        Ok(())
    }

    /// Runs one statement that is its own transaction. A duplicate row or any other refusal leaves nothing behind.
    pub(crate) async fn once(&mut self, step: Step) -> Done<Vec<Row>> {
        self.prepare(std::slice::from_ref(&step)).await?;
        self.committed = true;
        self.counters.sent(1, 1);
        let timeout = self.lent.connector().answer_timeout();
        let connection = self.lent.get()?;
        let statement = find(&connection.statements, step.sql)?;
        let run = run(&connection.client, statement, &step.values);
        Ok(tokio::time::timeout(timeout, run).await.map_err(|_| Fault::Silent)??)
    }

    /// Runs one statement, in the transaction if one is open, else as its own.
    pub(crate) async fn single(&mut self, step: Step) -> Done<Vec<Row>> {
        if self.open { self.rows(step).await } else { self.once(step).await }
    }

    /// Whether a transaction is open.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    async fn send(&mut self, mut steps: Vec<Step>, commit: bool) -> Done<Answers> {
        let begins = !self.open;
        if begins {
            if steps.is_empty() && commit {
                return Ok(Vec::new());
            }
            let now = self.clock.as_ref().map(|clock| clock.timestamp().as_micros());
            let lease =
                self.clock.as_ref().map(|clock| i64::try_from(clock.now().as_nanos() / 1000).unwrap_or(i64::MAX));
            steps.insert(0, step!(NOW, now, lease));
        }
        self.prepare(&steps).await?;
        self.open = true;
        self.committed = commit;
        self.counters.sent(steps.len(), u64::from(commit && self.kind == Kind::Write));
        let timeout = self.lent.connector().answer_timeout();
        let begin = self.kind.begin();
        let Connection { client, statements } = self.lent.get()?;
        let mut pending: Vec<Pending<'_>> = Vec::with_capacity(steps.len() + 2);
        if begins {
            pending.push(Box::pin(async { client.batch_execute(begin).await.map(|()| Vec::new()) }));
        }
        for step in &steps {
            let statement = find(statements, step.sql)?;
            pending.push(Box::pin(run(client, statement, &step.values)));
        }
        if commit {
            // A commit of a transaction in which a statement failed rolls back, and that statement's error is what is told.
            pending.push(Box::pin(async { client.batch_execute("COMMIT").await.map(|()| Vec::new()) }));
        }
        let answers = tokio::time::timeout(timeout, all(pending)).await.map_err(|_| Fault::Silent)?;
        if commit && answers.last().is_some_and(Result::is_ok) {
            self.open = false;
        }
        let mut answers: Answers = answers.into_iter().collect::<Result<_, _>>()?;
        if commit {
            answers.pop();
            self.times = None;
        }
        if begins {
            answers.remove(0);
            let times = answers.remove(0);
            let row = times.first().ok_or_else(|| Fault::bug("the clock gave no time"))?;
            self.times = Some(Times { now: Timestamp::from_micros(row.try_get(0)?), lease: row.try_get(1)? });
        }
        Ok(answers)
    }

    /// Prepares what this connection has not, all at once.
    async fn prepare(&mut self, steps: &[Step]) -> Done<()> {
        let timeout = self.lent.connector().answer_timeout();
        let Connection { client, statements } = self.lent.get()?;
        let mut missing: Vec<&'static str> =
            steps.iter().map(|step| step.sql).filter(|sql| !statements.contains_key(sql)).collect();
        missing.sort_unstable();
        missing.dedup();
        #[cfg(test)]
        missing.iter().for_each(|sql| crate::plans::seen(sql));
        if missing.is_empty() {
            return Ok(());
        }
        let pending =
            missing.iter().map(|sql| Box::pin(client.prepare(sql)) as Pin<Box<dyn Future<Output = _> + Send>>);
        let prepared = tokio::time::timeout(timeout, all(pending.collect())).await.map_err(|_| Fault::Silent)?;
        for (sql, statement) in missing.into_iter().zip(prepared) {
            statements.insert(sql, statement?);
        }
        Ok(())
    }

    /// Gives the connection back if nothing is open on it. Otherwise it is closed, and the server rolls back.
    pub(crate) async fn end(mut self) {
        if self.open && self.roll_back().await.is_err() {
            return;
        }
        self.lent.give_back();
    }

    /// Closes the connection.
    pub(crate) fn abandon(self) {
        drop(self);
    }
}

use crate::connection::Connection;

type Pending<'a> = Pin<Box<dyn Future<Output = Result<Vec<Row>, tokio_postgres::Error>> + Send + 'a>>;

fn find<'a>(statements: &'a std::collections::HashMap<&'static str, Statement>, sql: &str) -> Done<&'a Statement> {
    statements.get(sql).ok_or_else(|| Fault::bug("a statement was not prepared"))
}

async fn run(client: &Client, statement: &Statement, values: &[Value]) -> Result<Vec<Row>, tokio_postgres::Error> {
    let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect();
    client.query(statement, &values).await
}

/// Awaits all. Each is polled for the first time, and so sent, in the order given.
pub(crate) async fn all<T>(mut pending: Vec<Pin<Box<dyn Future<Output = T> + Send + '_>>>) -> Vec<T> {
    let mut answers: Vec<Option<T>> = pending.iter().map(|_| None).collect();
    std::future::poll_fn(move |context| {
        let mut left = false;
        for (future, answer) in pending.iter_mut().zip(&mut answers) {
            if answer.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(ready) => *answer = Some(ready),
                    Poll::Pending => left = true,
                }
            }
        }
        if left { Poll::Pending } else { Poll::Ready(answers.drain(..).flatten().collect()) }
    })
    .await
}
