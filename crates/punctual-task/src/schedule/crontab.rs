//! Crontab texts, line by line: what each line says, and why a line is refused.
//!
//! Both forms are read: the user's (`crontab -e`) and the system's (`/etc/crontab`, `/etc/cron.d/*`), which has a column
//! for the user. Reading decides nothing about running. To keep cron's meaning, whoever imports the entries should give
//! each schedule missed = skip and overlap = allow: cron forgets what it missed, and starts a command although the one
//! before still runs.

mod line;
mod name;

use super::civil::shown;
use super::error::{RuleError, RuleErrorKind};
use super::rule::Rule;
use super::zone::Zone;
use name::Names;
use std::collections::BTreeMap;

/// The longest crontab in bytes. Cron itself sets no bound; the longest known are generated ones of some 50 KiB.
pub const CRONTAB_BYTES_MAX: usize = 256 * 1024;
/// The longest line in bytes. Vixie's cron cuts commands at 1,000.
pub const LINE_BYTES_MAX: usize = 8 * 1024;
/// How many bytes of variables may be in force at once: each entry carries a copy of them.
pub const ENVIRONMENT_BYTES_MAX: usize = 16 * 1024;

/// Which of the two forms a crontab has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Five time fields, then the command.
    User,
    /// Five time fields, then the user, then the command.
    System,
}

/// One line with what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Line {
    /// Its number, from 1.
    pub number: usize,
    /// Its text, without the line's end.
    pub text: String,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is an entry that can be run on schedule.
    Taken(Box<Entry>),
    /// It cannot be used; the error says why and what to do.
    Refused(RuleError),
    /// It has nothing to run.
    Ignored(Ignored),
}

/// A line with nothing to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ignored {
    /// An empty line.
    Blank,
    /// A comment.
    Comment,
    /// A variable, in force for the entries after it.
    Variable {
        /// Its name.
        name: String,
        /// Its value, without quotes around it.
        value: String,
    },
}

/// An entry: when, as whom, what.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// A name made from the command, unique in this crontab: a suggestion for the schedule's.
    pub name: String,
    /// When it runs, in the zone of `CRON_TZ` if that is set above the line, else in the zone that the caller gave.
    pub rule: Rule,
    /// The system form's user.
    pub user: Option<String>,
    /// The command for the shell: up to the first `%` that no backslash precedes, and with `\%` read as `%`.
    pub command: String,
    /// What the command reads: the text after that first `%`, with each further one a line's end.
    pub stdin: Option<String>,
    /// The variables set above the line, such as `SHELL`, `PATH` and `MAILTO`.
    pub environment: BTreeMap<String, String>,
    /// What the importer should tell the user: where Punctual and cron differ for this line.
    pub notes: Vec<String>,
}

/// Reads a crontab. `zone` is the zone that cron ran in: the host's.
///
/// ```
/// use punctual_task::schedule::crontab::{Format, Outcome, parse};
///
/// let lines = parse("MAILTO=ops\n17 4 * * * root /usr/bin/backup --all\n", Format::System, "Europe/Rome")?;
/// let Outcome::Taken(entry) = &lines[1].outcome else { panic!("{:?}", lines[1]) };
/// assert_eq!((entry.name.as_str(), entry.user.as_deref()), ("backup", Some("root")));
/// assert_eq!(entry.environment["MAILTO"], "ops");
/// # Ok::<(), punctual_task::schedule::RuleError>(())
/// ```
///
/// # Errors
/// If the text as a whole cannot be read: it is longer than [`CRONTAB_BYTES_MAX`], or `zone` is unknown. Whatever is
/// wrong with one line is that line's [`Outcome::Refused`].
pub fn parse(text: &str, format: Format, zone: &str) -> Result<Vec<Line>, RuleError> {
    if text.len() > CRONTAB_BYTES_MAX {
        return Err(RuleError::out_of_range(format!(
            "the crontab has {} bytes; at most {CRONTAB_BYTES_MAX} are read: split it",
            text.len()
        )));
    }
    let mut reader = Reader {
        format,
        default_zone: Zone::find(zone)?.name().to_owned(),
        zone: Ok(None),
        environment: BTreeMap::new(),
        names: Names::default(),
    };
    let mut lines = Vec::new();
    for (index, raw) in text.split_inclusive('\n').enumerate() {
        let ended = raw.strip_suffix('\n');
        let text = ended.unwrap_or(raw);
        let mut outcome = reader.read(text).unwrap_or_else(Outcome::Refused);
        if let (None, Outcome::Taken(entry)) = (ended, &mut outcome) {
            entry.notes.push("the last line has no line end: some crons ignore such a line".to_owned());
        }
        lines.push(Line { number: index + 1, text: text.strip_suffix('\r').unwrap_or(text).to_owned(), outcome });
    }
    Ok(lines)
}

