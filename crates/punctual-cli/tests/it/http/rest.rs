//! The admin contract as an API: what the command line can do, with pages, refusals and roles.

use crate::support::{Answered, Daemon, Web, Workspace};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Sends JSON.
fn post(web: &Web, path: &str, body: &Value) -> Answered {
    web.send(web.request("POST", path).header("content-type", "application/json").body(body.to_string()))
}

/// A schedule and its tasks from the beginning to the end, each step seen by the next.
#[test]
fn schedules_and_tasks_are_steered() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &["--http", "127.0.0.1:0"]);
    let web = Web::of(&daemon);
    let schedule = json!({"name": "a/b c", "rule": {"cron": "0 3 * * *"}, "method": "Nobody/knows", "args": "{}"});
    let act = post(&web, "/api/v1/schedules", &json!({"schedule": schedule})).ok();
    assert_eq!((&act["outcome"], &act["state"]), (&json!("created"), &json!("active")));
    let name = "/api/v1/schedules/a%2Fb%20c";
    assert_eq!(web.get(name).ok()["schedule"]["name"], "a/b c");
    let slots = web.get(&format!("{name}/preview?count=3")).ok();
    assert_eq!(slots["items"].as_array().unwrap().len(), 3);
    assert_eq!(post(&web, &format!("{name}/pause"), &json!({"note": "holiday"})).ok()["state"], "paused");
    assert_eq!(web.get(name).ok()["schedule"]["note"], "holiday");
    assert_eq!(post(&web, &format!("{name}/resume"), &json!({"mode": "now"})).ok()["state"], "active");
    let edit = web.request("PATCH", name).header("content-type", "application/json").body("{\"priority\": 0}");
    assert_eq!(web.send(edit).ok()["outcome"], "updated");
    let task = post(&web, &format!("{name}/trigger"), &json!({})).ok()["task"].clone();
    let task = task.as_str().unwrap();
    assert_eq!(web.get(&format!("/api/v1/tasks/{task}")).ok()["task"]["schedule"], "a/b c");
    let acts = post(&web, "/api/v1/tasks/cancel", &json!({"ids": [task]})).ok();
    assert_eq!(acts["items"][0]["outcome"], "cancelled");
    assert_eq!(web.get("/api/v1/tasks?state=cancelled").ok()["items"][0]["id"], task);
    assert_eq!(post(&web, "/api/v1/tasks/retry", &json!({"ids": [task]})).ok()["items"][0]["outcome"], "waiting");
    assert_eq!(post(&web, "/api/v1/queues/Nobody/pause", &json!({"paused": true})).ok()["changed"], true);
    assert_eq!(web.get("/api/v1/queues").ok()["items"][0]["paused"], true);
    assert_eq!(web.get("/api/v1/workers").ok()["items"][0]["alive"], true);
    let rules = post(&web, "/api/v1/rules/preview", &json!({"rule": {"every": "15m"}})).ok();
    assert_eq!(rules["items"].as_array().unwrap().len(), 10);
    let crontab = json!({"text": "0 3 * * * true\n", "dry_run": true});
    assert_eq!(post(&web, "/api/v1/crontab", &crontab).ok()["dry_run"], true);
    assert_eq!(post(&web, &format!("{name}/cancel"), &json!({})).ok()["state"], "cancelled");
    assert_eq!(web.get("/api/v1/info").ok()["store"], "sqlite");
    daemon.stop();
}

/// Every task of some thousands is on exactly one page, newest first, by following `next`.
#[test]
fn pages_hold_everything_once() {
    let workspace = Workspace::with_database();
    let daemon = Daemon::start(&workspace, &["--http", "127.0.0.1:0"]);
    let web = Web::of(&daemon);
    let count = 3_000;
    fill(&workspace, count);
    let (mut found, mut pages) = (Vec::new(), 0);
    let mut next = Some("/api/v1/tasks?queue=Many&limit=700".to_owned());
    while let Some(path) = next {
        let page = web.get(&path).ok();
        let ids = page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned());
        found.extend(ids);
        pages += 1;
        next = page.get("next").map(|next| next.as_str().unwrap().to_owned());
    }
    assert_eq!((found.len(), pages), (count, 5));
    assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), count);
    let first = web.get("/api/v1/tasks?queue=Many").ok();
    assert_eq!(first["items"].as_array().unwrap().len(), 50);
    assert_eq!(first["items"][0]["id"], found[0].as_str());
    assert!(web.get("/api/v1/tasks?queue=None").ok().get("next").is_none());
    daemon.stop();
}

