//! Databases that cannot be used: one line each that says what to do, and nothing of them changed.

use crate::support::{Daemon, Ran, Workspace, ran};
use std::process::Command;

fn both(workspace: &Workspace, db: &str, check: impl Fn(Ran)) {
    let listen = format!("unix:{}", workspace.text("d.sock"));
    check(workspace.run(&["tasks", "list", "--db", db]));
    check(workspace.run(&["serve", "--db", db, "--listen", &listen]));
}

/// A place that is none, a folder, and a file that is something else.
#[test]
fn places_that_are_no_databases() {
    let workspace = Workspace::new();
    let missing = workspace.text("no/such/folder/punctual.db");
    workspace.run(&["tasks", "list", "--db", &missing]).failed(3, &["no database", &missing]);
    workspace.run(&["serve", "--db", &missing]).failed(3, &["does not exist", "create it"]);
    workspace.run(&["migrate", "--db", &missing]).failed(3, &["does not exist", "create it"]);
    let folder = workspace.path("").to_str().unwrap().to_owned();
    both(&workspace, &folder, |ran| {
        ran.failed(1, &["is a directory", "name a file"]);
    });
    let text = workspace.file("notes.txt", "These are notes, and no database at all.\n");
    both(&workspace, &text, |ran| {
        ran.failed(6, &["notes.txt", "not a SQLite database"]);
    });
    assert_eq!(std::fs::read_to_string(&text).unwrap(), "These are notes, and no database at all.\n");
    workspace.run(&["tasks", "list", "--db", "redis://host/db"]).failed(2, &["redis", "sqlite://"]);
    workspace.run(&["serve", "--db", "redis://host/db"]).failed(1, &["redis", "sqlite://"]);
    workspace.run(&["tasks", "list", "--db", "sqlite::memory:"]).failed(2, &["memory", "--db"]);
}

/// A database that this user may not read. Root may read everything, and then it is read.
#[test]
fn unreadable_databases() {
    use std::os::unix::fs::PermissionsExt;
    let workspace = Workspace::with_database();
    std::fs::set_permissions(workspace.path("punctual.db"), std::fs::Permissions::from_mode(0o000)).unwrap();
    let listed = workspace.on_db(&["tasks", "list"]);
    if rustix::process::geteuid().is_root() {
        assert_eq!(listed.succeeded(), "");
    } else {
        listed.failed(4, &["Permission denied", "right to read"]);
    }
}

/// A database of a newer build, and one that another program made.
#[test]
fn foreign_databases() {
    let workspace = Workspace::with_database();
    let newer = rusqlite::Connection::open(workspace.path("punctual.db")).unwrap();
    newer.execute("INSERT INTO migration (version, name, sha256, applied) VALUES (999, 'later', 'x', 0)", []).unwrap();
    drop(newer);
    both(&workspace, &workspace.db(), |ran| {
        ran.failed(6, &["version 999", "newer build"]);
    });
    workspace.on_db(&["migrate"]).failed(6, &["version 999", "newer build"]);
    workspace.on_db(&["migrate", "--down", "0"]).failed(6, &["version 999"]);
    let other = workspace.text("other.db");
    rusqlite::Connection::open(&other).unwrap().execute_batch("CREATE TABLE notes (text TEXT)").unwrap();
    both(&workspace, &other, |ran| {
        assert_ne!(ran.code, 0);
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
        assert!(ran.stderr.contains("other.db"), "{ran:?}");
    });
    let kept: i64 = rusqlite::Connection::open(&other)
        .unwrap()
        .query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))
        .unwrap();
    assert_eq!(kept, 1, "nothing was added to it");
}

