//! No SQL is put together from values: in the stores every value is a parameter.
//!
//! Found are format macros whose text reads like SQL and has a placeholder in it, and format macros given as the statement
//! to a call that runs one. Where a name has to be formatted in (a checked prefix, a pragma), the comment above says why no
//! input reaches it: `// SQL-FORMAT: the prefix was checked when the store was opened`.

use crate::files::RustFile;
use crate::rust_source::{RustSource, span_end, word_places};

/// Where the SQL lives: the folder of each store begins with this.
const STORES: &str = "crates/punctual-store-";

/// Macros that put values into text.
const FORMATS: &[&str] = &["format!", "format_args!", "write!", "writeln!"];

/// Methods of the three database libraries whose first argument is a statement.
const RUNS_STATEMENT: &[&str] = &[
    ".batch_execute(",
    ".exec_drop(",
    ".execute(",
    ".execute_batch(",
    ".prepare(",
    ".prepare_cached(",
    ".query(",
    ".query_drop(",
    ".query_one(",
    ".query_opt(",
    ".query_row(",
    ".simple_query(",
];

/// What makes a text SQL, in any case. Two words each: one alone may stand in an error message.
const PHRASES: &[&[&str]] = &[
    &["select ", " from "],
    &["insert into "],
    &["insert or "],
    &["replace into "],
    &["update ", " set "],
    &["delete from "],
    &["create table "],
    &["create index "],
    &["create unique index "],
    &["create trigger "],
    &["create view "],
    &["drop table "],
    &["drop index "],
    &["drop trigger "],
    &["alter table "],
    &["attach database "],
    &["on conflict "],
    &["order by "],
    &["group by "],
];

/// Fragments that are words of prose in small letters, and SQL in capitals.
const CAPITALS: &[&str] = &["WHERE ", "VALUES", "PRAGMA ", "LIMIT ", " SET ", "RETURNING ", " JOIN "];

/// The word that excuses a place, with the reason behind it.
const EXCUSE: &str = "SQL-FORMAT:";

/// Statements put together with a format macro in the stores, a line each.
pub(crate) fn findings(files: &[RustFile]) -> Vec<String> {
    let stores = files.iter().filter(|file| file.path.starts_with(STORES) && !file.is_for_tests());
    stores.flat_map(in_file).collect()
}

fn in_file(file: &RustFile) -> Vec<String> {
    let source = file.source.without_tests();
    let mut places: Vec<usize> = Vec::new();
    for at in FORMATS.iter().flat_map(|name| word_places(&source.code, name)) {
        let Some(text) = source.literals.get(at..span_end(&source.code, open_of(&source.code, at))) else { continue };
        if has_placeholder(text) && is_sql(text) {
            places.push(at);
        }
    }
    for method in RUNS_STATEMENT {
        for (at, _) in source.code.match_indices(method) {
            let first = first_argument(&source.code, at + method.len());
            if FORMATS.iter().any(|name| word_places(first, name).next().is_some()) {
                places.push(at);
            }
        }
    }
    let mut lines: Vec<usize> =
        places.into_iter().map(|at| source.line(at)).filter(|line| !is_excused(&source, *line)).collect();
    lines.sort_unstable();
    lines.dedup();
    let tell = |line| {
        format!(
            "{}:{line} formats values into SQL: bind them as parameters, or say above it \"// {EXCUSE} why no input \
             reaches it\"",
            file.path
        )
    };
    lines.into_iter().map(tell).collect()
}

/// The bracket behind a macro's name.
fn open_of(code: &str, at: usize) -> usize {
    code.get(at..).and_then(|rest| rest.find(['(', '[', '{'])).map_or(code.len(), |found| at + found)
}

fn has_placeholder(text: &str) -> bool {
    text.replace("{{", "").contains('{')
}

fn is_sql(text: &str) -> bool {
    // What stands between backticks is a name, or a statement that a message quotes: neither makes a text SQL.
    let unquoted: Vec<&str> = text.split('`').step_by(2).collect();
    let text = unquoted.join(" ").split_whitespace().collect::<Vec<_>>().join(" ") + " ";
    let small = text.to_lowercase();
    PHRASES.iter().any(|words| words.iter().all(|word| small.contains(word)))
        || CAPITALS.iter().any(|word| text.contains(word))
}

