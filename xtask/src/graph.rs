//! The one-way graph of our crates: who may depend on whom, as data, and what in the workspace is against it.
//!
//! ```text
//!  clock <- context <- proto <- rpc ----+
//!    ^         ^                        v
//!    |         +------------------- punctual <- admin <- cli
//!    |         |                        ^
//!    +-- task <- engine, store-* -------+          macros, shm: alone
//! ```
//! The halves, calls (proto, rpc) and tasks (task, engine, store-*), meet in the facade and nowhere below it: that is what
//! lets a user of the calls compile no SQL, and each half be tested without the other.

use crate::workspace::{Dependency, Kind, Member};

/// What one crate may name in its manifest.
struct Rule {
    name: &'static str,
    /// May stand under `[dependencies]`, required or optional.
    may: &'static [&'static str],
    /// May stand there only as an optional dependency, so that whoever wants less compiles less.
    optional: &'static [&'static str],
}

const RULES: &[Rule] = &[
    Rule { name: "punctual-clock", may: &[], optional: &[] },
    Rule { name: "punctual-macros", may: &[], optional: &[] },
    Rule { name: "punctual-shm", may: &[], optional: &[] },
    Rule { name: "punctual-context", may: &["punctual-clock"], optional: &[] },
    Rule { name: "punctual-proto", may: &["punctual-clock", "punctual-context"], optional: &[] },
    Rule {
        name: "punctual-rpc",
        may: &["punctual-proto", "punctual-clock", "punctual-context"],
        optional: &["punctual-shm"],
    },
    Rule { name: "punctual-task", may: &["punctual-clock"], optional: &[] },
    Rule { name: "punctual-engine", may: &["punctual-task", "punctual-clock", "punctual-context"], optional: &[] },
    Rule { name: "punctual-store-sqlite", may: &["punctual-task", "punctual-clock"], optional: &[] },
    Rule { name: "punctual-store-postgres", may: &["punctual-task", "punctual-clock"], optional: &[] },
    Rule { name: "punctual-store-mysql", may: &["punctual-task", "punctual-clock"], optional: &[] },
    Rule {
        name: "punctual",
        // proto stands beside rpc, which brings it anyway: the facade re-exports the words of the wire (codes, statuses)
        // from where they are written.
        may: &["punctual-rpc", "punctual-proto", "punctual-macros", "punctual-clock", "punctual-context"],
        optional: &[
            "punctual-task",
            "punctual-engine",
            "punctual-store-sqlite",
            "punctual-store-postgres",
            "punctual-store-mysql",
        ],
    },
    Rule { name: "punctual-admin", may: &["punctual"], optional: &[] },
    Rule {
        name: "punctual-cli",
        may: &[
            "punctual",
            "punctual-admin",
            "punctual-engine",
            "punctual-store-sqlite",
            "punctual-store-postgres",
            "punctual-store-mysql",
        ],
        optional: &[],
    },
    Rule { name: TESTKIT, may: &["punctual-clock", "punctual-proto", "punctual-rpc", "punctual-task"], optional: &[] },
    // It must build before, and whatever the state of, all that it looks at.
    Rule { name: "xtask", may: &[], optional: &[] },
];

/// What the tests share. It is nobody's dependency but a dev-dependency.
const TESTKIT: &str = "punctual-testkit";

/// Edges that only tests may have, besides the testkit and all that lies below the crate anyway.
const TEST_EDGES: &[(&str, &str)] = &[
    // The expansion names the paths of the facade, so only a crate that sees it can compile one.
    ("punctual-macros", "punctual"),
    // An engine's crash tests need a store that outlives the process.
    ("punctual-engine", "punctual-store-sqlite"),
];

/// Folders whose crates may use anything: whole programs, and the simulator that drives all of it.
const FREE_FOLDERS: &[&str] = &["sim", "examples"];

/// What in the workspace is against the graph, a line each.
pub(crate) fn findings(members: &[Member]) -> Vec<String> {
    let mut found = Vec::new();
    for member in members {
        if FREE_FOLDERS.iter().any(|free| is_in(&member.folder, free)) {
            continue;
        }
        if member.folder.rsplit('/').next() != Some(member.name.as_str()) {
            found.push(format!("{} lies in {}: a crate's folder carries its name", member.name, member.folder));
        }
        let Some(rule) = RULES.iter().find(|rule| rule.name == member.name) else {
            found.push(format!(
                "{} has no rule in xtask/src/graph.rs: say there what it may depend on, and why it is a crate in docs/adr",
                member.name
            ));
            continue;
        };
        let ours = |dependency: &&Dependency| members.iter().any(|member| member.name == dependency.name);
        found.extend(member.dependencies.iter().filter(ours).filter_map(|dependency| rule.objection(dependency)));
    }
    found
}

