//! The same commands on a MariaDB database, on the server that `PUNCTUAL_TEST_MARIADB` names.

use crate::doctor::{is_well, states};
use crate::support::Workspace;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};
use serde_json::json;

/// A database of this test, dropped with it.
struct Database {
    server: String,
    name: String,
}

impl Database {
    fn new() -> Self {
        let server = std::env::var("PUNCTUAL_TEST_MARIADB").unwrap_or_default();
        assert!(!server.is_empty(), "PUNCTUAL_TEST_MARIADB is not set: run `cargo xtask test`");
        let database = Database { server, name: format!("punctual_cli_{}", std::process::id()) };
        database.admin(&format!("CREATE DATABASE {}", database.name));
        database
    }

    fn url(&self) -> String {
        let server = Opts::from_url(&self.server).unwrap();
        let user = server.user().unwrap_or("root");
        let pass = server.pass().map(|pass| format!(":{pass}")).unwrap_or_default();
        format!("mysql://{user}{pass}@{}:{}/{}", server.ip_or_hostname(), server.tcp_port(), self.name)
    }

    fn admin(&self, sql: &str) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut conn = Conn::new(Opts::from_url(&self.server).unwrap()).await.unwrap();
            conn.query_drop(sql).await.unwrap();
            conn.disconnect().await.unwrap();
        });
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.admin(&format!("DROP DATABASE {}", self.name));
    }
}

/// Tables are made and taken away by `migrate` alone, tasks and schedules are kept in them with all that is said of them, and
/// the password of the address is never shown.
#[test]
fn a_mariadb_database_serves_as_well() {
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
    assert!(up.contains("ENGINE = InnoDB"), "it is MariaDB's SQL: {up}");
    on_db(&["tasks", "enqueue", "Http/request", "{\"url\":\"http://127.0.0.1:1/\"}"]).succeeded();
    assert!(on_db(&["tasks", "list"]).line().contains("waiting"));
    let nightly =
        ["schedules", "add", "nightly", "--cron", "0 3 * * *", "Http/request", "{\"url\":\"http://127.0.0.1:1/\"}"];
    on_db(&[&nightly[..], &["--jitter", "10m", "--pause-after", "5"]].concat()).succeeded();
    assert!(on_db(&["schedules", "list"]).line().contains("nightly"));
    let shown = on_db(&["schedules", "show", "nightly"]).succeeded();
    assert!(shown.contains("up to 10m") && shown.contains("after 5 failures in a row"), "{shown}");
    on_db(&["schedules", "edit", "nightly", "--jitter", "0s", "--pause-after", "0"]).succeeded();
    let shown = on_db(&["schedules", "show", "nightly", "--json"]).json();
    assert_eq!((&shown["jitter"], &shown["pause_after"]), (&json!(null), &json!(null)));
    on_db(&["schedules", "edit", "nightly", "--jitter", "25h"]).failed(2, &["jitter", "86400"]);
    is_well(&on_db(&["doctor", "--json"]), "warn");
    on_db(&["migrate", "--down", "0"]).succeeded();
    on_db(&["schedules", "list"]).failed(6, &["version 0"]);
    assert_eq!(states(&on_db(&["doctor", "--json"]))[2], ("tables".to_owned(), "warn".to_owned()));
    let wrong = format!("{url}_is_not_there");
    workspace.run(&["tasks", "list", "--db", &wrong]).failed(3, &["is_not_there"]);
    let ran = workspace.run(&["doctor", "--db", &wrong, "--json"]);
    assert_eq!(states(&ran)[1], ("database".to_owned(), "fail".to_owned()), "{ran:?}");
}
