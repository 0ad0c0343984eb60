//! `punctual schedules import`: schedules from a crontab.

use crate::commands::arguments::file_argument;
use crate::exit::Failure;
use crate::output::{Output, Shade, Table};
use crate::target::TargetFlags;
use clap::Args;
use punctual_admin::{CrontabImport, CrontabLine, CrontabReport};
use std::path::Path;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual schedules import /etc/crontab --dry-run
  punctual schedules import /etc/cron.d/sysstat --prefix sysstat.
  crontab -l | punctual schedules import - --format user --zone Europe/Rome

Each entry becomes a schedule of Command/run with a shell, named after its command. As cron does, it forgets what was \
missed (missed = skip) and starts a command although the one before still runs (overlap = allow). Output is kept with each \
attempt and mailed to nobody. Doing it again changes nothing; a line whose times changed is updated; a name that is taken \
by something else is refused, unless --replace is given.

Columns: line, outcome, schedule, next run, text, remarks. Exit code 1 if a line was refused; the others are taken all the \
same.")]
pub(crate) struct ImportArgs {
    /// The crontab; - is standard input.
    file: String,
    /// `user` (five time fields, command), `system` (five time fields, user, command), or `auto`: by the place of the file,
    /// else by what it looks like.
    #[arg(long, default_value = "auto", value_parser = ["auto", "user", "system"])]
    format: String,
    /// The zone that cron ran in; this machine's without it. A CRON_TZ in the file comes first.
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// Put before each schedule's name.
    #[arg(long, default_value = "", value_name = "TEXT")]
    prefix: String,
    /// Also replace schedules of the same names that run something else.
    #[arg(long)]
    replace: bool,
    /// Only say what would be done.
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn run(args: ImportArgs, target: TargetFlags, output: &mut Output) -> Result<(), Failure> {
    let text = file_argument(&args.file)?;
    let (zone, source) = match args.zone {
        Some(zone) => (zone, ""),
        None => host_zone(),
    };
    let format = match args.format.as_str() {
        "auto" => format_of_place(Path::new(&args.file)).unwrap_or("auto").to_owned(),
        _ => args.format,
    };
    let import = CrontabImport {
        text,
        format,
        zone: Some(zone),
        prefix: args.prefix,
        replace: args.replace,
        dry_run: args.dry_run,
    };
    let report = target.ask(async |admin| admin.import_crontab(import).await).await?;
    if output.is_json() {
        output.json(&report)?;
    } else {
        print(&report, source, output)?;
    }
    match report.refused {
        0 => Ok(()),
        refused => Err(Failure::failed(format!(
            "{refused} of {} entries were refused, for the reasons told with them; the others {}",
            refused + report.taken,
            if report.dry_run { "would be taken" } else { "are taken" }
        ))),
    }
}

fn print(report: &CrontabReport, source: &str, output: &mut Output) -> Result<(), Failure> {
    if !output.is_terminal() {
        return output.table(table(&report.lines));
    }
    for line in &report.lines {
        let CrontabLine { number, outcome, text, schedule, next, .. } = line;
        let schedule = schedule.as_deref().unwrap_or_default();
        let next = next.as_ref().map(|next| format!(", next run {next}")).unwrap_or_default();
        output.line(format!("{number:>4}  {text}"))?;
        output.line(format!("      {outcome} {schedule}{next}").trim_end())?;
        for remark in line.reason.iter().chain(&line.notes) {
            output.line(format!("      {remark}"))?;
        }
    }
    let would = if report.dry_run { " (a dry run: nothing was changed)" } else { "" };
    output.line(format!("\n{} taken, {} refused{would}", report.taken, report.refused))?;
    output.line(format!("read as a {} crontab, its times in {}{source}", report.format, report.zone))?;
    for note in &report.notes {
        output.line(format!("note: {note}"))?;
    }
    Ok(())
}

fn table(lines: &[CrontabLine]) -> Table {
    let mut table = Table::new(&["LINE", "OUTCOME", "SCHEDULE", "NEXT", "TEXT", "REMARKS"]);
    for line in lines {
        let plain = |text: &str| (text.to_owned(), Shade::Plain);
        table.row([
            plain(&line.number.to_string()),
            plain(&line.outcome),
            plain(line.schedule.as_deref().unwrap_or_default()),
            plain(line.next.as_deref().unwrap_or_default()),
            plain(&line.text),
            plain(&remarks(line)),
        ]);
    }
    table
}

fn remarks(line: &CrontabLine) -> String {
    line.reason.iter().chain(&line.notes).cloned().collect::<Vec<_>>().join("; ")
}

/// The format of the files in the places where cron itself looks.
fn format_of_place(file: &Path) -> Option<&'static str> {
    let folder = file.parent()?;
    let named = |name: &str| folder.file_name().is_some_and(|folder| folder == name);
    if named("cron.d") || file == Path::new("/etc/crontab") {
        Some("system")
    } else if named("crontabs") {
        Some("user")
    } else {
        None
    }
}

