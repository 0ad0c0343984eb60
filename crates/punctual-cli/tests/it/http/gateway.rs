//! Every service of the daemon with nothing but JSON. Streams are tested beside the gateway's code: the daemon's own services
//! have none.

use crate::support::{Daemon, Web, Workspace};
use serde_json::json;

/// A method is called as `punctual call` calls it, and refuses in the same words.
#[test]
fn services_are_called_with_json() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &["--http", "127.0.0.1:0", "--http-allow", "allowed.test"]);
    let web = Web::of(&daemon);
    let call = |method: &str, body: &str| {
        web.send(
            web.request("POST", &format!("/rpc/{method}"))
                .header("content-type", "application/json")
                .body(body.to_owned()),
        )
    };
    assert_eq!(call("Admin/list_queues", "").ok(), json!([]));
    assert_eq!(call("Admin/list_schedules", "{\"after\": \"\", \"limit\": 0}").ok(), json!([]));
    let refused =
        call("Http/request", "{\"url\": \"http://elsewhere.test/\"}").refused(422, "application", &["Http/request"]);
    assert!(refused["detail"].to_string().contains("elsewhere.test"), "{refused}");
    call("Http/nothing", "{}").refused(404, "not_found", &["request"]);
    call("Nobody/knows", "{}").refused(404, "not_found", &["Admin", "Http"]);
    call("Admin/show_task", "{\"id\": \"1\"}").refused(404, "not_found", &["there is no task"]);
    call("Admin/list_tasks", "{").refused(400, "invalid_argument", &["JSON object"]);
    web.send(web.request("POST", "/rpc/Admin/info")).refused(415, "invalid_argument", &[]);
    daemon.stop();
}

/// What the daemon admits is admitted here: a call that has no room is refused with when to come again.
#[test]
fn admission_holds() {
    let workspace = Workspace::new();
    let limits = ["--admission-calls-per-second", "1", "--admission-burst", "1", "--admission-queue-calls-max", "0"];
    let daemon = Daemon::start(&workspace, &[&["--http", "127.0.0.1:0"], &limits[..]].concat());
    let web = Web::of(&daemon);
    let refused = loop {
        let request = web.request("POST", "/rpc/Admin/info").header("content-type", "application/json");
        let answer = web.send(request);
        if answer.status != 200 {
            break answer;
        }
    };
    assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
    let error = refused.refused(429, "resource_exhausted", &[]);
    assert!(error["retry_after_ms"].as_u64().unwrap() > 0 && error["limit"]["value"] == 1, "{error}");
    daemon.stop();
}
