//! How files are named and begin, and what must not be left in them: house rules that no lint knows.

use crate::files::Text;
use crate::rust_source::{RustSource, word_places};

/// Names under which anything could be filed.
const NAMELESS: &[&str] = &["base", "common", "helper", "helpers", "misc", "types", "util", "utils"];

/// Code that was not finished, or not meant to stay.
const CODE_LEFTOVERS: &[&str] = &["todo!", "unimplemented!", "dbg!", "#[ignore"];

/// What belongs into the issue tracker.
const COMMENT_LEFTOVERS: &[&str] = &["TODO", "FIXME", "XXX"];

/// Folders of one machine. Put together, so that this file does not contain what it looks for.
const MACHINE_PATHS: &[&str] = &[concat!("/", "home/"), concat!("/", "root/"), concat!("/", "work/")];

/// Past this one asks which noun is hiding in a file.
const LINES_ASKED_ABOUT: usize = 500;

/// What is against the rules, a line each.
pub(crate) fn findings(texts: &[Text]) -> Vec<String> {
    let mut found = Vec::new();
    for file in texts {
        for (line, path) in machine_paths(&file.text) {
            found.push(format!("{}:{line} holds a path of one machine ({path})", file.path));
        }
        if file.path.ends_with(".rs") && !is_fixture(&file.path) {
            found.extend(name_objection(&file.path));
            found.extend(content_objections(file));
        }
    }
    found
}

/// Files that have grown long, told and not refused.
pub(crate) fn long_files(texts: &[Text]) -> Vec<String> {
    let rust = texts.iter().filter(|file| file.path.ends_with(".rs") && !is_fixture(&file.path));
    let counted = rust.map(|file| (file, RustSource::read(&file.text).without_tests()));
    let lines = counted.map(|(file, source)| {
        let lines = source.code.lines().filter(|line| !line.trim().is_empty()).count();
        (file, lines)
    });
    lines
        .filter(|(_, lines)| *lines > LINES_ASKED_ABOUT)
        .map(|(file, lines)| format!("{} has {lines} lines of code: which noun is hiding in it?", file.path))
        .collect()
}

/// Inputs of compile tests are written to be wrong.
fn is_fixture(path: &str) -> bool {
    path.contains("/tests/ui/") || path.contains("/fixtures/")
}

fn machine_paths(text: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for path in MACHINE_PATHS {
            let starts = |at: usize| {
                // Inside a longer path or an address it is a folder of that name, and no root.
                let before = line.get(..at).and_then(|before| before.chars().next_back());
                before.is_none_or(|before| !before.is_alphanumeric() && !"/._-~}*".contains(before))
            };
            if line.match_indices(path).any(|(at, _)| starts(at)) {
                found.push((number + 1, *path));
            }
        }
    }
    found
}

fn name_objection(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').map(|part| part.trim_end_matches(".rs")).collect();
    if parts.last() == Some(&"mod") {
        return Some(format!("{path}: a module is foo.rs with its folder foo, not foo/mod.rs"));
    }
    let nameless = parts.into_iter().find(|part| NAMELESS.contains(part))?;
    Some(format!("{path}: \"{nameless}\" says nothing; name the noun that is in it"))
}

fn content_objections(file: &Text) -> Vec<String> {
    let mut found = Vec::new();
    if !file.text.starts_with("//!") {
        found.push(format!("{}:1 opens without \"//!\": say the file's job in a sentence", file.path));
    }
    let source = RustSource::read(&file.text);
    for word in CODE_LEFTOVERS {
        for at in word_places(&source.code, word) {
            found.push(format!("{}:{} holds {word}", file.path, source.line(at)));
        }
    }
    for word in COMMENT_LEFTOVERS {
        for at in word_places(&source.comments, word) {
            found.push(format!("{}:{} holds {word}: finish it, or open an issue", file.path, source.line(at)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{LINES_ASKED_ABOUT, MACHINE_PATHS, findings, long_files};
    use crate::files::Text;

    fn check(path: &str, text: &str, expected: &[&str]) {
        let found = findings(&[Text { path: path.to_owned(), text: text.to_owned() }]);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(expected), "{found} lacks {expected}");
        }
    }

    /// Guards that nothing unfinished gets in, while prose and strings may speak of it.
    #[test]
    fn leftovers_are_found() {
        check("a/src/a.rs", "//! A.\nfn f() { todo!() }", &["a.rs:2 holds todo!"]);
        check(
            "a/src/a.rs",
            "//! A.\n#[ignore = \"slow\"]\nfn f() { dbg!(1); unimplemented!() }",
            &["unimpl", "dbg", "#[ign"],
        );
        check("a/src/a.rs", "//! A.\n// TODO: b", &["a.rs:2 holds TODO"]);
        check("a/src/a.rs", "//! A.\nlet a = \"todo! TODO\"; my_todo!(); // dbg!", &[]);
    }

    /// Guards the shape of a file: its name and its first line.
    #[test]
    fn names_and_heads_are_checked() {
        check("a/src/b/mod.rs", "//! B.", &["mod.rs"]);
        check("a/src/utils.rs", "//! U.", &["\"utils\" says nothing"]);
        check("a/src/common/b.rs", "//! B.", &["\"common\""]);
        check("a/src/b.rs", "use c;", &["opens without"]);
        check("a/tests/ui/b.rs", "fn main() {}", &[]);
    }

    /// Guards that no path of a machine is published, and that addresses and longer paths are none.
    #[test]
    fn machine_paths_are_found() {
        for path in MACHINE_PATHS {
            check("README.md", &format!("a\nrun it in {path}me now"), &["README.md:2 holds a path"]);
            check("README.md", &format!("https://example.org{path} ~{path} /var{path} ${{X}}{path}"), &[]);
        }
    }

    /// Guards that tests and comments do not count as length: they are welcome.
    #[test]
    fn long_files_are_told() {
        let file = |count: usize, line: &str| Text {
            path: "a/src/b.rs".to_owned(),
            text: format!("//! B.\n{}", line.repeat(count)),
        };
        assert_eq!(long_files(&[file(LINES_ASKED_ABOUT + 1, "fn f() {}\n")]).len(), 1);
        assert!(long_files(&[file(LINES_ASKED_ABOUT + 1, "// Why.\n")]).is_empty());
    }
}
