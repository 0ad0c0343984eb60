//! Plain SQL on MariaDB.

use crate::stores::sqlite::at_of;
use crate::stores::work::LANES;
use anyhow::Context as _;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};
use punctual_store_mysql::migrations;
use std::fmt::Write;

pub struct Maria(Conn);

async fn connect(url: &str) -> anyhow::Result<Conn> {
    let mut conn = Conn::new(Opts::from_url(url)?).await?;
    conn.query_drop("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await?;
    Ok(conn)
}

/// `(row 1), (row 2), ..`
fn rows(ids: impl Iterator<Item = i64>, mut row: impl FnMut(&mut String, i64)) -> String {
    let mut text = String::new();
    for id in ids {
        text.push_str(if text.is_empty() { "(" } else { "), (" });
        row(&mut text, id);
    }
    text.push(')');
    text
}

impl Maria {
    pub async fn durability(url: &str) -> anyhow::Result<String> {
        let mut conn = connect(url).await?;
        let row: Option<(String, i64)> = conn.query_first("SELECT @@version, @@innodb_flush_log_at_trx_commit").await?;
        let (version, flush) = row.unwrap_or_default();
        Ok(format!("{version}, innodb_flush_log_at_trx_commit = {flush}"))
    }

    pub async fn logged_bytes(url: &str) -> anyhow::Result<u64> {
        let mut conn = connect(url).await?;
        let row: Option<(String, u64)> = conn.query_first("SHOW GLOBAL STATUS LIKE 'Innodb_os_log_written'").await?;
        row.map(|(_, bytes)| bytes).context("the server does not count its log")
    }

    pub async fn admin(url: &str, sql: &str) -> anyhow::Result<()> {
        Ok(connect(url).await?.query_drop(sql).await?)
    }

    pub async fn open(url: &str) -> anyhow::Result<Self> {
        Ok(Maria(connect(url).await?))
    }

    pub async fn with_tables(url: &str) -> anyhow::Result<Self> {
        let mut conn = connect(url).await?;
        for migration in migrations() {
            // Comments may hold semicolons; statements do not.
            let plain: Vec<&str> =
                migration.up.lines().map(|line| line.split("--").next().unwrap_or_default()).collect();
            for statement in plain.join("\n").split(';').filter(|statement| !statement.trim().is_empty()) {
                conn.query_drop(statement).await?;
            }
        }
        let positions = rows(1..=i64::from(LANES), |row, id| {
            let _ = write!(row, "{id}, 0, '', 1, 1, 1, 0, 0, 0, 0, 1, 0");
        });
        conn.query_drop(format!(
            "INSERT INTO punctual_position (id, state, note, rev, era, version, cursor_slot, cursor_at, cursor_gap, runs, wake,
                backfilling) VALUES {positions}"
        ))
        .await?;
        Ok(Maria(conn))
    }

    pub async fn singles(&mut self, schedule: i64, first: i64, count: u32) -> anyhow::Result<()> {
        let conn = &mut self.0;
        conn.query_drop("START TRANSACTION").await?;
        for id in first..first + i64::from(count) {
            let at = at_of(id);
            conn.exec_drop(
                "INSERT INTO punctual_task (id, lane, lvl, created, due, schedule, era, slot, pass, at, run, catch_up, version)
                 VALUES (?, 1, 1, ?, ?, ?, 1, ?, 0, ?, ?, 0, 1)",
                (id, at, at, schedule, at * 2, at, id),
            )
            .await?;
            conn.exec_drop(
                "INSERT INTO punctual_ready (lane, class, due, id, n, spent, losses, gate, flags)
                 VALUES (1, 1, ?, ?, 0, 0, 0, ?, 0)",
                (at, id, schedule),
            )
            .await?;
            conn.exec_drop("INSERT INTO punctual_hold (gate, task, pass) VALUES (?, ?, 0)", (schedule, id)).await?;
            conn.exec_drop(
                "UPDATE punctual_position SET rev = rev + 1, cursor_slot = ?, cursor_at = ?, runs = ? WHERE id = ?",
                (at * 2, at, id, schedule),
            )
            .await?;
        }
        Ok(conn.query_drop("COMMIT").await?)
    }

    /// Lock, look, write by rows in one statement each.
    pub async fn window(&mut self, first: i64, count: u32) -> anyhow::Result<()> {
        let conn = &mut self.0;
        let last = first + i64::from(count) - 1;
        conn.query_drop("START TRANSACTION").await?;
        let _: Option<(i64, i64)> = conn
            .query_first(
                "SELECT id, rev FROM punctual_position WHERE wake <= 9223372036854775807 ORDER BY wake, id LIMIT 1
                 FOR UPDATE SKIP LOCKED",
            )
            .await?;
        let _: Vec<i64> = conn
            .exec(
                "SELECT slot FROM punctual_task WHERE schedule = 1 AND era = 1 AND slot BETWEEN ? AND ? AND pass = 0
                 ORDER BY slot",
                (at_of(first) * 2, at_of(last) * 2),
            )
            .await?;
        let _: Option<i64> =
            conn.query_first("SELECT count(*) FROM (SELECT 1 FROM punctual_hold WHERE gate = 1 LIMIT 1) h").await?;
        let tasks = rows(first..=last, |row, id| {
            let at = at_of(id);
            let _ = write!(row, "{id}, 1, 1, {at}, {at}, 1, 1, {}, 0, {at}, {id}, 0, 1", at * 2);
        });
        conn.query_drop(format!(
            "INSERT INTO punctual_task (id, lane, lvl, created, due, schedule, era, slot, pass, at, run, catch_up, version)
             VALUES {tasks}"
        ))
        .await?;
        let ready = rows(first..=last, |row, id| {
            let _ = write!(row, "1, 1, {}, {id}, 0, 0, 0, 1, 0", at_of(id));
        });
        conn.query_drop(format!(
            "INSERT INTO punctual_ready (lane, class, due, id, n, spent, losses, gate, flags) VALUES {ready}"
        ))
        .await?;
        let holds = rows(first..=last, |row, id| {
            let _ = write!(row, "1, {id}, 0");
        });
        conn.query_drop(format!("INSERT INTO punctual_hold (gate, task, pass) VALUES {holds}")).await?;
        conn.exec_drop(
            "UPDATE punctual_position SET rev = rev + 1, cursor_slot = ?, cursor_at = ?, runs = ? WHERE id = 1",
            (at_of(last) * 2, at_of(last), last),
        )
        .await?;
        Ok(conn.query_drop("COMMIT").await?)
    }

    pub async fn take_slots(&mut self, schedule: i64, slots: &[i64]) -> anyhow::Result<()> {
        let tasks = rows(slots.iter().copied(), |row, slot| {
            // The ids are far above those that the store draws: those begin at 1.
            let at = slot / 2;
            let _ = write!(row, "{at}, 1, 1, {at}, {at}, {schedule}, 1, {slot}, 0, {at}, 1, 0, 1");
        });
        let insert = format!(
            "INSERT INTO punctual_task (id, lane, lvl, created, due, schedule, era, slot, pass, at, run, catch_up, version)
             VALUES {tasks}"
        );
        Ok(self.0.query_drop(insert).await?)
    }

    pub async fn fill_jobs(&mut self, count: u32) -> anyhow::Result<()> {
        self.0
            .query_drop(
                "CREATE TABLE job (id BIGINT PRIMARY KEY, queue INT NOT NULL, priority INT NOT NULL, run_at BIGINT NOT NULL,
                    state SMALLINT NOT NULL DEFAULT 0, attempts INT NOT NULL DEFAULT 0, locked_at BIGINT, locked_by INT,
                    payload BLOB, KEY job_ready (queue, state, priority, run_at, id)) ENGINE = InnoDB",
            )
            .await?;
        self.0
            .query_drop(format!(
                "INSERT INTO job (id, queue, priority, run_at, payload) SELECT seq, 0, 0, 0, '{{\"n\":12345}}'
                 FROM seq_1_to_{count}"
            ))
            .await?;
        Ok(self.0.query_drop("ANALYZE TABLE job").await?)
    }

    pub async fn drain_jobs(&mut self, limit: u32) -> anyhow::Result<u32> {
        let conn = &mut self.0;
        conn.query_drop("START TRANSACTION").await?;
        let taken: Vec<(i64, Vec<u8>)> = conn
            .exec(
                "SELECT id, payload FROM job WHERE queue = 0 AND state = 0 AND run_at <= 1 ORDER BY priority, run_at, id
                 LIMIT ? FOR UPDATE SKIP LOCKED",
                (limit,),
            )
            .await?;
        if !taken.is_empty() {
            let ids: Vec<String> = taken.iter().map(|(id, _)| id.to_string()).collect();
            let ids = ids.join(",");
            conn.query_drop(format!(
                "UPDATE job SET state = 1, attempts = attempts + 1, locked_at = 1, locked_by = 1 WHERE id IN ({ids})"
            ))
            .await?;
            conn.query_drop("COMMIT").await?;
            conn.query_drop("START TRANSACTION").await?;
            conn.query_drop(format!("DELETE FROM job WHERE id IN ({ids})")).await?;
        }
        conn.query_drop("COMMIT").await?;
        Ok(u32::try_from(taken.len())?)
    }

    pub async fn enqueue(&mut self, id: i64) -> anyhow::Result<()> {
        let conn = &mut self.0;
        conn.query_drop("START TRANSACTION").await?;
        conn.exec_drop(
            "INSERT INTO punctual_task (id, lane, lvl, created, due, shape, args) VALUES (?, 1, 1, 1, 1, 7, ?)",
            (id, b"{\"n\":12345}".as_slice()),
        )
        .await?;
        conn.exec_drop(
            "INSERT INTO punctual_ready (lane, class, due, id, n, spent, losses, gate, flags)
             VALUES (1, 1, 1, ?, 0, 0, 0, 0, 0)",
            (id,),
        )
        .await?;
        Ok(conn.query_drop("COMMIT").await?)
    }
}