impl Rule {
    fn objection(&self, dependency: &Dependency) -> Option<String> {
        let (name, other) = (self.name, dependency.name.as_str());
        if dependency.kind == Kind::Dev {
            let allowed = other == TESTKIT || TEST_EDGES.contains(&(name, other)) || reaches(name, other);
            return (!allowed).then(|| format!("{name} may not use {other}, not even in its tests"));
        }
        if other == TESTKIT {
            return Some(format!("{name} depends on {other}, which may only ever be a dev-dependency"));
        }
        if self.may.contains(&other) {
            return None;
        }
        if !self.optional.contains(&other) {
            let may: Vec<&str> = self.may.iter().chain(self.optional).copied().collect();
            let may = if may.is_empty() { "none of ours".to_owned() } else { may.join(", ") };
            return Some(format!("{name} may not depend on {other}; it may on {may}"));
        }
        (!dependency.optional).then(|| format!("{name} may depend on {other} only as an optional dependency"))
    }
}

/// Whether the table leads from one crate down to another.
fn reaches(from: &str, to: &str) -> bool {
    let Some(rule) = RULES.iter().find(|rule| rule.name == from) else { return false };
    rule.may.iter().chain(rule.optional).any(|next| *next == to || reaches(next, to))
}

fn is_in(folder: &str, parent: &str) -> bool {
    folder.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::{RULES, findings, reaches};
    use crate::cargo::Cargo;
    use crate::workspace::{Dependency, Kind, Member, members};

    /// A workspace in a line each: `name: normal, ?optional, dev:other`.
    fn workspace(lines: &[&str]) -> Vec<Member> {
        let member = |line: &&str| {
            let (name, list) = line.split_once(':').expect("a name and a list");
            let words = list.split(", ").map(str::trim).filter(|word| !word.is_empty());
            let dependencies = words.map(|word| {
                let (kind, word) = match word.strip_prefix("dev:") {
                    Some(word) => (Kind::Dev, word),
                    None => (Kind::Normal, word),
                };
                let optional = word.starts_with('?');
                Dependency { name: word.trim_start_matches('?').to_owned(), kind, optional }
            });
            Member { name: name.to_owned(), folder: format!("crates/{name}"), dependencies: dependencies.collect() }
        };
        lines.iter().map(member).collect()
    }

    fn only_finding(lines: &[&str]) -> String {
        let mut found = findings(&workspace(lines));
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    /// Guards the graph of the workspace as it is.
    #[test]
    fn the_workspace_keeps_to_the_graph() {
        let members = members(&Cargo::for_reading()).expect("cargo reads the workspace");
        assert!(members.iter().any(|member| member.name == "punctual"), "the facade is a member");
        assert_eq!(findings(&members), Vec::<String>::new());
    }

    /// Guards that the table itself leads one way: whoever adds a row cannot close a circle.
    #[test]
    fn the_table_has_no_circle() {
        for rule in RULES {
            // A walk longer than the table has gone in a circle; `reaches` would not end on one.
            let mut front = vec![rule.name];
            for _ in 0..=RULES.len() {
                let next = |name: &&str| RULES.iter().find(|rule| rule.name == *name);
                front = front
                    .iter()
                    .filter_map(next)
                    .flat_map(|rule| rule.may.iter().chain(rule.optional))
                    .copied()
                    .collect();
                front.sort_unstable();
                front.dedup();
            }
            assert!(front.is_empty(), "from {} a circle through {front:?}", rule.name);
        }
    }

    /// Guards the first promise of the layout: the two halves do not see each other below the facade, in tests neither.
    #[test]
    fn the_halves_are_kept_apart() {
        let found = only_finding(&["punctual-engine: punctual-rpc", "punctual-rpc:"]);
        assert!(found.contains("punctual-engine may not depend on punctual-rpc"), "{found}");
        let found = only_finding(&["punctual-rpc: dev:punctual-task", "punctual-task:"]);
        assert!(found.contains("not even in its tests"), "{found}");
        assert!(!reaches("punctual-rpc", "punctual-task"));
        assert!(!reaches("punctual-store-sqlite", "punctual-proto"));
    }

    /// Guards that the testkit never gets into what users compile.
    #[test]
    fn the_testkit_is_for_tests() {
        let found = only_finding(&["punctual-task: punctual-testkit", "punctual-testkit:"]);
        assert!(found.contains("only ever be a dev-dependency"), "{found}");
        assert!(
            findings(&workspace(&["punctual-task: dev:punctual-testkit", "punctual-testkit: punctual-task"]))
                .is_empty()
        );
    }

    /// Guards that a user of the calls alone compiles no engine and no SQL.
    #[test]
    fn the_facade_takes_the_task_half_as_an_option() {
        let found = only_finding(&["punctual: punctual-engine", "punctual-engine:"]);
        assert!(found.contains("only as an optional"), "{found}");
        assert!(findings(&workspace(&["punctual: ?punctual-engine", "punctual-engine:"])).is_empty());
    }

    /// Guards that a new crate is thought about: without a rule it does not pass, nor does one in a folder of another name.
    #[test]
    fn a_crate_without_a_rule_is_refused() {
        let found = only_finding(&["punctual-common:"]);
        assert!(found.contains("has no rule"), "{found}");
        let mut moved = workspace(&["punctual-clock:"]);
        moved[0].folder = "crates/clock".to_owned();
        assert_eq!(findings(&moved).len(), 1);
        let mut example = workspace(&["hello: punctual-engine", "punctual-engine:"]);
        example[0].folder = "examples/hello".to_owned();
        assert!(findings(&example).is_empty());
    }
}
