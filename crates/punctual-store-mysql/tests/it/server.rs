//! The server that these tests run on, and a database of each test's own in it.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder};
use punctual_clock::{Entropy, SystemEntropy};
use std::time::Duration;
use tokio::runtime::Builder;

/// Names the server: a URL of a user who may create databases.
const SERVER: &str = "PUNCTUAL_TEST_MARIADB";

/// A database that is gone with it.
#[derive(Debug)]
pub(crate) struct Database {
    server: Opts,
    name: String,
}

impl Database {
    /// Makes a database with a name of its own.
    pub(crate) fn new() -> Self {
        let Ok(url) = std::env::var(SERVER) else {
            panic!(
                "{SERVER} names no server: run `cargo xtask test`, which starts one, or set it to a URL such as \
                 mysql://user:password@127.0.0.1:3306 of a user who may create databases"
            );
        };
        let server = Opts::from_url(&url).unwrap_or_else(|error| panic!("{SERVER}: {error}"));
        let server: Opts = OptsBuilder::from_opts(server).prefer_socket(false).into();
        let name = format!("punctual_test_{:016x}", SystemEntropy.next_u64());
        let database = Database { server, name };
        database.on_server(&format!("CREATE DATABASE {}", database.name));
        database
    }

    /// Where stores find it.
    pub(crate) fn url(&self) -> String {
        self.url_at(self.server.ip_or_hostname(), self.server.tcp_port())
    }

    /// The same through another port.
    pub(crate) fn url_at(&self, host: &str, port: u16) -> String {
        let user = self.server.user().unwrap_or("root");
        let pass = self.server.pass().map(|pass| format!(":{pass}")).unwrap_or_default();
        format!("mysql://{user}{pass}@{host}:{port}/{}", self.name)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn address(&self) -> String {
        format!("{}:{}", self.server.ip_or_hostname(), self.server.tcp_port())
    }

    pub(crate) fn password(&self) -> Option<&str> {
        self.server.pass()
    }

    /// A connection beside the store's: what another program has.
    pub(crate) async fn connection(&self) -> Conn {
        Conn::new(OptsBuilder::from_opts(self.server.clone()).db_name(Some(&self.name))).await.unwrap()
    }

    /// Runs statements beside the store, from wherever the caller is.
    pub(crate) fn run(&self, sql: &str) {
        let opts = OptsBuilder::from_opts(self.server.clone()).db_name(Some(&self.name)).into();
        beside(opts, sql.to_owned());
    }

    /// One number.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let mut conn = self.connection().await;
        let number: Option<Option<i64>> = conn.query_first(sql).await.unwrap();
        conn.disconnect().await.unwrap();
        number.flatten().unwrap_or_default()
    }

    fn on_server(&self, sql: &str) {
        beside(self.server.clone(), sql.to_owned());
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // A test that failed may leave sessions with locks behind; they end with its stores.
        self.on_server(&format!("SET lock_wait_timeout = 60; DROP DATABASE IF EXISTS {}", self.name));
    }
}

/// Runs statements on a thread of their own: tests call this from inside and outside of runtimes.
fn beside(opts: Opts, sql: String) {
    let work = move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut conn = tokio::time::timeout(Duration::from_secs(60), Conn::new(opts)).await.unwrap().unwrap();
            conn.query_drop(sql).await.unwrap();
            conn.disconnect().await.unwrap();
        });
    };
    std::thread::spawn(work).join().unwrap();
}
