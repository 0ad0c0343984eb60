//! Which of the two forms a crontab has, where nobody says.

use crate::text::shown;
use punctual::Status;
use punctual::task::schedule::crontab;
use std::collections::BTreeSet;

/// Users that packages write crontabs for, whether or not this machine has them.
const USERS: [&str; 12] =
    ["root", "daemon", "bin", "nobody", "www-data", "mail", "list", "backup", "postgres", "mysql", "munin", "smmsp"];

/// How shell lines begin that are more than one command. A program is hardly ever given one as its first argument.
const BEGINNINGS: [&str; 8] = ["if", "[", "[[", "test", "cd", "command", "for", "while"];

/// Programs that are given another command.
const STARTERS: [&str; 12] =
    ["nice", "ionice", "sudo", "env", "exec", "time", "nohup", "timeout", "flock", "chronic", "command", "setsid"];

/// A form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    User,
    System,
}

impl Format {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Format::User => "user",
            Format::System => "system",
        }
    }

    pub(super) const fn of_parser(self) -> crontab::Format {
        match self {
            Format::User => crontab::Format::User,
            Format::System => crontab::Format::System,
        }
    }
}

/// The form that was asked for, or the one that the text looks like.
///
/// # Errors
/// `invalid_argument` where the form is not known or the text can be read both ways.
pub(super) fn decide(asked: &str, text: &str) -> Result<Format, Status> {
    match asked {
        "user" => Ok(Format::User),
        "system" => Ok(Format::System),
        "" | "auto" => detect(text, &known_users()),
        other => {
            Err(Status::invalid_argument(format!("format `{}` is not known: write user, system or auto", shown(other))))
        }
    }
}

fn detect(text: &str, users: &BTreeSet<String>) -> Result<Format, Status> {
    if let Some(format) = text.lines().find_map(heading) {
        return Ok(format);
    }
    let verdicts: BTreeSet<bool> = text.lines().filter_map(|line| names_user(line, users)).collect();
    match (verdicts.contains(&true), verdicts.contains(&false)) {
        (true, true) => Err(Status::invalid_argument(
            "the crontab can be read in both formats: some of its entries name a user before the command and others do not; \
             say --format user or --format system",
        )),
        (true, false) => Ok(Format::System),
        (false, _) => Ok(Format::User),
    }
}

/// The comment that heads the columns: `# m h dom mon dow user command`, as Debian's crontabs have it, or without the user.
fn heading(line: &str) -> Option<Format> {
    let words: Vec<String> = line.trim().strip_prefix('#')?.split_whitespace().map(str::to_lowercase).collect();
    let place = |word: &str| words.iter().position(|known| known == word);
    let (day, command) = (place("dow")?, place("command")?);
    match command.checked_sub(day)? {
        1 => Some(Format::User),
        2 if words.get(day + 1).is_some_and(|word| word.starts_with("user")) => Some(Format::System),
        _ => None,
    }
}

/// Whether an entry names a user before its command; nothing for a line that is no entry.
fn names_user(line: &str, users: &BTreeSet<String>) -> Option<bool> {
    let line = line.trim();
    let first = line.chars().next()?;
    let macro_name = first == '@';
    if !(macro_name || first.is_ascii_digit() || first == '*' || first == '-') {
        return None;
    }
    let mut words = line.split_whitespace().skip(if macro_name { 1 } else { 5 });
    let (word, next) = (words.next()?, words.next());
    // A command may be named like a user (`backup --all`): then an option follows it, which no command begins with.
    let known = users.contains(word) && next.is_some_and(|next| !next.starts_with(['-', '>', '<', '|', '&']));
    // A user of a package that this machine does not have, before what can only be the beginning of a line of shell.
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
    let unknown = next.is_some_and(|next| BEGINNINGS.contains(&next))
        && word.chars().all(plain)
        && !STARTERS.contains(&word)
        && !BEGINNINGS.contains(&word);
    Some(known || unknown)
}

fn known_users() -> BTreeSet<String> {
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let here = passwd.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.to_owned());
    USERS.iter().map(|name| (*name).to_owned()).chain(here).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(text: &str) -> Result<Format, Status> {
        super::detect(text, &["root", "backup"].map(str::to_owned).into())
    }

    /// The form follows the heading of the columns, or what stands before the commands; what can be read both ways is asked.
    #[test]
    fn forms_are_told_apart() {
        let system = Ok(Format::System);
        let user = Ok(Format::User);
        assert_eq!(detect("# m h dom mon dow user\tcommand\n0 0 * * * x y\n"), system);
        assert_eq!(detect("# m h  dom mon dow   command\n0 0 * * * root x\n"), user);
        assert_eq!(detect("0 0 * * * root /bin/x\n@daily backup /bin/y\n"), system);
        assert_eq!(detect("@reboot logcheck if [ -x /bin/x ]; then /bin/x; fi\n"), system);
        assert_eq!(detect("0 0 * * * /bin/x\n@daily backup --all\n"), user);
        assert_eq!(detect("0 0 * * * nice test -e /x\n"), user);
        assert_eq!(detect("0 0 * * * rsync /a /b\n"), user);
        assert_eq!(detect("SHELL=/bin/sh\n# nothing\n"), user);
        assert!(detect("0 0 * * * root /bin/x\n0 0 * * * /bin/y z\n").is_err());
        assert_eq!(decide("system", ""), system);
        assert!(decide("vixie", "").is_err());
    }
}
