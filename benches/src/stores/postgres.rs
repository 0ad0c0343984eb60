//! Plain SQL on PostgreSQL.

use crate::stores::sqlite::at_of;
use crate::stores::work::LANES;
use punctual_store_postgres::{SCHEMA_DEFAULT, migrations};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Statement};

/// The statements of one slot: `$1` its id, `$2` its instant, `$3` its schedule.
const SLOT: [&str; 4] = [
    "INSERT INTO task (id, lane, lvl, created, due, schedule, era, slot, pass, at, run, catch_up, version)
        VALUES ($1, 1, 1, $2, $2, $3, 1, $2::bigint * 2, 0, $2, $1, false, 1)",
    "INSERT INTO ready (id, due, lane, n, spent, losses, class) VALUES ($1, $2, 1, 0, 0, 0 * $3::bigint::int, 1)",
    "INSERT INTO hold (gate, task, pass) VALUES ($3, $1, (0 * $2::bigint)::int)",
    "UPDATE position SET rev = rev + 1, cursor_slot = $2::bigint * 2, cursor_at = $2, runs = $1 WHERE id = $3",
];

pub struct Postgres {
    client: Client,
    slot: Vec<Statement>,
    window: Option<Window>,
    jobs: Option<(Statement, Statement)>,
    task: Option<Statement>,
}

/// The statements of a window, as the store has them.
#[derive(Clone)]
struct Window {
    lock: Statement,
    taken: Statement,
    live: Statement,
    write: Statement,
    advance: Statement,
}

async fn connect(url: &str) -> anyhow::Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    drop(tokio::spawn(connection));
    Ok(client)
}

impl Postgres {
    pub async fn durability(url: &str) -> anyhow::Result<String> {
        let client = connect(url).await?;
        let mut text = String::new();
        for setting in ["server_version", "fsync", "synchronous_commit"] {
            let value: String = client.query_one(&format!("SHOW {setting}"), &[]).await?.get(0);
            text.push_str(&format!("{}{setting} = {value}", if text.is_empty() { "" } else { ", " }));
        }
        Ok(text)
    }

    pub async fn logged_bytes(url: &str) -> anyhow::Result<u64> {
        let at = "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint";
        let bytes: i64 = connect(url).await?.query_one(at, &[]).await?.get(0);
        Ok(u64::try_from(bytes)?)
    }

    pub async fn admin(url: &str, sql: &str) -> anyhow::Result<()> {
        Ok(connect(url).await?.batch_execute(sql).await?)
    }

    /// A connection on tables that are there.
    pub async fn open(url: &str) -> anyhow::Result<Self> {
        let client = connect(url).await?;
        client.batch_execute(&format!("SET search_path TO {SCHEMA_DEFAULT}; SET jit TO off")).await?;
        let mut slot = Vec::new();
        for sql in SLOT {
            slot.push(client.prepare(sql).await?);
        }
        Ok(Postgres { client, slot, window: None, jobs: None, task: None })
    }

