//! The command line of xtask, read without a library: the tool is built before everything else, so it stays small.

use crate::step::Step;
use crate::{check, databases, fuzz, test};

/// What xtask was asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chore {
    Check,
    Test,
    Databases,
    Fuzz,
    Help,
}

/// A command line that was understood.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub(crate) chore: Chore,
    /// The steps, fuzz targets or servers to run; empty for all of them.
    pub(crate) only: Vec<String>,
    /// The steps to leave out.
    pub(crate) skip: Vec<String>,
    /// The databases sync what they acknowledge.
    pub(crate) durable: bool,
    /// The databases are killed, stopped and started again by lines of the input.
    pub(crate) steered: bool,
    /// What follows `--`: handed to the test runner or the fuzzer as it is, or the command to run beside the databases.
    pub(crate) rest: Vec<String>,
}

impl Arguments {
    /// Reads the arguments behind the program's name.
    ///
    /// # Errors
    /// One line that names the argument which was not understood and what would have been.
    pub(crate) fn parse(words: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut words = words.into_iter();
        let chore = match words.next().as_deref() {
            Some("check") => Chore::Check,
            Some("test") => Chore::Test,
            Some("databases") => Chore::Databases,
            Some("fuzz") => Chore::Fuzz,
            None | Some("help" | "-h" | "--help") => Chore::Help,
            Some(other) => {
                return Err(format!("there is no chore \"{other}\"; there are: test, check, databases, fuzz, help"));
            }
        };
        let mut arguments =
            Self { chore, only: Vec::new(), skip: Vec::new(), durable: false, steered: false, rest: Vec::new() };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--only" | "--skip" => {
                    let name = words.next().ok_or_else(|| format!("{word} wants the name of a step behind it"))?;
                    arguments.known_step(&name)?;
                    if word == "--only" { arguments.only.push(name) } else { arguments.skip.push(name) }
                }
                "-h" | "--help" => arguments.chore = Chore::Help,
                "--durable" if chore == Chore::Databases => arguments.durable = true,
                "--steered" if chore == Chore::Databases => arguments.steered = true,
                "--" if matches!(chore, Chore::Test | Chore::Databases | Chore::Fuzz) => {
                    arguments.rest = words.by_ref().collect()
                }
                other => {
                    return Err(format!(
                        "\"{other}\" is not an argument of this chore; `cargo xtask help` lists them \
                         (what the test runner shall get goes behind `test --`)"
                    ));
                }
            }
        }
        Ok(arguments)
    }

    /// Whether a step is to run.
    pub(crate) fn wants(&self, step: &str) -> bool {
        let named = |names: &[String]| names.iter().any(|name| name == step);
        (self.only.is_empty() || named(&self.only)) && !named(&self.skip)
    }

    fn known_step(&self, name: &str) -> Result<(), String> {
        let steps = match self.chore {
            Chore::Check => check::STEPS,
            Chore::Test => test::STEPS,
            Chore::Fuzz => return fuzz::known(name),
            Chore::Databases if databases::SERVERS.iter().any(|(server, _)| *server == name) => return Ok(()),
            Chore::Databases => return Err(format!("there is no server \"{name}\"; there are: postgres, mariadb")),
            Chore::Help => return Ok(()),
        };
        if steps.iter().any(|step| step.name == name) {
            return Ok(());
        }
        let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
        Err(format!("there is no step \"{name}\" here; there are: {}", names.join(", ")))
    }
}

/// The help text, with the steps as they are.
pub(crate) fn help() -> String {
    let mut text = String::from(
        "The chores of the workspace.\n\n\
         cargo xtask check [--only STEP].. [--skip STEP]..\n",
    );
    list(&mut text, check::STEPS);
    text.push_str("\ncargo xtask test [--only STEP].. [--skip STEP].. [-- ARGUMENTS OF THE TEST RUNNER]\n");
    list(&mut text, test::STEPS);
    text.push_str(
        "\ncargo xtask databases [--only SERVER].. [--durable] [--steered] [-- COMMAND..]\n  \
         private servers (postgres, mariadb), beside a command or until Ctrl-C; --durable syncs each commit;\n  \
         --steered reads kill, stop and start from the input until it closes\n",
    );
    text.push_str("\ncargo xtask fuzz [--only TARGET].. [--skip TARGET].. [-- ARGUMENTS OF LIBFUZZER]\n");
    for (name, does) in fuzz::TARGETS {
        text.push_str(&format!("  {name:<10} {does}\n"));
    }
    text.push_str(
        "\nBuilds go to CARGO_TARGET_DIR when it is set. With CI=true and without it they go to a cache outside the\n\
         clone, ${XDG_CACHE_HOME:-~/.cache}/punctual/target, so that the next run does not build the libraries again.\n",
    );
    text
}

fn list(text: &mut String, steps: &[Step]) {
    for step in steps {
        text.push_str(&format!("  {:<10} {}\n", step.name, step.does));
    }
}

#[cfg(test)]
mod tests {
    use super::{Arguments, Chore};

    fn parse(line: &str) -> Result<Arguments, String> {
        Arguments::parse(line.split_whitespace().map(str::to_owned))
    }

    /// Guards that what stands behind `--` reaches the test runner untouched, options included.
    #[test]
    fn the_rest_goes_to_the_runner() {
        let arguments = parse("test --skip check -- --only budget -j1").expect("a good line");
        assert_eq!(arguments.skip, ["check"]);
        assert!(arguments.only.is_empty());
        assert_eq!(arguments.rest, ["--only", "budget", "-j1"]);
    }

    /// Guards that a mistyped step is refused: `--only grpah` that runs nothing would look like success.
    #[test]
    fn an_unknown_step_is_refused() {
        let refused = parse("check --only grpah").expect_err("no such step");
        assert!(refused.contains("grpah") && refused.contains("graph"), "{refused}");
        assert!(parse("check --only").is_err());
        assert!(parse("check -- x").is_err());
        assert!(parse("launch").is_err());
        assert!(parse("test --durable").is_err());
        assert!(parse("databases --only oracle").is_err());
    }

    /// Guards the meaning of the two filters together: skip wins.
    #[test]
    fn only_and_skip_choose_the_steps() {
        let arguments = parse("check --only graph --only deny --skip deny").expect("a good line");
        assert!(arguments.wants("graph"));
        assert!(!arguments.wants("deny"));
        assert!(!arguments.wants("clippy"));
        assert_eq!(parse("").expect("nothing is help").chore, Chore::Help);
    }
}