/// This machine's zone, in which its cron runs, and where that was read.
fn host_zone() -> (String, &'static str) {
    let set = std::env::var("TZ").ok().and_then(|zone| zone_of_tz(&zone));
    if let Some(zone) = set {
        return (zone, " (from TZ)");
    }
    if let Some(zone) = std::fs::read_link("/etc/localtime").ok().and_then(|path| zone_of_link(&path)) {
        return (zone, " (from /etc/localtime)");
    }
    let named = std::fs::read_to_string("/etc/timezone").ok().map(|text| text.trim().to_owned());
    match named.filter(|zone| !zone.is_empty()) {
        Some(zone) => (zone, " (from /etc/timezone)"),
        None => ("UTC".to_owned(), " (this machine names no zone)"),
    }
}

/// `Europe/Rome` or `:Europe/Rome`; other forms of TZ, such as `CET-1CEST`, name no zone of the database.
fn zone_of_tz(text: &str) -> Option<String> {
    let zone = text.strip_prefix(':').unwrap_or(text);
    let named = zone == "UTC" || (zone.contains('/') && !zone.starts_with('/'));
    named.then(|| zone.to_owned())
}

/// The part of a path behind the folder of the zones.
fn zone_of_link(path: &Path) -> Option<String> {
    let (_, zone) = path.to_str()?.split_once("zoneinfo/")?;
    // The names under these folders are those of the folder above, with or without leap seconds.
    let zone = zone.strip_prefix("posix/").or_else(|| zone.strip_prefix("right/")).unwrap_or(zone);
    // Debian's link may lead to the abbreviation for UTC, which is a name of the database as well.
    (!zone.is_empty()).then(|| zone.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where cron looks, the place says the format; elsewhere the text has to.
    #[test]
    fn the_place_tells_the_format() {
        let format = |path: &str| format_of_place(Path::new(path));
        assert_eq!(format("/etc/crontab"), Some("system"));
        assert_eq!(format("/etc/cron.d/sysstat"), Some("system"));
        assert_eq!(format("backup/etc/cron.d/sysstat"), Some("system"));
        assert_eq!(format("/var/spool/cron/crontabs/ann"), Some("user"));
        for other in ["-", "crontab", "my/crontab", ""] {
            assert_eq!(format(other), None, "{other}");
        }
    }

    /// The host's zone is found in the forms that hosts have it, and no other text is taken for a zone.
    #[test]
    fn the_hosts_zone_is_read() {
        assert_eq!(zone_of_tz(":Europe/Rome").as_deref(), Some("Europe/Rome"));
        assert_eq!(zone_of_tz("UTC").as_deref(), Some("UTC"));
        for other in ["", "CET-1CEST", "/usr/share/zoneinfo/Europe/Rome"] {
            assert_eq!(zone_of_tz(other), None, "{other}");
        }
        let link = |path: &str| zone_of_link(Path::new(path));
        assert_eq!(link("/usr/share/zoneinfo/Europe/Rome").as_deref(), Some("Europe/Rome"));
        assert_eq!(link("../usr/share/zoneinfo/posix/Etc/UTC").as_deref(), Some("Etc/UTC"));
        assert_eq!(link("/etc/other"), None);
    }
}
