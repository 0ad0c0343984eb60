//! Programs as a durable service.

use punctual::engine::Failure;
use std::collections::BTreeMap;
use std::fmt;

/// Runs programs. A daemon does so only if it was started with `--allow-commands`.
///
/// A program may run more than once, since a worker can die between its end and the record of it. A worker that is killed
/// leaves its programs running, while their tasks begin again elsewhere once its lease has ended.
#[punctual::service]
pub trait Command {
    /// Runs one program and waits for its end. It has succeeded if it exits with status 0; any other end is retried.
    ///
    /// It runs in a process group of its own. When the task is cancelled or its time is up, the whole group gets SIGTERM
    /// and, a little later, SIGKILL. What a program leaves running when it ends by itself is left alone; its output is no
    /// longer read then. Its environment is `PATH`, `HOME`, `USER`, `LOGNAME`, `SHELL`, `TZ`, `LANG` and `LC_*` of the
    /// worker, then `PUNCTUAL_TASK`, `PUNCTUAL_ATTEMPT` and, for an occurrence, `PUNCTUAL_SCHEDULE`, `PUNCTUAL_SLOT` and
    /// `PUNCTUAL_RUN`, then `env`.
    #[rpc(durable)]
    async fn run(
        &self,
        /// The program, looked for in `PATH` if it has no `/`; or, with `shell`, a line for the shell.
        program: String,
        /// Its arguments; with `shell`, what the line sees as `$1` and so on.
        #[serde(default)]
        args: Vec<String>,
        /// Variables of its environment.
        #[serde(default)]
        env: BTreeMap<String, String>,
        /// The directory that it runs in; the home directory of the user that it runs as, or `/`, if absent.
        #[serde(default)]
        dir: Option<String>,
        /// What it reads from its standard input; nothing if absent.
        #[serde(default)]
        stdin: Option<String>,
        /// Whether a shell reads the line: the `SHELL` of `env`, else `/bin/sh`.
        #[serde(default)]
        shell: bool,
        /// The user that it runs as, with that user's groups; the worker's own if absent. Another one needs a worker that
        /// runs as root.
        #[serde(default)]
        user: Option<String>,
    ) -> Result<Finished, CommandError>;
}

/// What was kept of one output of a program: its beginning and its end.
#[punctual::message]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// The text, at most 32 KiB: where more came, the first and last 16 KiB around a line that says how much is left out.
    /// Bytes that are no UTF-8 are replaced.
    pub text: String,
    /// How many bytes came.
    pub bytes: u64,
    /// Whether some are left out.
    pub cut: bool,
}

/// A program that ended well.
#[punctual::message]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Finished {
    /// What it wrote to its standard output.
    pub stdout: Captured,
    /// What it wrote to its standard error.
    pub stderr: Captured,
}

/// Why a program did not end well.
#[punctual::message]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandError {
    /// It exited with a status that is not 0.
    Exited {
        /// The status.
        status: i32,
        /// What it wrote to its standard output.
        stdout: Captured,
        /// What it wrote to its standard error.
        stderr: Captured,
    },
    /// A signal ended it.
    Killed {
        /// The signal's number.
        signal: i32,
        /// Why, if it was the worker that sent it.
        reason: Option<String>,
        /// What it wrote to its standard output.
        stdout: Captured,
        /// What it wrote to its standard error.
        stderr: Captured,
    },
    /// It could not be started, and a later attempt may fare better.
    NotStarted {
        /// Why.
        reason: String,
    },
    /// It cannot be started, however often it is tried.
    Refused {
        /// Why, and what to do.
        reason: String,
    },
}

/// How much of the standard error a failure's one line shows.
const SHOWN_BYTES_MAX: usize = 200;

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::Exited { status, stderr, .. } => {
                write!(f, "exit status {status}")?;
                last_line(stderr, f)
            }
            CommandError::Killed { signal, reason, stderr, .. } => {
                write!(f, "ended by signal {signal}")?;
                if let Some(reason) = reason {
                    write!(f, " ({reason})")?;
                }
                last_line(stderr, f)
            }
            CommandError::NotStarted { reason } | CommandError::Refused { reason } => f.write_str(reason),
        }
    }
}

/// What programs say last is mostly why they failed.
fn last_line(stderr: &Captured, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(line) = stderr.text.lines().map(str::trim).rfind(|line| !line.is_empty()) else { return Ok(()) };
    let end = (0..=SHOWN_BYTES_MAX.min(line.len())).rev().find(|end| line.is_char_boundary(*end)).unwrap_or(0);
    write!(f, ": {}", line.get(..end).unwrap_or_default())
}

impl std::error::Error for CommandError {}

impl From<&CommandError> for Failure {
    fn from(error: &CommandError) -> Self {
        match error {
            CommandError::Refused { .. } => Failure::dead_letter(error.to_string()),
            _ => Failure::new(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of tasks shows one line of a failed program: its status and what it said last, however much that was.
    #[test]
    fn a_failure_is_told_in_one_line() {
        let said = |text: &str| CommandError::Exited {
            status: 3,
            stdout: Captured::default(),
            stderr: Captured { text: text.to_owned(), ..Captured::default() },
        };
        assert_eq!(said("").to_string(), "exit status 3");
        assert_eq!(said("one\ntwo\n\n").to_string(), "exit status 3: two");
        let long = said(&"\u{e9}".repeat(SHOWN_BYTES_MAX)).to_string();
        assert_eq!(long.len(), "exit status 3: ".len() + SHOWN_BYTES_MAX);
    }
}
