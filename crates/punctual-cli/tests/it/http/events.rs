//! Events as a client follows them, over a break of its connection and a new start of the daemon.

use crate::support::{Daemon, Web, Workspace};
use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::{Value, json};

/// One event: its identifier, its type and its data.
type Event = (String, String, Value);

/// Reads until the wanted type has come, and gives what came.
fn follow(web: &Web, path: &str, last: Option<&str>, until: &str, begin: impl FnOnce()) -> Vec<Event> {
    let request = web.request("GET", path);
    let request = last.into_iter().fold(request, |request, id| request.header("last-event-id", id));
    let mut begin = Some(begin);
    let mut text = String::new();
    web.stream(request, |piece| {
        // The first piece says that the stream is open: what is done from here on is seen.
        begin.take().into_iter().for_each(|begin| begin());
        text.push_str(piece);
        !events(&text).iter().any(|(_, kind, _)| kind == until)
    });
    events(&text)
}

/// The whole events of a text.
fn events(text: &str) -> Vec<Event> {
    let blocks = text.split_inclusive("\n\n").filter(|block| block.ends_with("\n\n"));
    let event = |block: &str| {
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        let data = serde_json::from_str(&field("data: ")?).unwrap();
        Some((field("id: ").unwrap_or_default(), field("event: ")?, data))
    };
    blocks.filter_map(event).collect()
}

fn post(web: &Web, path: &str, body: &Value) -> Value {
    web.send(web.request("POST", path).header("content-type", "application/json").body(body.to_string())).ok()
}

/// What fails for good and what is paused is told as it happens; who comes again with the last identifier misses nothing, and
/// who comes to a daemon that was started anew is told so.
#[test]
fn a_client_misses_nothing() {
    let workspace = Workspace::new();
    let arguments = ["--http", "127.0.0.1:0", "--http-allow", "allowed.test"];
    let daemon = Daemon::start(&workspace, &arguments);
    let web = Web::of(&daemon);
    let fail = || {
        // The worker may send nowhere but to one host, so this is hopeless; stored past the check by its own database.
        let args = "{\"url\":\"http://elsewhere.test/\"}";
        workspace.on_db(&["tasks", "enqueue", "Http/request", args]).succeeded();
    };
    let seen = follow(&web, "/api/v1/events?types=task.failed", None, "task.failed", fail);
    let (id, kind, data) = seen.last().unwrap();
    assert_eq!((kind.as_str(), &data["v"], &data["type"]), ("task.failed", &json!(1), &json!("task.failed")));
    assert_eq!(
        (&data["method"], &data["queue"], &data["schedule"]),
        (&json!("Http/request"), &json!("Http"), &json!(null))
    );
    assert!(!data.to_string().contains("elsewhere"), "no arguments: {data}");
    // Nobody follows now.
    let schedule = json!({"name": "hourly", "rule": {"cron": "0 * * * *"}, "method": "Nobody/knows", "args": "{}"});
    post(&web, "/api/v1/schedules", &json!({"schedule": schedule}));
    post(&web, "/api/v1/schedules/hourly/pause", &json!({"note": "<b>why</b>"}));
    post(&web, "/api/v1/queues/Http/pause", &json!({"paused": true}));
    let seen = follow(&web, "/api/v1/events", Some(id), "queue.paused", || ());
    let kinds: Vec<&str> = seen.iter().map(|(_, kind, _)| kind.as_str()).collect();
    assert!(kinds.contains(&"schedule.created") && !kinds.contains(&"task.failed"), "{kinds:?}");
    let again = follow(&web, &format!("/api/v1/events?after={id}"), None, "queue.paused", || ());
    assert_eq!(again, seen, "the same place in the query gives the same");
    let id = id.clone();
    web.get("/api/v1/events?after=nonsense").refused(400, "invalid_argument", &["no event's identifier"]);
    web.get("/api/v1/events?types=task.fail").refused(400, "invalid_argument", &["task.failed or schedule.*"]);
    web.get("/api/v1/events?type=task.failed").refused(400, "invalid_argument", &["types, after"]);
    daemon.stop();
    let daemon = Daemon::start(&workspace, &arguments);
    let web = Web::of(&daemon);
    let resume = || drop(post(&web, "/api/v1/queues/Http/pause", &json!({"paused": false})));
    let seen = follow(&web, "/api/v1/events", Some(&id), "queue.resumed", resume);
    assert_eq!(seen[0].1, "stream.reset");
    daemon.stop();
}

/// Many clients follow at once, each sees the event, and one too many is refused by the limit's number; a stop ends them all.
#[test]
fn many_follow_at_once() {
    // The daemon inherits it: each stream is a descriptor on both sides.
    let mut files = getrlimit(Resource::Nofile);
    files.current = files.maximum;
    setrlimit(Resource::Nofile, files).unwrap();
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &["--http", "127.0.0.1:0"]);
    let web = Web::of(&daemon);
    let told = web.crowd("/api/v1/events?types=queue.*", 1_024, "event: queue.paused", || {
        web.get("/api/v1/events").refused(429, "resource_exhausted", &["1024 streams"]);
        post(&web, "/api/v1/queues/any/pause", &json!({"paused": true}));
    });
    assert_eq!(told, 1_024);
    daemon.stop();
}
