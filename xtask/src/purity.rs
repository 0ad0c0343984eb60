//! The pure cores stay pure: proto and task name no runtime and none of the system's sockets, files and threads. And unsafe
//! code stays forbidden, everywhere by the workspace's lints.
//!
//! They are searched as text, since what matters is that nobody has to read the two crates to know it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use toml::Table;

use crate::files::RustFile;
use crate::rust_source::word_places;
use crate::workspace::{Kind, Member};

/// The crates that decide, and wait for nothing.
const PURE: &[&str] = &["punctual-proto", "punctual-task"];

/// Modules of the standard library that reach out of the process.
const STD_REFUSED: &[&str] = &["net", "fs", "thread"];

/// Crates that drive futures or talk to the system.
const CRATES_REFUSED: &[&str] = &["tokio", "mio", "socket2", "rustix", "async_std", "smol", "async_io"];

/// Crates that may write unsafe code, and why.
const UNSAFE_ALLOWED: &[(&str, &str)] = &[("punctual-shm", "a ring shared with another process is made of raw memory")];

/// What the pure crates name that they may not, a line each.
pub(crate) fn findings(members: &[Member], files: &[RustFile]) -> Vec<String> {
    let mut found = Vec::new();
    for member in members.iter().filter(|member| PURE.contains(&member.name.as_str())) {
        let refused = |name: &str| CRATES_REFUSED.contains(&name.replace('-', "_").as_str());
        // Tests may drive the pure crate with whatever they like.
        let used = member.dependencies.iter().filter(|dependency| dependency.kind != Kind::Dev);
        found.extend(used.filter(|dependency| refused(&dependency.name)).map(|dependency| {
            format!("{} depends on {}: it waits for nothing, so it needs none", member.name, dependency.name)
        }));
        let sources = format!("{}/src/", member.folder);
        for file in files.iter().filter(|file| file.path.starts_with(&sources) && !file.is_for_tests()) {
            found.extend(named_in(file));
        }
    }
    found
}

fn named_in(file: &RustFile) -> Vec<String> {
    let source = file.source.without_tests();
    let mut found = Vec::new();
    let mut tell = |at: usize, what: &str| {
        found.push(format!("{}:{} names {what}: pure crates take it as an argument", file.path, source.line(at)));
    };
    for name in CRATES_REFUSED {
        for at in word_places(&source.code, name) {
            tell(at, name);
        }
    }
    for at in word_places(&source.code, "std") {
        let Some(path) = source.code.get(at + "std".len()..).and_then(|rest| rest.trim_start().strip_prefix("::"))
        else {
            continue;
        };
        for module in modules(path).into_iter().filter(|module| STD_REFUSED.contains(module)) {
            tell(at, &format!("std::{module}"));
        }
    }
    found
}

/// The modules that a path behind `std::` leads into: one, or those of a braced list.
fn modules(path: &str) -> Vec<&str> {
    let path = path.trim_start();
    let Some(list) = path.strip_prefix('{') else { return first_word(path).into_iter().collect() };
    let mut depth = 0_usize;
    let mut found = Vec::new();
    let mut start = 0;
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 0 => {
                found.extend(list.get(start..at).and_then(first_word));
                break;
            }
            b'}' => depth -= 1,
            b',' if depth == 0 => {
                found.extend(list.get(start..at).and_then(first_word));
                start = at + 1;
            }
            _ => {}
        }
    }
    found
}

fn first_word(text: &str) -> Option<&str> {
    let word = |character: char| character.is_alphanumeric() || character == '_';
    text.trim_start().split(|character| !word(character)).next().filter(|word| !word.is_empty())
}

/// Where unsafe code is no longer forbidden, a line each.
///
/// # Errors
/// When a manifest cannot be read.
pub(crate) fn unsafe_findings(root: &Path, members: &[Member]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    if !forbids_unsafe(&manifest(&root.join("Cargo.toml"))?) {
        found.push("Cargo.toml: [workspace.lints.rust] must say unsafe_code = \"forbid\"".to_owned());
    }
    for member in members {
        if UNSAFE_ALLOWED.iter().any(|(name, _)| *name == member.name) {
            continue;
        }
        if !inherits_lints(&manifest(&root.join(&member.folder).join("Cargo.toml"))?) {
            found.push(format!("{}/Cargo.toml: [lints] must say workspace = true", member.folder));
        }
    }
    Ok(found)
}

fn manifest(path: &Path) -> Result<Table> {
    let text = fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    text.parse().with_context(|| format!("{} is no TOML", path.display()))
}

fn forbids_unsafe(manifest: &Table) -> bool {
    let lint = manifest.get("workspace").and_then(|workspace| workspace.get("lints")?.get("rust")?.get("unsafe_code"));
    let level = lint.and_then(|lint| lint.as_str().or_else(|| lint.get("level")?.as_str()));
    level == Some("forbid")
}

