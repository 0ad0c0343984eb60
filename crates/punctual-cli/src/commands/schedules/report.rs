//! A schedule for people.

use crate::exit::Failure;
use crate::output::{Output, Shade, Table};
use punctual_admin::ScheduleReport;

/// Prints all that is kept of a schedule.
pub(super) fn print(report: &ScheduleReport, output: &mut Output) -> Result<(), Failure> {
    let schedule = &report.schedule;
    let mut field = |name: &str, value: &str| output.line(format!("{name:<12}{value}"));
    field("name", &schedule.name)?;
    field("rule", &schedule.rule)?;
    let note = if schedule.note.is_empty() { String::new() } else { format!(" ({})", schedule.note) };
    field("state", &format!("{}{note}", schedule.state))?;
    field("method", &schedule.method)?;
    field("args", &report.args.to_string())?;
    field("queue", &report.queue)?;
    field("missed", &report.missed)?;
    field("overlap", &format!("{} (at most {} at once)", report.overlap, report.max_pending))?;
    if let Some(jitter) = &report.jitter {
        field("jitter", &format!("due {} after its slots (up to {})", jitter.delay, jitter.most))?;
    }
    if let Some(failures) = report.pause_after {
        field("pauses", &format!("after {failures} failures in a row"))?;
    }
    field("created", &report.created)?;
    field("version", &format!("{} (era {})", report.version, report.era))?;
    field("runs", &format!("{} ({} live)", schedule.runs, schedule.live))?;
    let lost: Vec<String> = report.lost.iter().map(|lost| format!("{} {}", lost.count, lost.reason)).collect();
    field("lost", if lost.is_empty() { "none".to_owned() } else { lost.join(", ") }.as_str())?;
    if let Some(zone) = &report.zone {
        let here = if zone.tzdb == zone.here { String::new() } else { format!(" (this host has {})", zone.here) };
        field("tzdb", &format!("{}{here}", zone.tzdb))?;
        if let Some(left) = &zone.left {
            field("", left)?;
        }
    }
    if let Some(backfill) = &report.backfill {
        let next = backfill.next.as_ref().map(|next| format!(", next {next}")).unwrap_or_default();
        field(
            "backfill",
            &format!(
                "{} of {} to {}: {}{next}; {} created, {} existed, {} live (at most {} at once)",
                backfill.pass,
                backfill.from,
                backfill.to,
                backfill.state,
                backfill.created,
                backfill.existed,
                backfill.live,
                backfill.max_pending
            ),
        )?;
    }
    let cursor = schedule.next.as_deref().unwrap_or("none");
    field("cursor", cursor)?;
    for (at, slot) in report.next.iter().enumerate() {
        field(if at == 0 { "next" } else { "" }, &slot.local)?;
    }
    pending(report, output)?;
    if report.losses.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&["LOST FROM", "TO", "REASON", "SLOTS"]);
    for loss in &report.losses {
        let plain = |text: String| (text, Shade::Plain);
        let least = if loss.exact { "" } else { "at least " };
        table.row([
            plain(loss.from.clone()),
            plain(loss.to.clone()),
            (loss.reason.clone(), Shade::Odd),
            plain(format!("{least}{}", loss.count)),
        ]);
    }
    output.line("")?;
    output.table(table)
}

fn pending(report: &ScheduleReport, output: &mut Output) -> Result<(), Failure> {
    if report.pending.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&["PENDING", "STATE", "SLOT", "ATTEMPTS", "BACKFILL"]);
    for task in &report.pending {
        let plain = |text: String| (text, Shade::Plain);
        table.row([
            plain(task.task.clone()),
            (task.state.clone(), Shade::of_state(&task.state)),
            plain(task.slot.clone().unwrap_or_default()),
            plain(task.attempts.to_string()),
            plain(if task.pass == 0 { String::new() } else { task.pass.to_string() }),
        ]);
    }
    output.line("")?;
    output.table(table)
}