/// A database with a page overwritten is told as damaged, and not taken for an empty one.
#[test]
fn damaged_databases() {
    let workspace = Workspace::with_database();
    workspace.on_db(&["tasks", "enqueue", "A/b"]).succeeded();
    let path = workspace.path("punctual.db");
    let mut bytes = std::fs::read(&path).unwrap();
    let end = bytes.len();
    bytes[4096..end].fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
    let _ = std::fs::remove_file(workspace.path("punctual.db-wal"));
    let listed = workspace.on_db(&["tasks", "list"]);
    listed.failed(6, &["punctual.db"]);
}

/// A disk that is full: a write is refused in one line, what was acknowledged before is still there, and writes go on once
/// there is room. Needs a file system of the test's own, which user namespaces give; where they are not to be had, a limit on
/// the size of files stands in for it.
#[test]
fn full_disks() {
    let workspace = Workspace::new();
    std::fs::create_dir(workspace.path("disk")).unwrap();
    let script = workspace.file("full.sh", include_str!("../fixtures/full_disk.sh"));
    let mut command = if has_namespaces() {
        let mut command = Command::new("unshare");
        command.args(["-Urm", "sh", &script, "tmpfs"]);
        command
    } else {
        let mut command = Command::new("sh");
        command.args([&script, "limit"]);
        command
    };
    command.current_dir(workspace.path("")).env("PUNCTUAL", env!("CARGO_BIN_EXE_punctual"));
    let told = ran(command);
    assert_eq!(told.code, 0, "{told:?}");
    let value = |name: &str| value(&told.stdout, name);
    assert_eq!(value("refused with"), "4", "{told:?}");
    let error = value("refused because");
    assert!(error.starts_with("error: ") && error.contains("punctual.db"), "{error}");
    assert!(error.contains("room") || error.contains("full") || error.contains("disk"), "{error}");
    assert_eq!(value("acknowledged"), value("kept"), "{told:?}");
    assert_eq!(value("after there is room"), "0", "{told:?}");
}

/// A disk that fills up under a running daemon: it refuses what it cannot keep, and goes on once there is room, without a
/// restart. Only a file system of the test's own can be filled and then made larger; where user namespaces are not to be had,
/// the test above is all that can be shown.
#[test]
fn full_disks_under_a_daemon() {
    if !has_namespaces() {
        eprintln!("not shown here: this machine gives no user namespaces");
        return;
    }
    let workspace = Workspace::new();
    std::fs::create_dir(workspace.path("disk")).unwrap();
    let script = workspace.file("full.sh", include_str!("../fixtures/full_disk_daemon.sh"));
    let mut command = Command::new("unshare");
    command
        .args(["-Urm", "sh", &script])
        .current_dir(workspace.path(""))
        .env("PUNCTUAL", env!("CARGO_BIN_EXE_punctual"));
    let told = ran(command);
    assert_eq!(told.code, 0, "{told:?}");
    let value = |name: &str| value(&told.stdout, name);
    assert_eq!((value("refused with").as_str(), value("health").as_str()), ("4", "serving"), "{told:?}");
    assert!(value("refused because").contains("room"), "{told:?}");
    assert_eq!(value("after there is room"), "0", "{told:?}");
    let acknowledged: u32 = value("acknowledged").parse().unwrap();
    assert_eq!(value("kept"), (acknowledged + 1).to_string(), "{told:?}");
    assert_eq!(value("stopped"), "0", "{told:?}");
}

fn has_namespaces() -> bool {
    Command::new("unshare").args(["-Urm", "true"]).status().is_ok_and(|status| status.success())
}

/// What a script told under this name.
#[track_caller]
fn value(told: &str, name: &str) -> String {
    let line = told.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
    line.unwrap_or_else(|| panic!("{name} is missing: {told}")).to_owned()
}

/// The database of a running daemon can be looked at and written to by commands beside it.
#[test]
fn a_daemon_shares_its_database() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &[]);
    let id = workspace.on_db(&["tasks", "enqueue", "A/b"]).line();
    assert_eq!(daemon.run(&["tasks", "show", &id, "--json"]).json()["task"]["id"], id);
}
