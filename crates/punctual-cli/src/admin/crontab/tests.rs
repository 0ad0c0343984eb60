//! What an entry comes to, and that importing again changes nothing.

use super::*;
use crate::admin::Catalog;
use punctual::clock::SystemClock;
use punctual::task::MemStore;
use punctual::task::schedule::Kind;
use std::sync::Arc;

const TABLE: &str = "\
SHELL=/bin/bash
MAILTO=ops
17 * * * * root cd / && run-parts --report /etc/cron.hourly
@daily root /usr/bin/backup --all%yes
61 * * * * root never
@reboot root /usr/bin/warm-up
";

async fn engine() -> Engine {
    Engine::builder(Arc::new(MemStore::new(Arc::new(SystemClock)))).start().await.unwrap()
}

fn asked(text: &str) -> CrontabImport {
    CrontabImport { text: text.to_owned(), zone: Some("Europe/Rome".to_owned()), ..CrontabImport::default() }
}

async fn done(engine: &Engine, import: CrontabImport) -> CrontabReport {
    super::import(engine, &Catalog::new(None, Commands::Stored), import).await.unwrap()
}

fn outcomes(report: &CrontabReport) -> Vec<&str> {
    report.lines.iter().map(|line| line.outcome.as_str()).collect()
}

/// Entries become schedules that keep cron's meaning, with its environment; every other line is accounted for.
#[tokio::test]
async fn entries_become_schedules() {
    let engine = engine().await;
    let report = done(&engine, asked(TABLE)).await;
    assert_eq!(report.format, "system");
    assert_eq!(outcomes(&report), ["variable", "variable", "created", "created", "refused", "refused"]);
    assert_eq!((report.taken, report.refused), (2, 2));
    assert!(report.lines[1].notes[0].contains("mailed"), "{:?}", report.lines[1]);
    assert!(report.lines[4].reason.as_deref().unwrap().contains("minute"), "{:?}", report.lines[4]);
    let view = schedules::find(&engine, "run-parts-cron-hourly").await.unwrap();
    let Kind::Cron(cron) = &view.spec.rule.kind else { panic!("{:?}", view.spec.rule) };
    assert_eq!((cron.text(), view.spec.rule.zone.as_str()), ("17 * * * *", "Europe/Rome"));
    assert_eq!((view.spec.missed, view.spec.overlap), (Missed::Skip, Overlap::Allow));
    assert_eq!(view.spec.options.attempts, Some(1));
    let call: command::Run = serde_json::from_slice(&view.spec.args).unwrap();
    assert_eq!(call.program, "cd / && run-parts --report /etc/cron.hourly");
    assert_eq!((call.shell, call.user.as_deref()), (true, Some("root")));
    let env: Vec<(&str, &str)> = call.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(env, [("PATH", PATH), ("SHELL", "/bin/bash")]);
    let backup = schedules::find(&engine, "backup").await.unwrap();
    let call: command::Run = serde_json::from_slice(&backup.spec.args).unwrap();
    assert_eq!(call.stdin.as_deref(), Some("yes\n"));
}

/// A second import of the same text changes nothing; one with another time changes that schedule.
#[tokio::test]
async fn importing_again_changes_nothing() {
    let engine = engine().await;
    let first = done(&engine, asked("0 3 * * * root /usr/bin/backup\n")).await;
    assert_eq!(outcomes(&first), ["created"]);
    let again = done(&engine, asked("0 3 * * * root /usr/bin/backup\n")).await;
    assert_eq!(outcomes(&again), ["unchanged"]);
    let version = schedules::find(&engine, "backup").await.unwrap().position.version;
    assert_eq!(version, 1);
    let later = done(&engine, asked("0 4 * * * root /usr/bin/backup\n")).await;
    assert_eq!(outcomes(&later), ["updated"]);
    assert_eq!(schedules::find(&engine, "backup").await.unwrap().position.version, 2);
}

/// A name that something else has is not taken over unless that is asked for, and a prefix avoids it.
#[tokio::test]
async fn other_schedules_are_left_alone() {
    let engine = engine().await;
    done(&engine, asked("0 3 * * * root /usr/bin/backup\n")).await;
    let other = "0 3 * * * root /usr/local/bin/backup\n";
    let refused = done(&engine, asked(other)).await;
    assert_eq!(outcomes(&refused), ["refused"]);
    assert!(refused.lines[0].reason.as_deref().unwrap().contains("--prefix"));
    let prefixed = done(&engine, CrontabImport { prefix: "local.".to_owned(), ..asked(other) }).await;
    assert_eq!(prefixed.lines[0].schedule.as_deref(), Some("local.backup"));
    assert_eq!(outcomes(&prefixed), ["created"]);
    let replaced = done(&engine, CrontabImport { replace: true, ..asked(other) }).await;
    assert_eq!(outcomes(&replaced), ["updated"]);
}

/// A dry run says what would be done and does nothing, also where an import would be refused as a whole.
#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let engine = engine().await;
    let import = CrontabImport { dry_run: true, ..asked(TABLE) };
    let catalog = Catalog::new(None, Commands::Refused);
    let report = super::import(&engine, &catalog, import.clone()).await.unwrap();
    assert_eq!((report.taken, report.refused), (2, 2));
    assert!(report.notes.iter().any(|note| note.contains("would be refused")), "{:?}", report.notes);
    assert!(schedules::look(&engine, "backup").await.unwrap().is_none());
    let wet = super::import(&engine, &catalog, CrontabImport { dry_run: false, ..import }).await;
    assert!(wet.unwrap_err().message().contains("--allow-commands"));
}

/// A zone that is none, or a prefix that no name may have, spoils the whole import and not each line.
#[tokio::test]
async fn what_concerns_all_lines_is_told_once() {
    let engine = engine().await;
    let catalog = Catalog::new(None, Commands::Stored);
    for import in [
        CrontabImport { zone: Some("Mars/Olympus".to_owned()), ..asked(TABLE) },
        CrontabImport { prefix: "a\nb".to_owned(), ..asked(TABLE) },
        CrontabImport { format: "anacron".to_owned(), ..asked(TABLE) },
    ] {
        let status = super::import(&engine, &catalog, import).await.unwrap_err();
        assert_eq!(status.code(), punctual::Code::InvalidArgument, "{status}");
    }
}
