//! The text of a configuration file: the place of each setting, and what is wrong with it.

use super::{ConfigFile, Settings};
use crate::text::shown;
use std::fmt;
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// What every message about a file ends with.
const READ_ON: &str = "docs/punctual.toml shows every setting";

/// The tables of `[admission]` whose names the user chooses, and the settings of each.
const NAMED: [&str; 2] = ["services", "methods"];
const NAMED_SETTINGS: [&str; 3] = ["running_max", "calls_per_second", "burst"];

/// One thing that is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// From 1, where it has a place.
    pub(crate) line: Option<usize>,
    pub(crate) message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// A setting that a file makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leaf {
    /// The tables that it is in, and its name.
    pub(crate) path: Vec<String>,
    span: Range<usize>,
}

impl Leaf {
    /// `[engine] slots`.
    fn name(&self) -> String {
        match self.path.split_last() {
            Some((name, [])) => name.clone(),
            Some((name, tables)) => format!("[{}] {name}", key_of(tables)),
            None => String::new(),
        }
    }
}

/// The parts with dots between them; such a part as TOML needs quotes for has them.
pub(crate) fn key_of(path: &[String]) -> String {
    let bare = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
    let part = |part: &String| if bare(part) { part.clone() } else { format!("\"{}\"", shown(part)) };
    path.iter().map(part).collect::<Vec<_>>().join(".")
}

/// Every setting of a document with its path, in any order.
pub(crate) fn settings_of(table: &toml::Table) -> Vec<(Vec<String>, toml::Value)> {
    fn walk(table: &toml::Table, at: &[String], found: &mut Vec<(Vec<String>, toml::Value)>) {
        for (name, value) in table {
            let path = [at, std::slice::from_ref(name)].concat();
            match value {
                toml::Value::Table(table) => walk(table, &path, found),
                value => found.push((path, value.clone())),
            }
        }
    }
    let mut found = Vec::new();
    walk(table, &[], &mut found);
    found
}

/// Reads a file's text.
///
/// # Errors
/// The first thing that is wrong.
pub(super) fn parse(text: &str) -> Result<ConfigFile, Problem> {
    let leaves = leaves(text)?;
    if let Some(problem) = leaves.iter().find_map(|leaf| unknown(text, leaf)) {
        return Err(problem);
    }
    toml::from_str(text).map_err(|error| refused(text, &leaves, &error))
}

/// Everything that is wrong with a file's text by itself, in the order of its lines, and otherwise the first thing that is
/// wrong with its settings together.
pub(crate) fn problems(text: &str) -> Vec<Problem> {
    let (leaves, table) = match (leaves(text), text.parse::<toml::Table>()) {
        (Ok(leaves), Ok(table)) => (leaves, table),
        (Err(problem), _) => return vec![problem],
        (Ok(leaves), Err(error)) => return vec![refused(text, &leaves, &error)],
    };
    let mut found: Vec<Problem> =
        leaves.iter().filter_map(|leaf| unknown(text, leaf).or_else(|| wrong_alone(text, leaf, &table))).collect();
    found.sort_by_key(|problem| problem.line);
    if found.is_empty() {
        let resolved = parse(text).and_then(|file| {
            Settings::resolve(file, Vec::new()).map_err(|failure| Problem { line: None, message: failure.to_string() })
        });
        found.extend(resolved.err());
    }
    found
}

/// What is wrong with one setting, whatever the others are.
fn wrong_alone(text: &str, leaf: &Leaf, whole: &toml::Table) -> Option<Problem> {
    let mut value = toml::Value::Table(whole.clone());
    for part in &leaf.path {
        value = value.get(part)?.clone();
    }
    let alone = leaf
        .path
        .iter()
        .rev()
        .fold(value, |value, part| toml::Value::Table(std::iter::once((part.clone(), value)).collect()));
    let file: Result<ConfigFile, toml::de::Error> = alone.try_into();
    let message = match file {
        Err(error) => format!("{}: {}", leaf.name(), one_line(error.message())),
        // A certificate needs its key, which is another setting.
        Ok(_) if leaf.path.first().is_some_and(|section| section == "tls") => return None,
        Ok(file) => file.apply(&mut Settings::default()).err()?,
    };
    Some(Problem { line: Some(line_at(text, leaf.span.start)), message: format!("{message}; {READ_ON}") })
}

fn leaves(text: &str) -> Result<Vec<Leaf>, Problem> {
    fn walk(table: &DeTable<'_>, at: &[String], found: &mut Vec<Leaf>) {
        for (name, value) in table {
            let path = [at, &[name.get_ref().clone().into_owned()]].concat();
            match value.get_ref() {
                DeValue::Table(table) => walk(table, &path, found),
                _ => found.push(Leaf { path, span: name.span().start..value.span().end }),
            }
        }
    }
    let table = DeTable::parse(text).map_err(|error| refused(text, &[], &error))?;
    let mut found = Vec::new();
    walk(table.get_ref(), &[], &mut found);
    Ok(found)
}

