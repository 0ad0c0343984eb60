//! Runs cargo for the other modules: the same program that runs us, from the root, with the chosen target directory and
//! without standard input.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::step::Outcome;
use crate::target_dir::{self, TargetDir};

/// How cargo is run here.
pub(crate) struct Cargo {
    program: OsString,
    /// The root of the repository.
    pub(crate) root: PathBuf,
    /// True when `CI` is set to something other than "false" or "0".
    pub(crate) in_ci: bool,
    target_dir: TargetDir,
}

impl Cargo {
    /// Finds the root and chooses the target directory.
    ///
    /// # Errors
    /// When cargo cannot read the workspace.
    pub(crate) fn prepare() -> Result<Self> {
        let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let root = root()?;
        let in_ci = std::env::var("CI").is_ok_and(|value| !matches!(value.as_str(), "" | "false" | "0"));
        let target_dir = target_dir::choose(&program, &root, in_ci)?;
        if let TargetDir::Cache { folder, .. } = &target_dir {
            eprintln!("note: building in {}", folder.display());
        }
        Ok(Self { program, root, in_ci, target_dir })
    }

    /// A cargo for the tests of our own checks: it reads this workspace and builds nothing.
    #[cfg(test)]
    pub(crate) fn for_reading() -> Self {
        let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        Self { program, root: root().expect("xtask lies in the root"), in_ci: false, target_dir: TargetDir::Own }
    }

    /// A command that is not started yet.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(&self.root).stdin(Stdio::null());
        if let TargetDir::Cache { folder, .. } = &self.target_dir {
            command.env("CARGO_TARGET_DIR", folder);
        }
        if self.in_ci {
            // Incremental state helps only the next edit, and there is none.
            command.env("CARGO_INCREMENTAL", "0");
        }
        command
    }

    /// Runs cargo to its end.
    ///
    /// # Errors
    /// When it cannot be started; that it failed is an outcome.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<Outcome> {
        self.finish(self.command(arguments))
    }

    /// Runs a command to its end.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn finish(&self, mut command: Command) -> Result<Outcome> {
        let status = command.status().with_context(|| format!("{} did not start", self.program.display()))?;
        Ok(if status.success() { Outcome::Passed } else { Outcome::Failed })
    }

    /// Runs a command whose diagnostics are its result: they go to our standard output, where nextest's summary can be read
    /// by whoever keeps only that.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn finish_on_stdout(&self, mut command: Command) -> Result<Outcome> {
        command.stderr(duplicate_of_stdout()?);
        self.finish(command)
    }

    /// Runs a command and shows its standard output line by line, each line also handed to `seen`.
    ///
    /// # Errors
    /// When it cannot be started, or its output cannot be passed on.
    pub(crate) fn finish_by_line(&self, mut command: Command, mut seen: impl FnMut(&str)) -> Result<Outcome> {
        command.stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("{} did not start", self.program.display()))?;
        let output = child.stdout.take().context("the child's output was not piped")?;
        let mut ours = std::io::stdout().lock();
        let mut lines = BufReader::new(output);
        let mut line = Vec::new();
        // Bytes, not strings: a test may print anything, and that must not end the run.
        while lines.read_until(b'\n', &mut line)? > 0 {
            ours.write_all(&line)?;
            seen(String::from_utf8_lossy(&line).trim_end());
            line.clear();
        }
        let status = child.wait()?;
        Ok(if status.success() { Outcome::Passed } else { Outcome::Failed })
    }

    /// What a cargo command prints, for the commands that are asked rather than run.
    ///
    /// # Errors
    /// When it cannot be started or fails; the error carries what it said.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Result<Vec<u8>> {
        let output =
            self.command(arguments).output().with_context(|| format!("{} did not start", self.program.display()))?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        anyhow::bail!("cargo {} failed: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }

    /// Whether a cargo command exists and answers.
    pub(crate) fn answers(&self, arguments: &[&str]) -> bool {
        let mut command = self.command(arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }
}

/// The folder above ours. Cargo says where ours is when it runs us, so a chore may be called from anywhere in the clone; what
/// was compiled in serves a binary that is started by hand.
fn root() -> Result<PathBuf> {
    let own = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let root = PathBuf::from(own).parent().map(PathBuf::from);
    root.context("the folder of xtask has no parent, so there is no workspace root")
}

#[cfg(unix)]
fn duplicate_of_stdout() -> Result<Stdio> {
    use std::os::fd::AsFd;
    Ok(Stdio::from(std::io::stdout().as_fd().try_clone_to_owned()?))
}

#[cfg(not(unix))]
fn duplicate_of_stdout() -> Result<Stdio> {
    Ok(Stdio::inherit())
}
