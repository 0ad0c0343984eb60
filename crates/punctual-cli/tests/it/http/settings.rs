//! Where it is served, to whom, and what is refused at the start.

use crate::support::{Daemon, Web, Workspace};

/// Without the setting there is none; an address that other machines reach needs tokens, and that the daemon may speak in the
/// clear there.
#[test]
fn off_loopback_needs_credentials() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &[]);
    assert!(daemon.ready().get("http").is_none());
    daemon.stop();
    let tokens = workspace.file("tokens", "");
    let socket = format!("unix:{}", workspace.text("e.sock"));
    let db = workspace.db();
    let refused = |arguments: &[&str], words: &[&str]| {
        let fixed = ["serve", "--db", &db, "--listen", &socket];
        workspace.run(&[&fixed, arguments].concat()).failed(2, words);
    };
    refused(&["--http", "0.0.0.0:0"], &["[http] listen is 0.0.0.0:0", "punctual token new"]);
    refused(&["--http", "0.0.0.0:0", "--http-tokens", &tokens], &["TLS", "allow_plaintext_off_loopback"]);
    let open = ["--http", "0.0.0.0:0", "--http-tokens", &tokens, "--allow-plaintext-off-loopback"];
    refused(&open, &["which has none", "punctual token new"]);
    refused(&["--http", "example.org:80"], &["--http: [http] listen: `example.org:80` is not an address"]);
    refused(&["--http", "127.0.0.1:0", "--http-tokens", "/nowhere"], &["cannot read the tokens /nowhere"]);
    refused(&["--http", "127.0.0.1:0", "--http-hosts", "http://x"], &["[http] hosts"]);
}

/// A token that `punctual token new` made lets in by its line, with its role and after SIGHUP, and stands in no log.
#[test]
fn tokens_are_made_and_read_again() {
    let workspace = Workspace::new();
    let made = workspace.run(&["token", "new", "grafana", "view", "--json"]).json();
    let other = workspace.run(&["token", "new", "alice", "admin"]).succeeded();
    let (token, line) = (made["token"].as_str().unwrap(), made["line"].as_str().unwrap());
    let alice = other.lines().find_map(|line| line.strip_prefix("token: ")).unwrap();
    let alices = other.lines().find_map(|line| line.strip_prefix("line:  ")).unwrap();
    workspace.run(&["token", "new", "a", "owner"]).failed(2, &["view, operate or admin"]);
    workspace.run(&["token", "new", "a b"]).failed(2, &["is not a name"]);
    let file = workspace.file("tokens", &format!("{line}\n"));
    let daemon = Daemon::start(&workspace, &["--http", "127.0.0.1:0", "--http-tokens", &file, "--log-level", "trace"]);
    let web = Web::of(&daemon);
    let ask = |token: &str| web.send(web.request("GET", "/metrics").bearer_auth(token));
    assert_eq!(ask(token).status, 200);
    assert_eq!(web.get("/healthz").status, 200);
    let refused = web.get("/metrics");
    assert_eq!(refused.headers["www-authenticate"], "Bearer");
    refused.refused(401, "unauthenticated", &["Authorization: Bearer"]);
    ask(alice).refused(401, "unauthenticated", &["not known"]);
    workspace.file("tokens", &format!("{alices}\n"));
    daemon.signal(rustix::process::Signal::HUP);
    while ask(alice).status != 200 {}
    ask(token).refused(401, "unauthenticated", &[]);
    workspace.file("tokens", "nonsense");
    daemon.signal(rustix::process::Signal::HUP);
    assert_eq!(ask(alice).status, 200);
    let logged = daemon.stop();
    assert!(
        !logged.contains(token) && !logged.contains(alice) && logged.contains("tokens were read again"),
        "{logged}"
    );
}

/// A page of another site, whose name was made to point here, gets nothing; nor does a client that names no host of ours.
#[test]
fn foreign_hosts_are_refused() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &["--http", "127.0.0.1:0", "--http-hosts", "*.example.org"]);
    let web = Web::of(&daemon);
    for path in ["/healthz", "/metrics", "/nothing"] {
        let ask = |host: &str| web.send(web.request("GET", path).header("host", host));
        ask("evil.test").refused(421, "permission_denied", &["evil.test", "--http-hosts"]);
        ask("example.org").refused(421, "permission_denied", &[]);
        assert_ne!(ask("a.example.org:81").status, 421);
        assert_ne!(ask("localhost").status, 421);
    }
    assert!(web.base().starts_with("http://127.0.0.1:"));
    daemon.stop();
}
