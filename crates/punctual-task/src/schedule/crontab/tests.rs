//! What each kind of line comes to.

use super::*;
use crate::schedule::RuleErrorKind;

fn read(text: &str, format: Format) -> Vec<Line> {
    parse(text, format, "Europe/Rome").unwrap()
}

fn taken(text: &str, format: Format) -> Entry {
    let lines = read(text, format);
    match lines.into_iter().next_back().map(|line| line.outcome) {
        Some(Outcome::Taken(entry)) => *entry,
        other => panic!("{text}: {other:?}"),
    }
}

fn refused(text: &str, format: Format) -> RuleError {
    match read(text, format).into_iter().next_back().map(|line| line.outcome) {
        Some(Outcome::Refused(error)) => error,
        other => panic!("{text}: {other:?}"),
    }
}

fn cron_text(entry: &Entry) -> &str {
    match &entry.rule.kind {
        crate::schedule::Kind::Cron(cron) => cron.text(),
        other => panic!("{other:?}"),
    }
}

const SYSTEM: &str = "\
# The machine's own jobs.
SHELL=/bin/sh
  PATH = \"/usr/sbin:/usr/bin:/sbin:/bin\"

17 *\t* * *\troot    cd / && run-parts --report /etc/cron.hourly
25 6\t* * *\troot\ttest -x /usr/sbin/anacron || ( cd / && run-parts --report /etc/cron.daily )
*/5 8-18 * JAN-MAR mon-fri www-data [ -x /usr/lib/app/sweep ] && if [ -d /run/app ]; then /usr/lib/app/sweep >/dev/null; fi
@daily backup /usr/bin/backup --to /srv/backup
@reboot root /usr/bin/warm-up
";

/// A system crontab with every kind of line: each is taken, refused or ignored as it should be, and numbered.
#[test]
fn a_system_crontab_is_read_line_by_line() {
    let lines = read(SYSTEM, Format::System);
    assert_eq!(lines.iter().map(|line| line.number).collect::<Vec<_>>(), (1..=9).collect::<Vec<_>>());
    assert_eq!(lines[0].outcome, Outcome::Ignored(Ignored::Comment));
    let path = Ignored::Variable { name: "PATH".into(), value: "/usr/sbin:/usr/bin:/sbin:/bin".into() };
    assert_eq!(lines[2].outcome, Outcome::Ignored(path));
    assert_eq!(lines[3].outcome, Outcome::Ignored(Ignored::Blank));
    let entries: Vec<&Entry> = lines
        .iter()
        .filter_map(|line| match &line.outcome {
            Outcome::Taken(entry) => Some(entry.as_ref()),
            _ => None,
        })
        .collect();
    let seen: Vec<_> = entries.iter().map(|e| (cron_text(e), e.user.as_deref().unwrap(), e.name.as_str())).collect();
    assert_eq!(
        seen,
        [
            ("17 * * * *", "root", "run-parts-cron-hourly"),
            ("25 6 * * *", "root", "run-parts-cron-daily"),
            ("*/5 8-18 * JAN-MAR mon-fri", "www-data", "sweep"),
            ("@daily", "backup", "backup-backup"),
        ]
    );
    assert_eq!(entries[0].command, "cd / && run-parts --report /etc/cron.hourly");
    assert_eq!(entries[0].environment["SHELL"], "/bin/sh");
    assert_eq!(entries[0].rule.zone, "Europe/Rome");
    assert!(entries.iter().all(|entry| entry.notes.is_empty()), "{entries:?}");
    let Outcome::Refused(error) = &lines[8].outcome else { panic!() };
    assert_eq!(error.kind(), RuleErrorKind::Unsupported);
}

/// The user's form has no user column: what would be the user is the command.
#[test]
fn the_user_form_has_no_user_column() {
    let entry = taken("0 3 * * * backup --all\n", Format::User);
    assert_eq!((entry.user, entry.command.as_str()), (None, "backup --all"));
    let entry = taken("0 3 * * * root backup\n", Format::User);
    assert_eq!(entry.notes.len(), 1, "a system crontab read as a user's is pointed out");
}