/// Stores so many tasks that nobody runs, without a call for each: by a library of the database itself.
fn fill(workspace: &Workspace, count: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let engine = punctual::open(&format!("sqlite://{}", workspace.db())).await.unwrap().start().await.unwrap();
        let mut writes = tokio::task::JoinSet::new();
        for _ in 0..count {
            let engine = engine.clone();
            let hour = std::time::Duration::from_secs(3_600);
            writes
                .spawn(async move { engine.enqueue_json("Many/tasks", "{}").queue("Many").delay(hour).await.unwrap() });
        }
        writes.join_all().await;
        engine.shutdown(std::time::Duration::ZERO).await;
    });
}

/// What is wrong is refused with a status and the field's name, and nothing of it ends the daemon.
#[test]
fn bad_input_is_refused_by_its_field() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &["--http", "127.0.0.1:0"]);
    let web = Web::of(&daemon);
    let field = |answer: Answered, status: u16, field: &str| {
        assert_eq!((answer.status, answer.json()["error"]["field"].as_str()), (status, Some(field)), "{answer:?}");
    };
    field(web.get("/api/v1/tasks?state=done"), 400, "state");
    field(web.get("/api/v1/tasks?limit=1001"), 400, "limit");
    field(web.get("/api/v1/tasks?stat=failed"), 400, "stat");
    field(web.get("/api/v1/tasks?before=%21"), 400, "before");
    field(web.get("/api/v1/tasks/%21"), 400, "id");
    field(post(&web, "/api/v1/tasks", &json!({"method": "nothing", "args": "{}"})), 400, "method");
    field(post(&web, "/api/v1/tasks", &json!({"method": "A/b", "args": "{}", "delay": "soon"})), 400, "delay");
    field(post(&web, "/api/v1/tasks", &json!({"method": "A/b", "args": "{}", "dely": "1s"})), 400, "dely");
    field(post(&web, "/api/v1/tasks/cancel", &json!({})), 400, "ids");
    web.get("/api/v1/schedules/nothing").refused(404, "not_found", &["nothing"]);
    web.get("/api/v1/tasks/%FF").refused(400, "invalid_argument", &["UTF-8"]);
    post(&web, "/api/v1/schedules/nothing/pause", &json!({})).refused(404, "not_found", &[]);
    let command = json!({"method": "Command/run", "args": "{\"program\":\"true\"}"});
    post(&web, "/api/v1/tasks", &command).refused(409, "failed_precondition", &["--allow-commands"]);
    let json =
        |body: String| web.request("POST", "/api/v1/tasks").header("content-type", "application/json").body(body);
    web.send(json("{".to_owned())).refused(400, "invalid_argument", &["not JSON"]);
    web.send(json("[".repeat(100_000))).refused(400, "invalid_argument", &["not JSON"]);
    web.send(json("\"".repeat(5 << 20))).refused(413, "resource_exhausted", &["4194304"]);
    let plain = web.request("POST", "/api/v1/tasks/cancel").body("{\"ids\":[]}");
    web.send(plain).refused(415, "invalid_argument", &["application/json"]);
    for (name, value) in [("origin", "http://evil.test"), ("sec-fetch-site", "cross-site"), ("origin", "null")] {
        web.send(json("{}".to_owned()).header(name, value)).refused(403, "permission_denied", &["another site"]);
    }
    assert_eq!(web.get("/healthz").status, 200);
    let logged = daemon.stop();
    assert!(!logged.contains("panicked"), "{logged}");
}

/// Commands are not taken over HTTP, where every user of the machine is: neither stored, nor run, nor by a crontab.
#[test]
fn commands_are_not_taken() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &["--http", "127.0.0.1:0", "--allow-commands"]);
    let web = Web::of(&daemon);
    let words: &[&str] = &["not taken over HTTP"];
    let args = json!({"program": "true"}).to_string();
    let task = json!({"method": "Command/run", "args": args});
    post(&web, "/api/v1/tasks", &task).refused(403, "permission_denied", words);
    let schedule = json!({"name": "x", "rule": {"every": "1h"}, "method": "Command/run", "args": args});
    post(&web, "/api/v1/schedules", &json!({"schedule": schedule})).refused(403, "permission_denied", words);
    let run = post(&web, "/rpc/Command/run", &json!({"program": "true"}));
    assert_eq!(run.status, 422, "{run:?}");
    assert!(run.text.contains("not taken over HTTP"), "{run:?}");
    let crontab = post(&web, "/api/v1/crontab", &json!({"text": "0 3 * * * true\n"}));
    crontab.refused(403, "permission_denied", words);
    daemon.stop();
}