/// The code up to the first comma that belongs to the call itself.
fn first_argument(code: &str, from: usize) -> &str {
    let rest = code.get(from..).unwrap_or_default();
    let mut depth = 0_usize;
    for (at, byte) in rest.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b',' | b')' if depth == 0 => return rest.get(..at).unwrap_or_default(),
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    rest
}

/// Whether the lines of comment directly above a line carry the excuse and a reason.
fn is_excused(source: &RustSource, line: usize) -> bool {
    let comments: Vec<&str> = source.comments.lines().take(line - 1).collect();
    let above = comments.iter().rev().map(|comment| comment.trim()).take_while(|comment| !comment.is_empty());
    above.filter_map(|comment| comment.split_once(EXCUSE)).any(|(_, reason)| !reason.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::findings;
    use crate::cargo::Cargo;
    use crate::files::{RustFile, rust_sources};
    use crate::rust_source::RustSource;

    fn check_at(path: &str, text: &str, lines: &[usize]) {
        let file = RustFile { path: path.to_owned(), source: RustSource::read(text) };
        let found = findings(&[file]);
        let expected: Vec<String> = lines.iter().map(|line| format!("{path}:{line} ")).collect();
        assert_eq!(found.len(), expected.len(), "{found:?} for {text}");
        for (found, expected) in found.iter().zip(&expected) {
            assert!(found.starts_with(expected), "{found} is not at {expected}");
        }
    }

    fn check(text: &str, lines: &[usize]) {
        check_at("crates/punctual-store-sqlite/src/claim.rs", text, lines);
    }

    /// Guards against injection: each way to get a value into a statement is seen.
    #[test]
    fn sql_made_of_values_is_found() {
        check("let sql = format!(\"SELECT id\n FROM task WHERE queue = '{queue}'\");", &[1]);
        check("fn f() {\n  write!(sql, \"delete from {table}\")?;\n}", &[2]);
        check("format!(\"UPDATE task {} SET a = ?\", b)", &[1]);
        check("sql += &format!(\" LIMIT {n}\");", &[1]);
        check("format!(\"UPDATE `task` SET a = {a}\")", &[1]);
        check("connection.execute(&format!(\"{head} {tail}\"), [])?;", &[1]);
        check("connection\n.prepare_cached(&format!(\"{head}\"))?;", &[2]);
    }

    /// Guards that the check stays quiet on what is no SQL, or has no values in it.
    #[test]
    fn what_is_no_sql_passes() {
        check("format!(\"cannot update {name}: the row is gone\")", &[]);
        check("format!(\"select another queue than {name}\")", &[]);
        check("format!(\"{what}; run `PRAGMA integrity_check` on it\")", &[]);
        check("connection.execute(\"INSERT INTO task VALUES (?1)\", params![format!(\"{a}\")])?;", &[]);
        check("// format!(\"SELECT {a} FROM b\")\n", &[]);
        check("#[cfg(test)]\nmod tests { fn f() { format!(\"SELECT {a} FROM b\"); } }", &[]);
        check_at("crates/punctual-cli/src/main.rs", "format!(\"SELECT {a} FROM b\")", &[]);
    }

    /// Guards that an excuse needs a reason, and stands with its place.
    #[test]
    fn an_excuse_needs_a_reason() {
        check(
            "// SQL-FORMAT: the prefix was checked at open,\n// see `Prefix`.\nlet a = format!(\"PRAGMA {p}\");",
            &[],
        );
        check("// SQL-FORMAT:\nlet a = format!(\"PRAGMA {p}\");", &[2]);
        check("// SQL-FORMAT: for another.\nlet b = 1;\nlet a = format!(\"PRAGMA {p}\");", &[3]);
    }

    /// Guards the stores as they are.
    #[test]
    fn the_stores_bind_their_values() {
        let files = rust_sources(&Cargo::for_reading().root).expect("the sources are read");
        assert!(files.iter().any(|file| file.path.starts_with(super::STORES)), "the stores were found");
        assert_eq!(findings(&files), Vec::<String>::new());
    }
}
