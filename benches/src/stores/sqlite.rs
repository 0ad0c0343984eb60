//! Plain SQL on SQLite.

use crate::stores::work::LANES;
use punctual_store_sqlite::migrations;
use rusqlite::{Connection, params};
use std::path::Path;

/// Statements that are kept prepared.
const STATEMENTS_MAX: usize = 64;

pub struct Sqlite(Connection);

impl Sqlite {
    /// A connection with the store's settings.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let conn = Connection::open(path)?;
        conn.pragma_update(None, "journal_mode", "wal")?;
        conn.pragma_update(None, "synchronous", "FULL")?;
        conn.pragma_update(None, "cache_size", -32 * 1024)?;
        conn.pragma_update(None, "wal_autocheckpoint", 4_000)?;
        conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        Ok(Sqlite(conn))
    }

    pub fn with_tables(path: &Path) -> anyhow::Result<Self> {
        let raw = Self::open(path)?;
        for migration in migrations() {
            raw.0.execute_batch(migration.up)?;
        }
        for schedule in 1..=i64::from(LANES) {
            raw.0.execute(
                "INSERT INTO position (id, rev, runs, wake, cursor_slot, cursor_at, cursor_gap, era, version, state,
                    backfilling, note) VALUES (?1, 1, 0, 1, 0, 0, 0, 1, 1, 0, 0, '')",
                params![schedule],
            )?;
        }
        Ok(raw)
    }

    pub fn singles(&mut self, schedule: i64, first: i64, count: u32) -> anyhow::Result<()> {
        self.0.execute_batch("BEGIN IMMEDIATE")?;
        {
            let mut task = self.0.prepare_cached(
                "INSERT INTO task (id, lane, lvl, created, due, schedule, era, slot, pass, at, run, catch_up, version)
                 VALUES (?1, 1, 1, ?2, ?2, ?3, 1, ?2 * 2, 0, ?2, ?1, 0, 1)",
            )?;
            let mut ready = self.0.prepare_cached(
                "INSERT INTO ready (lane, class, due, id, n, spent, losses) VALUES (1, 1, ?1, ?2, 0, 0, 0)",
            )?;
            let mut hold = self.0.prepare_cached("INSERT INTO hold (gate, task) VALUES (?1, ?2)")?;
            let last = first + i64::from(count) - 1;
            for id in first..=last {
                let at = at_of(id);
                task.execute(params![id, at, schedule])?;
                ready.execute(params![at, id])?;
                hold.execute(params![schedule, id])?;
            }
            self.0
                .prepare_cached(
                    "UPDATE position SET rev = rev + 1, cursor_slot = ?1 * 2, cursor_at = ?1, runs = ?2 WHERE id = ?3",
                )?
                .execute(params![at_of(last), last, schedule])?;
        }
        self.0.execute_batch("COMMIT")?;
        Ok(())
    }

    pub fn take_slots(&mut self, schedule: i64, slots: &[i64]) -> anyhow::Result<()> {
        self.0.execute_batch("BEGIN IMMEDIATE")?;
        {
            let mut task = self.0.prepare_cached(
                "INSERT INTO task (id, lane, lvl, created, due, schedule, era, slot, pass, at, run, catch_up, version)
                 VALUES (?1, 1, 1, ?2 / 2, ?2 / 2, ?3, 1, ?2, 0, ?2 / 2, 1, 0, 1)",
            )?;
            for slot in slots {
                // Far above the ids that the store draws: those begin at 1.
                task.execute(params![slot / 2, slot, schedule])?;
            }
        }
        self.0.execute_batch("COMMIT")?;
        Ok(())
    }

    pub fn fill_jobs(&mut self, count: u32) -> anyhow::Result<()> {
        self.0.execute_batch(
            "CREATE TABLE job (id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, priority INTEGER NOT NULL,
                run_at INTEGER NOT NULL, state INTEGER NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0,
                locked_at INTEGER, locked_by INTEGER, payload BLOB);
             CREATE INDEX job_ready ON job (queue, priority, run_at, id) WHERE state = 0;
             BEGIN",
        )?;
        for _ in 0..count {
            self.0
                .prepare_cached("INSERT INTO job (queue, priority, run_at, payload) VALUES (0, 0, 0, ?1)")?
                .execute(params![b"{\"n\":12345}".as_slice()])?;
        }
        self.0.execute_batch("COMMIT")?;
        Ok(())
    }

    pub fn drain_jobs(&mut self, limit: u32) -> anyhow::Result<u32> {
        self.0.execute_batch("BEGIN IMMEDIATE")?;
        let ids: Vec<i64> = self
            .0
            .prepare_cached(
                "UPDATE job SET state = 1, attempts = attempts + 1, locked_at = 1, locked_by = 1 WHERE id IN
                 (SELECT id FROM job WHERE queue = 0 AND state = 0 AND run_at <= 1 ORDER BY priority, run_at, id LIMIT ?1)
                 RETURNING id, payload",
            )?
            .query_map(params![limit], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        self.0.execute_batch("COMMIT; BEGIN IMMEDIATE")?;
        for id in &ids {
            self.0.prepare_cached("DELETE FROM job WHERE id = ?1")?.execute(params![id])?;
        }
        self.0.execute_batch("COMMIT")?;
        Ok(u32::try_from(ids.len())?)
    }

    pub fn enqueue(&mut self, id: i64) -> anyhow::Result<()> {
        self.0.execute_batch("BEGIN IMMEDIATE")?;
        self.0
            .prepare_cached(
                "INSERT INTO task (id, lane, lvl, created, due, schema, args) VALUES (?1, 1, 1, 1, 1, 7, ?2)",
            )?
            .execute(params![id, b"{\"n\":12345}".as_slice()])?;
        self.0
            .prepare_cached("INSERT INTO ready (lane, class, due, id, n, spent, losses) VALUES (1, 1, 1, ?1, 0, 0, 0)")?
            .execute(params![id])?;
        self.0.execute_batch("COMMIT")?;
        Ok(())
    }
}

/// The instant of a slot, in microseconds.
pub fn at_of(number: i64) -> i64 {
    1_700_000_000_000_000 + number * 10_000
}