fn inherits_lints(manifest: &Table) -> bool {
    manifest.get("lints").and_then(|lints| lints.get("workspace")?.as_bool()) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::{findings, forbids_unsafe, inherits_lints, unsafe_findings};
    use crate::cargo::Cargo;
    use crate::files::{RustFile, rust_sources};
    use crate::rust_source::RustSource;
    use crate::workspace::{Dependency, Kind, Member, members};

    fn task(dependency: Option<(&str, Kind)>) -> Member {
        let dependencies = dependency.into_iter();
        let dependencies = dependencies.map(|(name, kind)| Dependency { name: name.to_owned(), kind, optional: false });
        Member {
            name: "punctual-task".to_owned(),
            folder: "crates/punctual-task".to_owned(),
            dependencies: dependencies.collect(),
        }
    }

    fn check(path: &str, text: &str, expected: &[&str]) {
        let file = RustFile { path: path.to_owned(), source: RustSource::read(text) };
        let found = findings(&[task(None)], &[file]);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(expected), "{found} lacks {expected}");
        }
    }

    /// Guards that a pure crate cannot reach a socket, a file, a thread or the runtime, whatever way it is written.
    #[test]
    fn naming_what_waits_is_found() {
        let lib = "crates/punctual-task/src/lib.rs";
        check(lib, "use tokio::sync::Mutex;", &["lib.rs:1 names tokio"]);
        check(lib, "fn f() {\n std::thread::yield_now() }", &["lib.rs:2 names std::thread"]);
        check(lib, "use std::{collections::{BTreeMap, fs}, net::TcpStream, fs};", &["std::net", "std::fs"]);
        check(lib, "use ::std :: fs;", &["std::fs"]);
        check("crates/punctual-task/src/store/memory.rs", "type A = std::net::IpAddr;", &["memory.rs:1"]);
    }

    /// Guards that the check is not shrill: prose, tests, and words that only look alike are none of its business.
    #[test]
    fn what_does_not_wait_passes() {
        let lib = "crates/punctual-task/src/lib.rs";
        check(
            lib,
            "//! Unlike tokio::time.\nlet a = \"std::fs\"; use std::time::Duration; mod net; my::std::x();",
            &[],
        );
        check(lib, "#[cfg(test)]\nmod tests { use tokio::test; }", &[]);
        check("crates/punctual-task/src/store/tests.rs", "use tokio::test;", &[]);
        check("crates/punctual-task/tests/it/main.rs", "use std::thread;", &[]);
        check("crates/punctual-engine/src/lib.rs", "use tokio::time;", &[]);
    }

    /// Guards the manifest too: a dependency is a word that every module may use.
    #[test]
    fn a_runtime_among_the_dependencies_is_found() {
        assert_eq!(findings(&[task(Some(("tokio", Kind::Normal)))], &[]).len(), 1);
        assert_eq!(findings(&[task(Some(("async-io", Kind::Build)))], &[]).len(), 1);
        assert!(findings(&[task(Some(("tokio", Kind::Dev)))], &[]).is_empty());
        assert!(findings(&[task(Some(("bytes", Kind::Normal)))], &[]).is_empty());
    }

    /// Guards that nothing weaker than "forbid" counts: "deny" can be lifted by one attribute.
    #[test]
    fn unsafe_is_forbidden_or_found() {
        let manifest = |text: &str| text.parse().expect("TOML");
        assert!(forbids_unsafe(&manifest("[workspace.lints.rust]\nunsafe_code = \"forbid\"")));
        assert!(forbids_unsafe(&manifest(
            "[workspace.lints.rust]\nunsafe_code = { level = \"forbid\", priority = 1 }"
        )));
        assert!(!forbids_unsafe(&manifest("[workspace.lints.rust]\nunsafe_code = \"deny\"")));
        assert!(!forbids_unsafe(&manifest("[workspace.lints.rust]\nmissing_docs = \"warn\"")));
        assert!(inherits_lints(&manifest("[lints]\nworkspace = true")));
        assert!(!inherits_lints(&manifest("[lints.rust]\nunsafe_code = \"allow\"")));
    }

    /// Guards the two crates, and the lints of all of them, as they are.
    #[test]
    fn the_workspace_is_pure_where_it_says_so() {
        let cargo = Cargo::for_reading();
        let members = members(&cargo).expect("cargo reads the workspace");
        let files = rust_sources(&cargo.root).expect("the sources are read");
        assert!(files.iter().any(|file| file.path == "crates/punctual-task/src/lib.rs"), "the sources were found");
        assert_eq!(findings(&members, &files), Vec::<String>::new());
        assert_eq!(unsafe_findings(&cargo.root, &members).expect("the manifests are read"), Vec::<String>::new());
    }
}
