//! One connection: how it is made, what is set on it, and the statements that it has prepared.

use crate::config::PostgresConfig;
use crate::errors::{Done, Fault};
use crate::location::Location;
use punctual_task::{StoreError, StoreErrorKind};
use std::collections::HashMap;
use std::time::Duration;
use tokio_postgres::{Client, NoTls, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

/// The oldest server that is known to work, by its own way of counting.
const VERSION_MIN: i32 = 130_000;
/// How long a transaction may stand still before the server ends it: one of ours never does, and one of a process that was
/// stopped must not hold its locks.
const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(10);

/// The planner is kept to indexes: every statement of ours has one, and a plan that was made while a table was small must not
/// be a scan when it is large. Plans are made once a connection.
const SETTINGS: &str = "SELECT set_config('search_path', $1, false), set_config('statement_timeout', $2, false),
    set_config('lock_timeout', $3, false), set_config('idle_in_transaction_session_timeout', $4, false),
    set_config('enable_seqscan', 'off', false), set_config('enable_bitmapscan', 'off', false),
    set_config('enable_hashjoin', 'off', false), set_config('enable_mergejoin', 'off', false),
    set_config('jit', 'off', false), set_config('plan_cache_mode', 'force_generic_plan', false),
    set_config('default_transaction_isolation', 'read committed', false)";
const VERSION: &str = "SELECT current_setting('server_version'), current_setting('server_version_num')::int";

/// How to connect.
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) location: Location,
    tls: Option<MakeRustlsConnect>,
    statement_timeout: Duration,
    lock_timeout: Duration,
}

impl Connector {
    pub(crate) fn new(location: Location, config: &PostgresConfig) -> Result<Self, StoreError> {
        let tls = crate::tls::connector(&location)?;
        let PostgresConfig { statement_timeout, lock_timeout, .. } = config;
        Ok(Connector { location, tls, statement_timeout: *statement_timeout, lock_timeout: *lock_timeout })
    }

    /// How long an answer may take before the connection counts as lost.
    pub(crate) fn answer_timeout(&self) -> Duration {
        self.statement_timeout.saturating_add(Duration::from_secs(15))
    }

    /// Makes a connection, whose own task ends with it.
    pub(crate) async fn connect(&self) -> Done<Connection> {
        let made = tokio::time::timeout(self.answer_timeout(), self.make()).await;
        made.unwrap_or(Err(Fault::Silent))
    }

    async fn make(&self) -> Done<Connection> {
        let client = match &self.tls {
            None => {
                let (client, connection) = self.location.config.connect(NoTls).await?;
                drop(tokio::spawn(connection));
                client
            }
            Some(tls) => {
                let (client, connection) = self.location.config.connect(tls.clone()).await?;
                drop(tokio::spawn(connection));
                client
            }
        };
        let millis = |time: Duration| time.as_millis().to_string();
        let (statement, lock) = (millis(self.statement_timeout), millis(self.lock_timeout));
        client.query(SETTINGS, &[&self.location.schema, &statement, &lock, &millis(IDLE_IN_TRANSACTION)]).await?;
        Ok(Connection { client, statements: HashMap::new() })
    }
}

/// A connection with its prepared statements.
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// By their text; only looked up, never walked, so that their order decides nothing.
    pub(crate) statements: HashMap<&'static str, Statement>,
}

impl Connection {
    /// What the server calls its version.
    ///
    /// # Errors
    /// If it is too old.
    pub(crate) async fn version(&self, location: &Location) -> Done<String> {
        let row = self.client.query_one(VERSION, &[]).await?;
        let (text, number): (String, i32) = (row.try_get(0)?, row.try_get(1)?);
        if number < VERSION_MIN {
            return Err(Fault::Store(StoreError::new(
                StoreErrorKind::Refused,
                format!("{location}: the server is PostgreSQL {text}; it must be 13 or newer"),
            )));
        }
        Ok(text)
    }
}
