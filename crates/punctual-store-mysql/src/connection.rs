//! One connection: how it is opened, what it needs of the server, and its one transaction at a time.

use crate::answers::{Answers, Set, cell};
use crate::errors::{Done, Fault};
use crate::moment::Moment;
use crate::names::Lane;
use crate::script::Script;
use crate::shared::Shared;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use punctual_task::{StoreError, StoreErrorKind};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How long a packet of statements grows, in bytes: longer ones are slower than their parts.
pub(crate) const PACKET_BYTES_MAX: usize = 3 << 20;
/// What a packet needs beside its statements, in bytes.
const PACKET_BYTES_KEPT: usize = 1024;
/// How long it may take to connect.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// A lock that is held for longer than this by another transaction is given up for this attempt, in seconds.
const LOCK_WAIT_SECONDS: i64 = 5;

const SET_UP: [&str; 4] = [
    "SET NAMES utf8mb4",
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO',
     time_zone = '+00:00', autocommit = 1, sql_safe_updates = 0, sql_select_limit = 18446744073709551615",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SELECT VERSION(), @@max_allowed_packet",
];
const LOCK_WAIT: &str = "SET SESSION innodb_lock_wait_timeout = ?";
const BEGIN: &str = "START TRANSACTION";
const SNAPSHOT: [&str; 2] =
    ["SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"];
const COMMIT: &str = "COMMIT";
const ROLL_BACK: &str = "ROLLBACK";

/// Where a session's transaction stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// There is none.
    Idle,
    /// It is open: if the connection breaks it is rolled back.
    Open,
    /// Its commit was sent and not answered: if the connection breaks nothing is known.
    Committing,
}

/// One connection and its transaction.
pub(crate) struct Session {
    conn: Conn,
    pub(crate) shared: Arc<Shared>,
    stage: Stage,
    packet_bytes: usize,
    answer: Duration,
    /// How many statements of the last script were answered.
    answered: usize,
    /// Lanes that this transaction added: known to others when it is committed.
    pub(crate) fresh: Vec<(u32, Lane)>,
}

impl fmt::Debug for Session {
    /// The driver's own form shows the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &self.conn.id()).field("stage", &self.stage).finish_non_exhaustive()
    }
}

impl Session {
    /// Connects and sets the session up. `answer` bounds every wait for the server.
    pub(crate) async fn connect(shared: Arc<Shared>, answer: Duration) -> Done<Self> {
        let connecting = tokio::time::timeout(CONNECT_MAX.min(answer), Conn::new(shared.address.opts()));
        let conn = connecting.await.map_err(|_| Fault::Silent)??;
        shared.counters.connections.add(1);
        let mut session = Session {
            conn,
            shared,
            stage: Stage::Idle,
            packet_bytes: PACKET_BYTES_MAX,
            answer,
            answered: 0,
            fresh: Vec::new(),
        };
        let mut script = Script::of(LOCK_WAIT, &[LOCK_WAIT_SECONDS.into()]);
        for text in SET_UP {
            script.add(text, &[]);
        }
        let mut answers = session.run(&script).await?;
        answers.skip(SET_UP.len())?;
        let rows = answers.rows()?;
        let row = rows.first().ok_or_else(|| Fault::bug("the server has no version"))?;
        let version: String = cell(row, 0)?;
        check_version(&version)?;
        let packet: usize = cell(row, 1)?;
        session.packet_bytes = packet.saturating_sub(PACKET_BYTES_KEPT).min(PACKET_BYTES_MAX);
        session.shared.learn_version(&version);
        Ok(session)
    }

    /// Sends statements and gives what each of them gave. One that fails ends the script.
    pub(crate) async fn run(&mut self, script: &Script) -> Done<Answers> {
        self.answered = 0;
        let mut sets = Vec::with_capacity(script.statements());
        let packets = script.packets(self.packet_bytes);
        for (packet, count) in packets {
            self.shared.counters.round_trips.add(1);
            self.shared.counters.statements.add(count);
            let answering =
                tokio::time::timeout(self.answer, exchange(&mut self.conn, &packet, count, &mut sets)).await;
            self.answered = sets.len();
            answering.map_err(|_| Fault::Silent)??;
        }
        Ok(Answers::new(sets))
    }

    /// Sends one statement of a migration.
    pub(crate) async fn run_text(&mut self, text: &str) -> Done<()> {
        self.shared.counters.round_trips.add(1);
        self.shared.counters.statements.add(1);
        let mut sets = Vec::new();
        let answering = tokio::time::timeout(self.answer, exchange(&mut self.conn, text.as_bytes(), 1, &mut sets));
        answering.await.map_err(|_| Fault::Silent)?
    }

    /// Begins a transaction that may write: reads the clock and runs `first` in it, in one round trip.
    pub(crate) async fn begin(&mut self, first: &Script) -> Done<(Moment, Answers)> {
        self.open_with(&[BEGIN], first).await
    }