/// Variables hold from their line on, quoted or not, and may be set again.
#[test]
fn variables_hold_from_their_line_on() {
    let text = "A=1\n0 0 * * * x\nA = ' 2 '\n\"B\"=\n0 0 * * * y\n";
    let lines = read(text, Format::User);
    let environment = |line: usize| match &lines[line].outcome {
        Outcome::Taken(entry) => entry.environment.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(environment(1).into_iter().collect::<Vec<_>>(), [("A".into(), "1".into())]);
    let later: Vec<(String, String)> = environment(4).into_iter().collect();
    assert_eq!(later, [("A".into(), " 2 ".into()), ("B".into(), String::new())]);
    // A command that begins with an assignment is no variable.
    assert_eq!(taken("0 0 * * * A=1 x\n", Format::User).command, "A=1 x");
}

/// `CRON_TZ` is the zone of the lines after it; a zone that is none spoils them until it is set again.
#[test]
fn cron_tz_is_the_zone_of_the_lines_after_it() {
    assert_eq!(taken("CRON_TZ=Asia/Tokyo\n0 0 * * * x\n", Format::User).rule.zone, "Asia/Tokyo");
    assert_eq!(taken("CRON_TZ=Asia/Tokyo\nCRON_TZ=\n0 0 * * * x\n", Format::User).rule.zone, "Europe/Rome");
    assert_eq!(refused("CRON_TZ=Asia/Tokio\n", Format::User).kind(), RuleErrorKind::UnknownZone);
    assert_eq!(refused("CRON_TZ=Asia/Tokio\n0 0 * * * x\n", Format::User).kind(), RuleErrorKind::UnknownZone);
    assert_eq!(taken("CRON_TZ=nowhere\nCRON_TZ=UTC\n0 0 * * * x\n", Format::User).rule.zone, "UTC");
    // TZ is the command's own business.
    let entry = taken("TZ=Asia/Tokyo\n0 0 * * * x\n", Format::User);
    assert_eq!((entry.rule.zone.as_str(), entry.notes.len()), ("Europe/Rome", 1));
}

/// An unescaped `%` ends the command and begins its input; `\%` is a plain `%`.
#[test]
fn percent_signs_give_the_command_its_input() {
    let entry = taken("0 0 * * * mail -s \"100\\% done\" ops%Hello,%it is done.%\n", Format::User);
    assert_eq!(entry.command, "mail -s \"100% done\" ops");
    assert_eq!(entry.stdin.as_deref(), Some("Hello,\nit is done.\n"));
    assert_eq!(entry.notes.len(), 1);
    assert_eq!(taken("0 0 * * * x%y\n", Format::User).stdin.as_deref(), Some("y\n"));
    assert_eq!(taken("0 0 * * * date +\\%F\n", Format::User).command, "date +%F");
    assert_eq!(taken("0 0 * * * x%\n", Format::User).stdin, None);
}

/// Each malformed line is refused by itself with a reason that names what is wrong and what to do.
#[test]
fn malformed_lines_are_refused_with_the_reason() {
    let cases = [
        ("61 * * * * root x", "minute field `61`: 61 is out of range 0-59"),
        ("* * * *", "4 of the five time fields"),
        ("0 3 * * *", "no user after the times"),
        ("0 3 * * * root", "no command after the times"),
        ("0 3 * * * root %input", "no command"),
        ("0 0 30 2 * root x", "can never fire"),
        ("5/15 * * * * root x", "crons disagree on `5/15`"),
        ("0 3 * * * root x \\", "does not join lines"),
        ("@every 5m root x", "use an interval rule"),
        ("@fortnightly root x", "unknown macro"),
        ("@daily", "no user"),
        ("run-parts /etc/cron.daily", "2 of the five time fields"),
        ("=x", "1 of the five"),
    ];
    for (line, reason) in cases {
        let error = refused(&format!("{line}\n"), Format::System).to_string();
        assert!(error.contains(reason), "{line}: {error}");
    }
}

/// Small differences from cron's own reading are told with the entry.
#[test]
fn differences_from_cron_are_noted() {
    assert_eq!(taken("-*/5 * * * * root x\n", Format::System).notes.len(), 1);
    assert_eq!(taken("0 0 * * * root x", Format::System).notes.len(), 1, "no line end");
    let entry = taken("0 0 * * * root x y\r\n", Format::System);
    assert_eq!((entry.command.as_str(), entry.notes.len()), ("x y", 1));
}

/// Suggested names come from the program that matters and are never given twice.
#[test]
fn suggested_names_are_unique_and_say_something() {
    let commands = [
        ("/usr/bin/certbot -q renew", "certbot"),
        ("certbot renew", "certbot-2"),
        ("certbot-2", "certbot-2-2"),
        ("certbot", "certbot-3"),
        (
            "[ -x /etc/init.d/a ] && if [ ! -d /run/s ]; then /usr/sbin/invoke-rc.d a start >/dev/null; fi",
            "invoke-rc-d",
        ),
        ("test -e /run/s || MODE=1 /usr/lib/fs/scrub_all_cron", "scrub-all-cron"),
        ("command -v sa1 > /dev/null && sa1 1 1", "sa1"),
        ("nice -n 19 ionice -c 3 /opt/index.sh /srv/docs/ 2>&1", "index-sh-docs"),
        ("if [ -x /sbin/check ] && [ $(date +%d) -le 7 ]; then /sbin/check --all; fi", "check"),
        ("###", "cron-job"),
        ("über", "ber"),
    ];
    let mut names = Names::default();
    for (command, name) in commands {
        assert_eq!(names.suggest(command), name, "{command}");
    }
}

/// The text as a whole has bounds, and so do its lines and what its variables may carry into each entry.
#[test]
fn what_is_too_large_is_refused() {
    assert!(parse(&"#".repeat(CRONTAB_BYTES_MAX + 1), Format::User, "UTC").is_err());
    assert!(parse("", Format::User, "Mars/Olympus").is_err());
    let long = format!("0 0 * * * {}\n", "x".repeat(LINE_BYTES_MAX));
    assert_eq!(refused(&long, Format::User).kind(), RuleErrorKind::OutOfRange);
    let half = "v".repeat(LINE_BYTES_MAX - 10);
    let text = format!("A={half}\nB={half}\nA={half}\nC={half}\n");
    assert_eq!(refused(&text, Format::User).kind(), RuleErrorKind::OutOfRange);
    assert!(matches!(read(&text, Format::User)[2].outcome, Outcome::Ignored(_)), "setting anew adds nothing");
}
