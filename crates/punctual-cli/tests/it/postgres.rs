//! The same commands on a PostgreSQL database, on the server that `PUNCTUAL_TEST_POSTGRES` names.

use crate::doctor::{is_well, states};
use crate::support::Workspace;
use serde_json::json;
use tokio_postgres::NoTls;

/// A database of this test, dropped with it.
struct Database {
    server: String,
    name: String,
}

impl Database {
    fn new() -> Self {
        let server = std::env::var("PUNCTUAL_TEST_POSTGRES").unwrap_or_default();
        assert!(!server.is_empty(), "PUNCTUAL_TEST_POSTGRES is not set: run `cargo xtask test`");
        let database = Database { server, name: format!("punctual_cli_{}", std::process::id()) };
        database.admin(&format!("CREATE DATABASE {} TEMPLATE template0", database.name));
        database
    }

    fn url(&self) -> String {
        format!("{}/{}", self.server.rsplit_once('/').unwrap().0, self.name)
    }

    fn admin(&self, sql: &str) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&self.server, NoTls).await.unwrap();
            drop(tokio::spawn(connection));
            client.batch_execute(sql).await.unwrap();
        });
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.admin(&format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

/// Tables are made and taken away by `migrate` alone, tasks and schedules are kept in them, and the password of the address is
/// never shown.
#[test]
fn a_postgres_database_serves_as_well() {
    let workspace = Workspace::new();
    let database = Database::new();
    let url = database.url();
    let password = url.split(['@', ':']).nth(2).unwrap();
    let on_db = |arguments: &[&str]| {
        let ran = workspace.run(&[arguments, &["--db", &url]].concat());
        assert!(!ran.stdout.contains(password) && !ran.stderr.contains(password), "{ran:?}");
        ran
    };
    on_db(&["tasks", "list"]).failed(6, &["version 0", "punctual migrate"]);
    let made = on_db(&["migrate", "--json"]).json();
    assert_eq!((&made["version"], &made["applied"][0]["name"]), (&made["wanted"], &json!("first")));
    let up = on_db(&["migrate", "--print"]).succeeded();
    assert!(up.contains("GENERATED ALWAYS AS IDENTITY"), "it is PostgreSQL's SQL: {up}");
    on_db(&["tasks", "enqueue", "Http/request", "{\"url\":\"http://127.0.0.1:1/\"}"]).succeeded();
    assert!(on_db(&["tasks", "list"]).line().contains("waiting"));
    on_db(&["schedules", "add", "nightly", "--cron", "0 3 * * *", "Http/request", "{\"url\":\"http://127.0.0.1:1/\"}"])
        .succeeded();
    assert!(on_db(&["schedules", "list"]).line().contains("nightly"));
    is_well(&on_db(&["doctor", "--json"]), "warn");
    on_db(&["migrate", "--down", "0"]).succeeded();
    on_db(&["schedules", "list"]).failed(6, &["version 0"]);
    assert_eq!(states(&on_db(&["doctor", "--json"]))[2], ("tables".to_owned(), "warn".to_owned()));
    let wrong = format!("{}_is_not_there", database.url());
    workspace.run(&["tasks", "list", "--db", &wrong]).failed(3, &["no such database"]);
    let ran = workspace.run(&["doctor", "--db", &wrong, "--json"]);
    assert_eq!(states(&ran)[1], ("database".to_owned(), "fail".to_owned()), "{ran:?}");
}
