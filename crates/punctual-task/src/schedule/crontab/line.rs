//! One line of a crontab taken apart.

use super::Format;
use crate::schedule::civil::shown;
use crate::schedule::cron::Cron;
use crate::schedule::error::RuleError;

/// What an entry's line says.
pub(super) struct Parts {
    pub(super) cron: Cron,
    pub(super) user: Option<String>,
    pub(super) command: String,
    pub(super) stdin: Option<String>,
    pub(super) notes: Vec<String>,
}

/// `name = value`, either side quoted or not, as cron reads it; `None` if the line is something else.
pub(super) fn variable(text: &str) -> Option<(String, String)> {
    let (name, rest) = match text.chars().next()? {
        quote @ ('"' | '\'') => text.get(1..)?.split_once(quote)?,
        first if first.is_alphabetic() || first == '_' => {
            text.split_at(text.find(|c: char| c == '=' || c.is_whitespace())?)
        }
        _ => return None,
    };
    let value = rest.trim_start().strip_prefix('=')?.trim();
    let plain = ['"', '\''].iter().find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote));
    Some((name.to_owned(), plain.unwrap_or(value).to_owned()))
}

/// Times, the user if there is one, and the command.
pub(super) fn entry(text: &str, format: Format) -> Result<Parts, RuleError> {
    let mut notes = Vec::new();
    let text = match text.strip_prefix('-') {
        Some(rest) => {
            notes.push("the leading `-` only keeps cron from logging the run; it is left out".to_owned());
            rest
        }
        None => text,
    };
    if text.trim_end().ends_with('\\') {
        return Err(RuleError::unsupported(
            "the line ends in a backslash, but cron does not join lines; write the entry on one line",
        ));
    }
    let (times, rest) = times(text)?;
    let cron = Cron::parse(&times)?;
    let (user, rest) = match format {
        Format::User => (None, rest),
        Format::System => {
            let (user, rest) = word(rest).ok_or_else(|| missing("user"))?;
            (Some(user.to_owned()), rest)
        }
    };
    let (command, stdin) = split_at_percent(rest.trim());
    let command = command.trim_end().to_owned();
    if command.is_empty() {
        return Err(missing("command"));
    }
    if stdin.is_some() {
        notes.push("the text after `%` is given to the command as its input".to_owned());
    }
    if format == Format::User && word(&command).is_some_and(|(first, _)| first == "root") {
        notes.push("the command begins with `root`: if this is a system crontab, read it as one".to_owned());
    }
    Ok(Parts { cron, user, command, stdin, notes })
}

fn missing(what: &str) -> RuleError {
    RuleError::syntax(format!(
        "no {what} after the times; an entry is five time fields or a macro such as @daily, \
         then the user (in a system crontab only), then the command"
    ))
}

/// The time fields, one space between them, and the rest of the line.
fn times(text: &str) -> Result<(String, &str), RuleError> {
    if text.starts_with('@') {
        let (name, rest) = word(text).ok_or_else(|| missing("command"))?;
        return Ok((name.to_owned(), rest));
    }
    let mut fields = Vec::with_capacity(5);
    let mut rest = text;
    for _ in 0..5 {
        let (field, after) = word(rest).ok_or_else(|| {
            RuleError::syntax(format!(
                "`{}` has {} of the five time fields of an entry, and is no variable or comment either; \
                 write minute, hour, day of month, month and day of week before the command",
                shown(text),
                fields.len()
            ))
        })?;
        fields.push(field);
        rest = after;
    }
    // Some crons read 5 alone and drop the rest, others count on to the field's end.
    let single = |item: &&str| item.split_once('/').is_some_and(|(base, _)| !base.contains(['*', '-']));
    if let Some(item) = fields.iter().flat_map(|field| field.split(',')).find(single) {
        return Err(RuleError::unsupported(format!(
            "crons disagree on `{}`: a step after a single number; write the range, such as 5-59/15, or the number",
            shown(item)
        )));
    }
    Ok((fields.join(" "), rest))
}

/// The first word and what follows it.
fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    if word.is_empty() { None } else { Some((word, rest)) }
}

/// The command, and what cron would give it to read.
fn split_at_percent(text: &str) -> (String, Option<String>) {
    let mut parts = [String::new(), String::new()];
    let mut in_stdin = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let out = &mut parts[usize::from(in_stdin)];
        match c {
            '\\' if chars.next_if_eq(&'%').is_some() => out.push('%'),
            '%' if in_stdin => out.push('\n'),
            '%' => in_stdin = true,
            _ => out.push(c),
        }
    }
    let [command, mut stdin] = parts;
    if stdin.is_empty() {
        return (command, None);
    }
    // Cron sees to it that the input ends with a line end.
    if !stdin.ends_with('\n') {
        stdin.push('\n');
    }
    (command, Some(stdin))
}
