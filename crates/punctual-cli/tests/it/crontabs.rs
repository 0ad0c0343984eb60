//! `punctual schedules import`.

use crate::support::{Daemon, Workspace, has_keys, lines_of};
use serde_json::{Value, json};

const SYSTEM: &str = include_str!("../fixtures/system.crontab");
const USER: &str = include_str!("../fixtures/user.crontab");

fn outcomes(report: &Value) -> Vec<(u64, &str)> {
    let lines = report["lines"].as_array().unwrap();
    lines.iter().map(|line| (line["number"].as_u64().unwrap(), line["outcome"].as_str().unwrap())).collect()
}

/// The report of an import, whether or not lines were refused.
fn imported(workspace: &Workspace, arguments: &[&str]) -> Value {
    let ran = workspace.on_db(&[&["schedules", "import"], arguments, &["--json"]].concat());
    serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"))
}

/// A system crontab with everything that real ones have: each line is accounted for, and each schedule previews in its zone.
#[test]
fn a_system_crontab_is_imported_line_by_line() {
    let workspace = Workspace::with_database();
    let file = workspace.file("system.crontab", SYSTEM);
    let report = imported(&workspace, &[&file, "--zone", "Europe/Rome", "--prefix", "sys."]);
    has_keys(&report, ["format", "zone", "dry_run", "lines", "taken", "refused", "notes"]);
    assert_eq!((&report["format"], &report["zone"]), (&json!("system"), &json!("Europe/Rome")));
    assert_eq!(
        outcomes(&report),
        [
            (5, "variable"),
            (6, "variable"),
            (7, "variable"),
            (9, "created"),
            (10, "created"),
            (11, "created"),
            (12, "created"),
            (13, "created"),
            (14, "created"),
            (16, "variable"),
            (17, "created"),
            (19, "refused"),
            (20, "refused"),
            (21, "refused"),
            (22, "refused"),
        ]
    );
    let line = |number: u64| {
        let lines = report["lines"].as_array().unwrap();
        lines.iter().find(|line| line["number"] == number).unwrap()
    };
    has_keys(line(9), ["number", "outcome", "text", "schedule", "reason", "notes", "next"]);
    assert_eq!(line(9)["schedule"], "sys.run-parts-cron-hourly");
    assert!(line(7)["notes"][0].as_str().unwrap().contains("mailed"));
    assert!(line(17)["next"].as_str().unwrap().ends_with("+09:00"), "{}", line(17));
    for (number, words) in [(19, "@reboot"), (20, "minute field `61`"), (21, "4 of the five"), (22, "can never fire")] {
        assert!(line(number)["reason"].as_str().unwrap().contains(words), "{}", line(number));
    }
    let stored = workspace.on_db(&["schedules", "list", "--json"]).json();
    assert_eq!(stored.as_array().unwrap().len(), 7);
    for schedule in stored.as_array().unwrap() {
        let name = schedule["name"].as_str().unwrap();
        let slots = workspace.on_db(&["schedules", "preview", name, "-n", "3", "--json"]).json();
        assert_eq!(slots.as_array().unwrap().len(), 3, "{name}");
    }
    let shown = workspace.on_db(&["schedules", "show", "sys.checkarray", "--json"]).json();
    assert_eq!((&shown["missed"], &shown["overlap"]), (&json!("skip"), &json!("allow")));
    assert_eq!(
        shown["args"]["program"],
        "if [ -x /usr/share/mdadm/checkarray ] && [ $(date +%d) -le 7 ]; then /usr/share/mdadm/checkarray --quiet; fi"
    );
    assert_eq!((&shown["args"]["user"], &shown["args"]["shell"]), (&json!("root"), &json!(true)));
    assert_eq!(shown["args"]["env"], json!({"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "SHELL": "/bin/sh"}));
}

/// Refused lines make the exit code 1 and a last line that says so, the others are taken all the same; plain lines have the
/// columns that the help names.
#[test]
fn refused_lines_are_a_failure() {
    let workspace = Workspace::with_database();
    let file = workspace.file("system.crontab", SYSTEM);
    let text = workspace.on_db(&["schedules", "import", &file, "--zone", "UTC"]).failed(1, &["4 of 11", "are taken"]);
    let line = text.lines().find(|line| line.starts_with("9\t")).unwrap();
    let cells: Vec<&str> = line.split('\t').collect();
    assert_eq!((cells[1], cells[2]), ("created", "run-parts-cron-hourly"));
    assert!(cells[3].ends_with(":17:00+00:00"), "{line}");
}

/// A user's crontab has no user column; it is told by the text, and comes by file or by standard input.
#[test]
fn a_user_crontab_comes_by_standard_input() {
    let workspace = Workspace::with_database();
    let db = workspace.db();
    let arguments = ["schedules", "import", "-", "--zone", "UTC", "--json", "--db", &db];
    let report = workspace.run_with_input(&arguments, USER).json();
    assert_eq!((&report["format"], &report["refused"]), (&json!("user"), &json!(0)));
    let shown = workspace.on_db(&["schedules", "show", "mail", "--json"]).json();
    assert_eq!(shown["args"]["stdin"], "Good morning,\nit is 100% day.\n");
    assert_eq!(shown["args"]["user"], Value::Null);
    assert_eq!(shown["args"]["dir"], "/srv/app");
    assert_eq!(shown["schedule"]["rule"], "cron 30 8 * * MON-FRI in UTC");
}

/// A dry run changes nothing; an import twice changes nothing the second time; a changed time is an update; a name that runs
/// something else is refused.
#[test]
fn imports_repeat() {
    let workspace = Workspace::with_database();
    let file = workspace.file("a", "0 3 * * * root /usr/bin/backup\n");
    let all = |arguments: &[&str]| {
        imported(&workspace, &[&[file.as_str(), "--format", "system", "--zone", "UTC"], arguments].concat())
    };
    let outcome = |report: Value| report["lines"][0]["outcome"].as_str().unwrap().to_owned();
    assert_eq!(outcome(all(&["--dry-run"])), "created");
    assert_eq!(workspace.on_db(&["schedules", "list"]).succeeded(), "");
    assert_eq!(outcome(all(&[])), "created");
    assert_eq!(outcome(all(&[])), "unchanged");
    workspace.file("a", "30 3 * * * root /usr/bin/backup\n");
    assert_eq!(outcome(all(&["--dry-run"])), "updated");
    assert_eq!(outcome(all(&[])), "updated");
    workspace.file("a", "30 3 * * * root /usr/local/bin/backup\n");
    let report = all(&[]);
    assert!(report["lines"][0]["reason"].as_str().unwrap().contains("--prefix"), "{report}");
    assert_eq!(outcome(all(&["--replace"])), "updated");
    assert_eq!(workspace.on_db(&["schedules", "list", "--json"]).json().as_array().unwrap().len(), 1);
}

/// What concerns the whole file is told in one line, before anything is stored.
#[test]
fn unreadable_crontabs_are_refused() {
    let workspace = Workspace::with_database();
    let import = |arguments: &[&str]| workspace.on_db(&[&["schedules", "import"], arguments].concat());
    import(&["nowhere"]).failed(3, &["no file nowhere"]);
    let folder = workspace.path("").to_str().unwrap().to_owned();
    import(&[&folder]).failed(2, &["cannot read"]);
    std::fs::write(workspace.path("latin"), b"0 0 * * * caf\xe9\n").unwrap();
    import(&[&workspace.text("latin")]).failed(2, &["UTF-8"]);
    let file = workspace.file("a", "0 3 * * * root /usr/bin/backup\n0 4 * * * /usr/bin/other thing\n");
    import(&[&file]).failed(2, &["both formats", "--format"]);
    import(&[&file, "--format", "system", "--zone", "Mars/Olympus"]).failed(2, &["Mars/Olympus"]);
    let huge = workspace.file("huge", &"# x\n".repeat(100_000));
    import(&[&huge]).failed(2, &["bytes"]);
    assert_eq!(workspace.on_db(&["schedules", "list"]).succeeded(), "");
}

/// A daemon that runs no commands takes no crontab, but says what it would do with one; one that does runs its lines.
#[test]
fn a_daemon_runs_what_it_imports() {
    let workspace = Workspace::new();
    let file = workspace.file("cron", "# m h dom mon dow command\n@hourly echo ran as $LOGNAME >> $HOME/ledger\n");
    let daemon = Daemon::start(&workspace, &[]);
    daemon.run(&["schedules", "import", &file]).failed(1, &["--allow-commands"]);
    let report = daemon.run(&["schedules", "import", &file, "--dry-run", "--json"]).json();
    assert!(report["notes"].to_string().contains("would be refused"), "{report}");
    daemon.stop();
    let daemon = Daemon::start(&workspace, &["--allow-commands"]);
    let tcp = daemon.address("tcp:");
    workspace.run(&["schedules", "import", &file, "--addr", &tcp]).failed(1, &["Unix socket"]);
    daemon.run(&["schedules", "import", &file]).succeeded();
    let task = daemon.run(&["schedules", "trigger", "echo"]).line();
    assert_eq!(daemon.ended(&task)["task"]["state"], "succeeded");
    assert_eq!(lines_of(&workspace.path("ledger"), 1).len(), 1);
}
