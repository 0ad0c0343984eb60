//! Names for schedules made from their commands.

use std::collections::BTreeMap;

/// The longest suggested name, before a number that makes it unique.
const NAME_BYTES_MAX: usize = 40;

/// Commands that only lead up to the one that matters, or end a block.
const BESIDE: [&str; 13] =
    ["test", "[", "[[", "cd", "command", "fi", "done", "true", ":", "export", "umask", "set", "sleep"];
/// Words that stand before the program of a command.
const BEFORE: [&str; 14] =
    ["!", "if", "then", "else", "elif", "while", "do", "exec", "env", "nice", "ionice", "nohup", "sudo", "time"];

/// The names given so far, each with the next number to try when it is asked for again.
#[derive(Default)]
pub(super) struct Names {
    given: BTreeMap<String, usize>,
}

impl Names {
    /// A name for a command, which no command before it was given.
    pub(super) fn suggest(&mut self, command: &str) -> String {
        let name = name(command);
        let mut number = self.given.get(&name).copied().unwrap_or(1);
        let mut unique = name.clone();
        // Only names that end in a number of their own can stand in the way, so the search goes on where it ended.
        while self.given.contains_key(&unique) {
            number += 1;
            unique = format!("{name}-{number}");
        }
        self.given.insert(name, number);
        self.given.entry(unique.clone()).or_insert(1);
        unique
    }
}

/// The program that a command comes down to, with its first argument if that is a path.
fn name(command: &str) -> String {
    let command = without_substitutions(command);
    let program = command
        .split([';', '|', '&', '{', '}', '(', ')', '\n'])
        .map(words)
        .find_map(|mut words| Some((words.next()?, words)));
    let Some((program, mut arguments)) = program else { return "cron-job".to_owned() };
    let mut out = slug(program.rsplit('/').next().unwrap_or(program));
    if let Some(path) = arguments.find(|word| word.starts_with('/') && word.len() > 1) {
        let mut parts = path.trim_end_matches('/').rsplit('/');
        if let Some(last) = parts.next().map(slug).filter(|last| !last.is_empty()) {
            out = if out.is_empty() { last } else { format!("{out}-{last}") };
        }
    }
    out.truncate(NAME_BYTES_MAX);
    let out = out.trim_end_matches('-');
    if out.is_empty() { "cron-job".to_owned() } else { out.to_owned() }
}

/// The words of a simple command from its program on; none if it only leads up to another.
fn words(simple: &str) -> impl Iterator<Item = &str> {
    let mut words = simple.split_whitespace().peekable();
    // Assignments before a program are its environment; options and numbers belong to what stood before.
    let before = |word: &&str| {
        BEFORE.contains(word) || word.contains('=') || word.starts_with('-') || word.bytes().all(|b| b.is_ascii_digit())
    };
    while words.next_if(before).is_some() {}
    let beside = words.peek().is_some_and(|word| BESIDE.contains(word));
    // Redirections end what says anything about the command.
    words.filter(move |_| !beside).take_while(|word| !word.starts_with(['>', '<']) && !word.starts_with("2>"))
}

/// A command without what the shell would fill in by running `$(..)`: that is not what the entry is about.
fn without_substitutions(command: &str) -> String {
    let mut out = String::with_capacity(command.len());
    let mut depth = 0_usize;
    let mut before = ' ';
    for c in command.chars() {
        match c {
            '(' if depth > 0 || before == '$' => depth += 1,
            ')' if depth > 0 => depth -= 1,
            _ if depth == 0 => out.push(c),
            _ => {}
        }
        before = c;
    }
    out
}

/// Lower-case letters, digits and single dashes.
fn slug(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            out.push(c.to_ascii_lowercase());
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
    }
    out.trim_end_matches('-').to_owned()
}
