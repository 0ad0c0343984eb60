//! Whether it lives, and whether it should get work.

use crate::support::{Daemon, Web, Workspace};

/// A daemon that runs is alive and ready, and says of nothing that it fails.
#[test]
fn a_daemon_says_that_it_is_ready() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &["--http", "127.0.0.1:0"]);
    let web = Web::of(&daemon);
    assert_eq!(web.get("/healthz").ok()["status"], "ok");
    let ready = web.get("/readyz").ok();
    assert_eq!(ready["ready"], true);
    for check in ["daemon", "server", "worker", "store"] {
        assert_eq!(ready["checks"][check], "ok", "{ready}");
    }
    web.get("/nothing").refused(404, "not_found", &["docs/http.md"]);
    web.send(web.request("POST", "/healthz")).refused(405, "unimplemented", &[]);
    let answer = web.get("/healthz");
    assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    assert_eq!(answer.headers["cache-control"], "no-store");
    assert!(answer.headers["content-security-policy"].to_str().unwrap().contains("frame-ancestors 'none'"));
    daemon.stop();
}

/// A daemon that was told to stop is alive and not ready until it has ended, so that it gets no more work.
#[test]
fn a_daemon_that_stops_is_not_ready() {
    let workspace = Workspace::new();
    let arguments = ["--http", "127.0.0.1:0", "--allow-commands", "--shutdown-grace", "1h"];
    let daemon = Daemon::start(&workspace, &arguments);
    let web = Web::of(&daemon);
    let started = workspace.text("started");
    let script = format!("touch '{started}'; exec sleep 3600");
    let args = serde_json::json!({"program": "sh", "args": ["-c", script]}).to_string();
    daemon.run(&["tasks", "enqueue", "Command/run", &args]).succeeded();
    while !workspace.path("started").exists() {
        std::thread::yield_now();
    }
    daemon.signal(rustix::process::Signal::TERM);
    let refused = loop {
        let answer = web.get("/readyz");
        if answer.status != 200 {
            break answer;
        }
    };
    assert_eq!(refused.status, 503);
    assert_eq!(refused.json()["checks"]["daemon"], "stopping");
    assert_eq!(web.get("/healthz").status, 200);
    // The second signal ends the grace.
    daemon.signal(rustix::process::Signal::TERM);
    let _ = daemon.wait();
}