/// The parser's words, with the line and the setting.
fn refused(text: &str, leaves: &[Leaf], error: &toml::de::Error) -> Problem {
    let start = error.span().map(|span| span.start);
    let leaf = start.and_then(|start| leaves.iter().find(|leaf| leaf.span.contains(&start)));
    let named = leaf.map(|leaf| format!("{}: ", leaf.name())).unwrap_or_default();
    let message = format!("{named}{}; {READ_ON}", one_line(error.message()));
    Problem { line: start.map(|start| line_at(text, start)), message }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn line_at(text: &str, start: usize) -> usize {
    text.get(..start).unwrap_or_default().matches('\n').count() + 1
}

/// What to say of a setting that is not known, with what may have been meant.
fn unknown(text: &str, leaf: &Leaf) -> Option<Problem> {
    let known = known();
    if known.contains(&leaf.path) {
        return None;
    }
    let (name, tables) = leaf.path.split_last()?;
    if let [admission, kind, _] = tables
        && admission == "admission"
        && NAMED.contains(&kind.as_str())
        && NAMED_SETTINGS.contains(&name.as_str())
    {
        return None;
    }
    let of = |path: &[String]| match path {
        [] => String::new(),
        path => format!(" in [{}]", key_of(path)),
    };
    let message = if known.iter().any(|path| path.len() > leaf.path.len() && path.starts_with(&leaf.path)) {
        format!("`{name}` is a section, not a setting; write [{name}] above its settings")
    } else {
        let hint = match meant(&known, tables, name) {
            Some(Meant::Setting(name)) => format!("; did you mean `{name}`?"),
            Some(Meant::Elsewhere(path)) => match path.split_last() {
                Some((name, [])) => format!("; did you mean `{name}`, above all sections?"),
                Some((name, tables)) => format!("; did you mean `{name}`{}?", of(tables)),
                None => String::new(),
            },
            None => String::new(),
        };
        format!("unknown setting `{}`{}{hint}", shown(name), of(tables))
    };
    Some(Problem { line: Some(line_at(text, leaf.span.start)), message: format!("{message}; {READ_ON}") })
}

fn known() -> Vec<Vec<String>> {
    // The settings are plain data, which TOML can always say.
    let table = toml::Table::try_from(ConfigFile::of(&Settings::default())).unwrap_or_default();
    settings_of(&table).into_iter().map(|(path, _)| path).collect()
}

enum Meant<'a> {
    /// Another name in the same section.
    Setting(&'a str),
    /// A setting of another section.
    Elsewhere(&'a [String]),
}

/// The longest name that is compared: those that there are have half of it.
const COMPARED_BYTES_MAX: usize = 64;

fn meant<'a>(known: &'a [Vec<String>], tables: &[String], name: &str) -> Option<Meant<'a>> {
    if name.len() > COMPARED_BYTES_MAX {
        return None;
    }
    let near = |to: &str| Some(distance(name, to)).filter(|distance| *distance <= 1 + name.len() / 5);
    let named = |path: &'a Vec<String>| path.split_last().map(|(name, tables)| (path, tables, name));
    let all: Vec<_> = known.iter().filter_map(named).collect();
    // A slip in this section, the same name in another one, a slip in a section whose own name may be one, in this order.
    let here = all.iter().filter(|(_, at, _)| *at == tables).filter_map(|(_, _, to)| Some((near(to)?, *to)));
    if let Some((_, to)) = here.min_by_key(|(distance, _)| *distance) {
        return Some(Meant::Setting(to));
    }
    let section = tables.first().map_or("", String::as_str);
    let elsewhere = all.iter().filter_map(|(path, at, to)| {
        let off = distance(section.get(..COMPARED_BYTES_MAX).unwrap_or(section), at.first().map_or("", String::as_str));
        Some((near(to)?, off, *path))
    });
    // Of equals the one that is in the fewest tables.
    elsewhere
        .min_by_key(|(distance, off, path)| (*distance, *off, path.len()))
        .map(|(_, _, path)| Meant::Elsewhere(path))
}

/// How many characters have to be put in, left out or replaced to make one text of the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, a) in one.chars().enumerate() {
        let mut diagonal = at;
        let mut left = at + 1;
        for (place, b) in row.iter_mut().skip(1).zip(&other) {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = *place;
            left = replaced.min(*place + 1).min(left + 1);
            *place = left;
        }
        if let Some(first) = row.first_mut() {
            *first = at + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}
