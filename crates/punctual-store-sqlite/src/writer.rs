//! The writer: one thread that owns the one writing connection, and group commit.
//!
//! ```text
//! callers ──bounded queue──▶ writer: BEGIN IMMEDIATE · savepoint each operation · COMMIT (one sync) ──▶ all replies
//! ```
//!
//! While a commit waits for the disk, other operations queue up and become the next group: the more callers, the larger
//! the groups. An operation that fails undoes its own savepoint only. A group that cannot be committed for want of room is
//! run again one by one, so that one large operation does not fail the small ones. Nobody is answered before the commit.

use crate::config::SqliteConfig;
use crate::counters::Counters;
use crate::errors::{Done, Fault, caught};
use crate::location::Location;
use crate::session::Session;
use punctual_clock::{Clock, Instant};
use punctual_task::{StoreError, StoreErrorKind};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use tokio::sync::{mpsc, oneshot};

/// The callers' end.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: mpsc::Sender<Queued>,
    location: Location,
    clock: Arc<dyn Clock>,
    ended: oneshot::Receiver<()>,
}

/// An operation and since when it waits.
struct Queued {
    work: Box<dyn Work>,
    since: Instant,
}

impl std::fmt::Debug for Queued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queued").field("since", &self.since).finish_non_exhaustive()
    }
}

/// An operation that can be run again.
trait Work: Send {
    /// Runs inside a savepoint. The result is kept until the group is committed.
    fn run(&mut self, session: &mut Session) -> Done<()>;
    /// Answers with the kept result, or with why the group failed.
    fn reply(self: Box<Self>, group: Result<(), StoreError>);
}

struct Call<F, T> {
    run: F,
    result: Option<Result<T, StoreError>>,
    caller: oneshot::Sender<Result<T, StoreError>>,
}

impl<F, T> Work for Call<F, T>
where
    F: FnMut(&mut Session) -> Done<T> + Send,
    T: Send,
{
    fn run(&mut self, session: &mut Session) -> Done<()> {
        let run = &mut self.run;
        let outcome = session.step(|session| caught(|| run(session)));
        match outcome {
            Ok(value) => {
                self.result = Some(Ok(value));
                Ok(())
            }
            Err(fault) => Err(fault),
        }
    }

    fn reply(self: Box<Self>, group: Result<(), StoreError>) {
        let result = match (group, self.result) {
            (Err(error), _) => Err(error),
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => Err(StoreError::new(StoreErrorKind::Bug, "an operation was not run; please report it")),
        };
        // A caller that went away does not want to know.
        let _ = self.caller.send(result);
    }
}

impl Writer {
    /// Opens the database on a thread of its own.
    pub(crate) async fn start(
        location: Location,
        config: SqliteConfig,
        counters: Arc<Counters>,
    ) -> Result<Self, StoreError> {
        let (queue, queued) = mpsc::channel(config.queue_max);
        let (opened, opening) = oneshot::channel();
        let (ending, ended) = oneshot::channel();
        let clock = config.clock.clone();
        let place = location.clone();
        spawn("punctual-sqlite-writer", move || {
            match Session::open(place, config) {
                Ok(session) => {
                    if opened.send(Ok(())).is_ok() {
                        serve(Loop { session, queued, ahead: VecDeque::new(), counters });
                    }
                }
                Err(error) => {
                    let _ = opened.send(Err(error));
                }
            }
            let _ = ending.send(());
        })?;
        opening.await.unwrap_or_else(|_| Err(gone()))?;
        Ok(Writer { queue, location, clock, ended })
    }

    /// Runs an operation in the next group and answers after its commit.
    pub(crate) async fn run<T, F>(&self, run: F) -> Result<T, StoreError>
    where
        F: FnMut(&mut Session) -> Done<T> + Send + 'static,
        T: Send + 'static,
    {
        let (caller, answer) = oneshot::channel();
        let work = Box::new(Call { run, result: None, caller });
        // Waiting for room is bounded: the writer answers every operation within its wait, whatever the outcome.
        self.queue.send(Queued { work, since: self.clock.now() }).await.map_err(|_| gone())?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    pub(crate) fn location(&self) -> &Location {
        &self.location
    }

    /// Finishes what is queued and closes the connection.
    pub(crate) async fn close(self) {
        drop(self.queue);
        let _ = self.ended.await;
    }
}

/// Starts a thread with a name that a debugger shows.
pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
    thread::Builder::new().name(name.to_owned()).spawn(body).map(drop).map_err(|error| {
        StoreError::new(
            StoreErrorKind::Unavailable,
            format!("cannot start a thread for the database ({error}); raise the limit of threads"),
        )
    })
}

/// The thread behind the queue has ended, which it does only when the store is dropped or it panicked.
pub(crate) fn gone() -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "the database is closed; open it again")
}

struct Loop {
    session: Session,
    queued: mpsc::Receiver<Queued>,
    /// Taken from the queue and put back to be first.
    ahead: VecDeque<Queued>,
    counters: Arc<Counters>,
}

