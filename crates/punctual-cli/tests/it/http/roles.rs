//! Every route and every role: who gets in, and who does not.

use crate::support::{Daemon, Web, Workspace};
use serde_json::Value;

/// Of every route, as the daemon itself lists them, each role gets what the table says and nothing more; nobody gets nothing.
#[test]
fn every_route_has_its_role() {
    let workspace = Workspace::new();
    let mut lines = String::new();
    let tokens = ["view", "operate", "admin"].map(|role| {
        let made = workspace.run(&["token", "new", role, role, "--json"]).json();
        lines.push_str(made["line"].as_str().unwrap());
        lines.push('\n');
        (role, made["token"].as_str().unwrap().to_owned())
    });
    let file = workspace.file("tokens", &lines);
    let daemon = Daemon::start(&workspace, &["--http", "127.0.0.1:0", "--http-tokens", &file]);
    let web = Web::of(&daemon);
    let rank = |role: &str| ["view", "operate", "admin"].iter().position(|known| *known == role).unwrap();
    let document = web.send(web.request("GET", "/api/v1/openapi.json").bearer_auth(&tokens[0].1)).ok();
    let mut asked = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (verb, operation) in operations.as_object().unwrap() {
            let mut path = path.replace("{service}", "Http").replace("{method}", "request");
            for name in ["{id}", "{name}"] {
                path = path.replace(name, "nobody");
            }
            if path == "/api/v1/events" {
                // Else it would go on for ever for those who get in.
                path.push_str("?types=nothing");
            }
            let needed = match operation["x-role"].as_str() {
                Some("that of the method") => Some("admin"),
                other => other,
            };
            // A body that no method takes: who gets in is told what is wrong with it, and nothing is done.
            let request = |token: Option<&str>| {
                let request = web.request(&verb.to_uppercase(), &path).header("content-type", "application/json");
                let request = if verb == "get" { request } else { request.body("{\"nothing\": 1}") };
                token.into_iter().fold(request, |request, token| request.bearer_auth(token))
            };
            let anonymous = web.send(request(None)).status;
            assert_eq!(anonymous == 401, needed.is_some(), "{verb} {path}: {anonymous}");
            assert_eq!(web.send(request(Some("punctual_wrong"))).status == 401, needed.is_some(), "{verb} {path}");
            for (role, token) in &tokens {
                let status = web.send(request(Some(token))).status;
                let allowed = needed.is_none_or(|needed| rank(role) >= rank(needed));
                assert_eq!(status != 403, allowed, "{verb} {path} as {role}: {status}");
                assert_ne!(status, 401, "{verb} {path} as {role}");
                asked += 1;
            }
        }
    }
    assert!(asked >= 3 * 28, "{asked}");
    daemon.stop();
}

/// Through the gateway a method of the admin contract needs the role of its route, and other services the whole.
#[test]
fn the_gateway_knows_the_roles() {
    let workspace = Workspace::new();
    let made: Vec<Value> =
        ["view", "operate", "admin"].map(|role| workspace.run(&["token", "new", role, role, "--json"]).json()).into();
    let lines: Vec<&str> = made.iter().map(|made| made["line"].as_str().unwrap()).collect();
    let file = workspace.file("tokens", &lines.join("\n"));
    let daemon = Daemon::start(&workspace, &["--http", "127.0.0.1:0", "--http-tokens", &file]);
    let web = Web::of(&daemon);
    let status = |method: &str, role: usize| {
        let request = web.request("POST", &format!("/rpc/{method}")).header("content-type", "application/json");
        web.send(request.bearer_auth(made[role]["token"].as_str().unwrap()).body("{\"nothing\": 1}")).status
    };
    for (method, needed) in [
        ("Admin/list_tasks", 0),
        ("Admin/preview_rule", 0),
        ("Admin/cancel_tasks", 1),
        ("Admin/pause_queue", 1),
        ("Admin/enqueue_task", 2),
        ("Admin/import_crontab", 2),
        ("Http/request", 2),
    ] {
        for role in 0..3 {
            assert_eq!(status(method, role) != 403, role >= needed, "{method} as {role}");
        }
    }
    let nobody = web.request("POST", "/rpc/Admin/info").header("content-type", "application/json");
    web.send(nobody).refused(401, "unauthenticated", &[]);
    daemon.stop();
}