/// What holds from line to line.
struct Reader {
    format: Format,
    default_zone: String,
    /// `CRON_TZ`: set to a zone, not set, or set to something that is none, so that no time after it is known.
    zone: Result<Option<String>, RuleError>,
    environment: BTreeMap<String, String>,
    names: Names,
}

impl Reader {
    fn read(&mut self, text: &str) -> Result<Outcome, RuleError> {
        if text.len() > LINE_BYTES_MAX {
            return Err(RuleError::out_of_range(format!(
                "the line has {} bytes; at most {LINE_BYTES_MAX} are read: move the command into a script",
                text.len()
            )));
        }
        let (text, carriage_return) = match text.strip_suffix('\r') {
            Some(text) => (text, true),
            None => (text, false),
        };
        let text = text.trim_start_matches([' ', '\t']);
        if text.trim_end().is_empty() {
            return Ok(Outcome::Ignored(Ignored::Blank));
        }
        if text.starts_with('#') {
            return Ok(Outcome::Ignored(Ignored::Comment));
        }
        if let Some((name, value)) = line::variable(text) {
            self.set(&name, &value)?;
            return Ok(Outcome::Ignored(Ignored::Variable { name, value }));
        }
        let mut entry = self.entry(text)?;
        if carriage_return {
            entry.notes.push("the line ends in CR LF: cron would hand the CR to the command".to_owned());
        }
        Ok(Outcome::Taken(Box::new(entry)))
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), RuleError> {
        if name == "CRON_TZ" {
            self.zone =
                if value.is_empty() { Ok(None) } else { Zone::find(value).map(|zone| Some(zone.name().to_owned())) };
            if let Err(error) = &self.zone {
                return Err(error.clone());
            }
        }
        let others = self.environment.iter().filter(|(known, _)| *known != name);
        let bytes: usize = others.map(|(name, value)| name.len() + value.len()).sum();
        if bytes + name.len() + value.len() > ENVIRONMENT_BYTES_MAX {
            return Err(RuleError::out_of_range(format!(
                "with `{}` the variables would have more than {ENVIRONMENT_BYTES_MAX} bytes; set it in the command",
                shown(name)
            )));
        }
        self.environment.insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    fn entry(&mut self, text: &str) -> Result<Entry, RuleError> {
        let parts = line::entry(text, self.format)?;
        let zone = match &self.zone {
            Ok(zone) => zone.as_deref().unwrap_or(&self.default_zone),
            Err(error) => {
                return Err(RuleError::new(
                    RuleErrorKind::UnknownZone,
                    format!("the CRON_TZ above this line names no zone ({error}), so its times are not known; mend it"),
                ));
            }
        };
        let mut notes = parts.notes;
        if let Some(own) = self.environment.get("TZ").filter(|own| own.as_str() != zone) {
            notes.push(format!(
                "TZ={} is a variable of the command; the line's times are in {zone}, as cron has it",
                shown(own)
            ));
        }
        Ok(Entry {
            name: self.names.suggest(&parts.command),
            rule: parts.cron.zone(zone),
            user: parts.user,
            command: parts.command,
            stdin: parts.stdin,
            environment: self.environment.clone(),
            notes,
        })
    }
}

#[cfg(test)]
mod tests;