/// What became of a member of a group before the commit.
struct Member {
    work: Box<dyn Work>,
    outcome: Result<(), StoreError>,
}

fn serve(mut writer: Loop) {
    while let Some(first) = writer.next() {
        writer.group(first);
    }
}

impl Loop {
    fn next(&mut self) -> Option<Queued> {
        self.ahead.pop_front().or_else(|| self.queued.blocking_recv())
    }

    fn next_now(&mut self) -> Option<Queued> {
        self.ahead.pop_front().or_else(|| self.queued.try_recv().ok())
    }

    fn group(&mut self, first: Queued) {
        if let Err(fault) = self.session.begin() {
            self.refuse(first, fault);
            return;
        }
        let clock = self.session.config().clock.clone();
        let (time, rows) = (self.session.config().group_time, self.session.config().group_rows);
        let begun = clock.now();
        let changed_before = self.session.db.conn().total_changes();
        let mut members: Vec<Member> = Vec::new();
        let mut next = Some(first.work);
        while let Some(mut work) = next.take() {
            let outcome = work.run(&mut self.session);
            if let Err(fault) = outcome {
                let (whole, spoils) = (self.session.in_transaction(), fault.spoils_connection());
                members.push(Member { work, outcome: Err(fault.named(&self.session.location)) });
                if !whole || spoils {
                    self.abandon(members, spoils);
                    return;
                }
            } else {
                members.push(Member { work, outcome: Ok(()) });
            }
            let changed = self.session.db.conn().total_changes().wrapping_sub(changed_before);
            if members.len() < self.session.config().queue_max && changed < rows && clock.now().since(begun) < time {
                next = self.next_now().map(|queued| queued.work);
            }
        }
        let committed = self.session.commit();
        let changed = self.session.db.conn().total_changes().wrapping_sub(changed_before);
        self.counters.group(members.len(), changed, self.session.db.take_statements());
        match committed {
            Ok(()) => members.into_iter().for_each(|member| member.work.reply(member.outcome)),
            Err(fault) => self.undo(members, fault),
        }
    }

    /// The lock was not to be had, or the database could not be opened again. Whoever has waited as long as may be is
    /// answered; the rest is tried again, so that no wait is longer than twice the configured one.
    fn refuse(&mut self, first: Queued, fault: Fault) {
        self.session.roll_back();
        if fault.spoils_connection() {
            self.session.spoil();
        }
        let error = fault.named(&self.session.location);
        tracing::warn!(location = %self.session.location, %error, "a group of writes could not begin");
        first.work.reply(Err(error.clone()));
        let (now, wait) = (self.session.config().clock.now(), self.session.config().wait);
        while let Some(queued) = self.next_now() {
            if now.since(queued.since) < wait {
                self.ahead.push_front(queued);
                break;
            }
            queued.work.reply(Err(error.clone()));
        }
    }

    /// The transaction was lost under a member. If its connection is in doubt everybody is told that nothing is known;
    /// otherwise the others are run again, one by one.
    fn abandon(&mut self, mut members: Vec<Member>, spoils: bool) {
        self.session.roll_back();
        let Some(last) = members.pop() else { return };
        let error = last.outcome.clone().err().unwrap_or_else(gone);
        last.work.reply(last.outcome);
        if spoils {
            self.session.spoil();
            tracing::warn!(location = %self.session.location, %error, "the database failed; it is opened again");
            members.into_iter().for_each(|member| member.work.reply(Err(error.clone())));
        } else {
            self.session.make_room();
            self.one_by_one(members);
        }
    }

    /// The commit failed.
    fn undo(&mut self, members: Vec<Member>, fault: Fault) {
        self.session.roll_back();
        let spoils = fault.spoils_connection();
        let error = fault.named(&self.session.location);
        tracing::warn!(location = %self.session.location, %error, "a group of writes was not committed");
        if spoils {
            self.session.spoil();
        }
        // Only for want of room is it sure that nothing was written, and worth while to try less at once.
        if error.kind() == StoreErrorKind::Full {
            self.session.make_room();
        }
        if error.kind() == StoreErrorKind::Full && members.len() > 1 {
            self.one_by_one(members);
        } else {
            members.into_iter().for_each(|member| member.work.reply(Err(error.clone())));
        }
    }

    fn one_by_one(&mut self, members: Vec<Member>) {
        for Member { mut work, .. } in members {
            let changed_before = self.session.db.conn().total_changes();
            let outcome =
                self.session.begin().and_then(|()| work.run(&mut self.session)).and_then(|()| self.session.commit());
            if let Err(fault) = &outcome {
                self.session.roll_back();
                if fault.spoils_connection() {
                    self.session.spoil();
                }
            }
            let changed = self.session.db.conn().total_changes().wrapping_sub(changed_before);
            self.counters.group(1, changed, self.session.db.take_statements());
            work.reply(outcome.map_err(|fault| fault.named(&self.session.location)));
        }
    }
}

#[cfg(test)]
mod tests;