    pub async fn with_tables(url: &str) -> anyhow::Result<Self> {
        let client = connect(url).await?;
        client.batch_execute(&format!("CREATE SCHEMA {SCHEMA_DEFAULT}; SET search_path TO {SCHEMA_DEFAULT}")).await?;
        for migration in migrations() {
            client.batch_execute(migration.up).await?;
        }
        let insert = "INSERT INTO position (id, rev, runs, wake, cursor_slot, cursor_at, cursor_gap, era, version, state,
                backfilling, note) SELECT i, 1, 0, 1, 0, 0, false, 1, 1, 0, false, '' FROM generate_series(1, $1::bigint) i";
        client.execute(insert, &[&i64::from(LANES)]).await?;
        Self::open(url).await
    }

    pub async fn singles(&mut self, schedule: i64, first: i64, count: u32) -> anyhow::Result<()> {
        self.client.batch_execute("BEGIN").await?;
        for id in first..first + i64::from(count) {
            let at = at_of(id);
            let parameters: [&(dyn ToSql + Sync); 3] = [&id, &at, &schedule];
            for statement in &self.slot {
                self.client.execute(statement, &parameters).await?;
            }
        }
        Ok(self.client.batch_execute("COMMIT").await?)
    }

    async fn prepared_window(&mut self) -> anyhow::Result<Window> {
        if let Some(window) = &self.window {
            return Ok(window.clone());
        }
        let client = &self.client;
        let window = Window {
            lock: client
                .prepare(
                    "SELECT id, rev, cursor_at FROM position WHERE wake <= $1 ORDER BY wake, id LIMIT 1
                     FOR UPDATE SKIP LOCKED",
                )
                .await?,
            taken: client
                .prepare(
                    "SELECT slot FROM task WHERE schedule = 1 AND era = 1 AND slot BETWEEN $1 AND $2 AND pass = 0
                     ORDER BY slot",
                )
                .await?,
            live: client
                .prepare("SELECT count(*) FROM (SELECT 1 FROM hold WHERE gate = 1 AND pass = 0 ORDER BY task LIMIT 1) h")
                .await?,
            write: client
                .prepare(
                    "WITH u AS MATERIALIZED (SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) u (id, slot, at)),
                     t AS (INSERT INTO task (id, lane, lvl, created, due, schedule, era, slot, pass, at, run, catch_up, version)
                        SELECT id, 1, 1, at, at, 1, 1, slot, 0, at, id, false, 1 FROM u),
                     h AS (INSERT INTO hold (gate, task, pass) SELECT 1, id, 0 FROM u)
                     INSERT INTO ready (id, due, lane, n, spent, losses, class) SELECT id, at, 1, 0, 0, 0, 1 FROM u",
                )
                .await?,
            advance: client
                .prepare("UPDATE position SET rev = rev + 1, cursor_slot = $1, cursor_at = $2, runs = $3 WHERE id = 1")
                .await?,
        };
        self.window = Some(window.clone());
        Ok(window)
    }

    /// Lock, look, write: three round trips and one commit.
    pub async fn window(&mut self, first: i64, count: u32) -> anyhow::Result<()> {
        let Window { lock, taken, live, write, advance } = self.prepared_window().await?;
        let client = &self.client;
        let last = first + i64::from(count) - 1;
        let ids: Vec<i64> = (first..=last).collect();
        let ats: Vec<i64> = ids.iter().map(|id| at_of(*id)).collect();
        let slots: Vec<i64> = ats.iter().map(|at| at * 2).collect();
        let (first_slot, last_at) = (at_of(first) * 2, at_of(last));
        let last_slot = last_at * 2;
        let parameters: [&(dyn ToSql + Sync); 1] = [&i64::MAX];
        let (begun, locked) = tokio::join!(client.batch_execute("BEGIN"), client.query(&lock, &parameters));
        begun?;
        locked?;
        let parameters: [&(dyn ToSql + Sync); 2] = [&first_slot, &last_slot];
        let (found, live) = tokio::join!(client.query(&taken, &parameters), client.query(&live, &[]));
        found?;
        live?;
        let rows: [&(dyn ToSql + Sync); 3] = [&ids, &slots, &ats];
        let cursor: [&(dyn ToSql + Sync); 3] = [&last_slot, &last_at, &last];
        let (wrote, moved, committed) = tokio::join!(
            client.execute(&write, &rows),
            client.execute(&advance, &cursor),
            client.batch_execute("COMMIT")
        );
        wrote?;
        moved?;
        Ok(committed?)
    }

    pub async fn take_slots(&mut self, schedule: i64, slots: &[i64]) -> anyhow::Result<()> {
        // The ids are far above those that the store draws: those begin at 1.
        let insert =
            "INSERT INTO task (id, lane, lvl, created, due, schedule, era, slot, pass, at, run, catch_up, version)
            SELECT s / 2, 1, 1, s / 2, s / 2, $1, 1, s, 0, s / 2, 1, false, 1 FROM unnest($2::bigint[]) s";
        self.client.execute(insert, &[&schedule, &slots]).await?;
        Ok(())
    }

    pub async fn fill_jobs(&mut self, count: u32) -> anyhow::Result<()> {
        self.client
            .batch_execute(&format!(
                "CREATE TABLE job (id bigint PRIMARY KEY, queue int NOT NULL, priority int NOT NULL, run_at bigint NOT NULL,
                    state int NOT NULL DEFAULT 0, attempts int NOT NULL DEFAULT 0, locked_at bigint, locked_by bigint,
                    payload bytea);
                 CREATE INDEX job_ready ON job (queue, priority, run_at, id) WHERE state = 0;
                 INSERT INTO job (id, queue, priority, run_at, payload)
                    SELECT i, 0, 0, 0, '{{\"n\":12345}}' FROM generate_series(1, {count}) i"
            ))
            .await?;
        let take = self
            .client
            .prepare(
                "UPDATE job SET state = 1, attempts = attempts + 1, locked_at = 1, locked_by = 1 WHERE id = ANY (ARRAY
                 (SELECT id FROM job WHERE queue = 0 AND state = 0 AND run_at <= 1 ORDER BY priority, run_at, id LIMIT $1
                    FOR UPDATE SKIP LOCKED)) RETURNING id, payload",
            )
            .await?;
        let delete = self.client.prepare("DELETE FROM job WHERE id = ANY ($1)").await?;
        self.jobs = Some((take, delete));
        Ok(())
    }

    pub async fn drain_jobs(&mut self, limit: u32) -> anyhow::Result<u32> {
        let Some((take, delete)) = &self.jobs else { anyhow::bail!("there are no jobs") };
        let rows = self.client.query(take, &[&i64::from(limit)]).await?;
        let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        self.client.execute(delete, &[&ids]).await?;
        Ok(u32::try_from(ids.len())?)
    }

    pub async fn enqueue(&mut self, id: i64) -> anyhow::Result<()> {
        if self.task.is_none() {
            let insert = "WITH t AS (INSERT INTO task (id, lane, lvl, created, due, schema, args)
                    VALUES ($1, 1, 1, 1, 1, 7, '{\"n\":12345}'))
                INSERT INTO ready (id, due, lane, n, spent, losses, class) VALUES ($1, 1, 1, 0, 0, 0, 1)";
            self.task = Some(self.client.prepare(insert).await?);
        }
        let Some(task) = &self.task else { return Ok(()) };
        self.client.execute(task, &[&id]).await?;
        Ok(())
    }
}