    /// Begins a transaction in which every read sees the same state, in the same way.
    pub(crate) async fn begin_reading(&mut self, first: &Script) -> Done<(Moment, Answers)> {
        self.open_with(&SNAPSHOT, first).await
    }

    async fn open_with(&mut self, begin: &[&'static str], first: &Script) -> Done<(Moment, Answers)> {
        let mut script = Script::new();
        for text in begin {
            script.add(text, &[]);
        }
        let time = self.shared.time.clone();
        time.ask(&mut script);
        script.append(first);
        self.stage = Stage::Open;
        let mut answers = self.run(&script).await?;
        answers.skip(begin.len())?;
        Ok((time.answer(&mut answers)?, answers))
    }

    /// Runs the last statements of a transaction and commits it, in one round trip if they fit one packet.
    pub(crate) async fn commit(&mut self, last: Script) -> Done<Answers> {
        self.commit_then(last, &Script::new()).await
    }

    /// The same, and `after` behind the commit.
    pub(crate) async fn commit_then(&mut self, mut last: Script, after: &Script) -> Done<Answers> {
        last.add(COMMIT, &[]);
        let committed = last.statements();
        last.append(after);
        self.stage = Stage::Committing;
        let answers = self.run(&last).await;
        if self.answered >= committed {
            self.stage = Stage::Idle;
            self.shared.counters.commits.add(1);
            self.shared.names().learn(self.fresh.drain(..));
        }
        answers
    }

    /// A whole transaction in one round trip: nothing that it writes depends on what it reads.
    pub(crate) async fn write_at_once(&mut self, script: &Script) -> Done<Answers> {
        let mut whole = Script::of(BEGIN, &[]);
        let time = self.shared.time.clone();
        time.ask(&mut whole);
        let before = whole.statements();
        whole.append(script);
        let mut answers = self.commit(whole).await?;
        answers.skip(before)?;
        Ok(answers)
    }

    /// Ends a transaction that has only read.
    pub(crate) async fn end(&mut self) -> Done<()> {
        self.run(&Script::of(COMMIT, &[])).await?;
        self.stage = Stage::Idle;
        Ok(())
    }

    /// Whether a commit was sent and not answered.
    pub(crate) fn is_committing(&self) -> bool {
        self.stage == Stage::Committing
    }

    /// Undoes the open transaction. Gives whether the connection is of use afterwards.
    pub(crate) async fn roll_back(&mut self) -> bool {
        self.fresh.clear();
        if self.stage == Stage::Idle {
            return true;
        }
        let undone = self.run(&Script::of(ROLL_BACK, &[])).await.is_ok();
        if undone {
            self.stage = Stage::Idle;
        }
        undone
    }

    /// Says goodbye to the server.
    pub(crate) async fn disconnect(self) {
        // The server ends the session by itself if the word does not reach it.
        let _ = tokio::time::timeout(Duration::from_secs(1), self.conn.disconnect()).await;
    }
}

/// Sends a packet of `count` statements and reads what each of them gave. The driver cannot tell a last statement without
/// rows from the end, so they are counted.
pub(crate) async fn exchange(conn: &mut impl Queryable, packet: &[u8], count: usize, sets: &mut Vec<Set>) -> Done<()> {
    let mut result = conn.query_iter(packet).await?;
    for _ in 0..count {
        let (affected, drawn) = (result.affected_rows(), result.last_insert_id().unwrap_or(0));
        let mut rows = Vec::new();
        while let Some(row) = result.next().await? {
            rows.push(row);
        }
        sets.push(Set { rows, affected, drawn });
    }
    if result.is_empty() { Ok(()) } else { Err(Fault::bug(format!("{count} statements gave more answers"))) }
}

/// Refuses servers that cannot skip locked rows.
fn check_version(version: &str) -> Result<(), StoreError> {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let (product, least) = if version.contains("MariaDB") { ("MariaDB", (10, 6, 0)) } else { ("MySQL", (8, 0, 1)) };
    if found >= least {
        return Ok(());
    }
    Err(StoreError::new(
        StoreErrorKind::Version,
        format!(
            "the server is {product} {version}, which cannot pass over locked rows; use MariaDB 10.6 or MySQL 8.0.1, or \
             anything newer"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server without `SKIP LOCKED` is refused by both its version and the one that is needed.
    #[test]
    fn old_servers_are_refused() {
        for good in ["10.6.0-MariaDB", "10.11.19-MariaDB-0+deb12u1", "11.8.2-MariaDB", "8.0.1", "9.4.0"] {
            assert_eq!(check_version(good), Ok(()), "{good}");
        }
        for bad in ["10.5.28-MariaDB-log", "5.7.44", "8.0.0-dmr", ""] {
            let refused = check_version(bad).expect_err(bad);
            assert_eq!(refused.kind(), StoreErrorKind::Version);
            assert!(refused.to_string().contains("10.6"), "{refused}");
        }
    }
}
