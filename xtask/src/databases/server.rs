//! A server's process: what it says goes to a file, and its beginning is watched until it can be used.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::account::{self, Account};
use super::{STARTS_MAX, Started};

/// How long a server may take to begin: a slow disk needs seconds. It is counted in looks, one each 20 ms.
const LOOKS_MAX: u32 = 3000;
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How much of a server's log an error quotes.
const QUOTED_LINES: usize = 12;

/// How a start ended.
pub(super) enum Begin {
    Ready(Child),
    /// It ended at once, as it does when its port is taken; with the end of its log.
    Ended(String),
}

/// Runs a preparing command to its end.
///
/// # Errors
/// When it does not start or fails; the error carries what it said.
pub(super) fn prepare(mut command: Command, account: Option<Account>) -> Result<()> {
    account::run_as(&mut command, account);
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{name} did not start"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    anyhow::bail!("{name} failed ({}): {}", output.status, String::from_utf8_lossy(&said).trim())
}

/// Tries to start a server, on another port each time. The inner error of a try is what the server said before it ended.
///
/// # Errors
/// What went wrong, or what the last one said.
pub(super) fn start(name: &str, mut try_start: impl FnMut() -> Result<Result<Started, String>>) -> Result<Started> {
    let mut said = String::new();
    for _ in 0..STARTS_MAX {
        match try_start()? {
            Ok(started) => return Ok(started),
            Err(last) => said = last,
        }
    }
    anyhow::bail!("{name} ended as it began; its log ends with:\n{said}")
}

/// Starts a server and waits until `ready`. `keep` is told its process before anything can go wrong with it.
///
/// # Errors
/// When it does not start, or is not ready for too long.
pub(super) fn begin(
    mut command: Command,
    account: Option<Account>,
    log: &Path,
    keep: impl FnOnce(u32) -> Result<()>,
    ready: impl Fn(u32) -> bool,
) -> Result<Begin> {
    let name = command.get_program().to_string_lossy().into_owned();
    let file = File::create(log).with_context(|| format!("{} cannot be written", log.display()))?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    account::run_as(&mut command, account);
    let mut child = command.spawn().with_context(|| format!("{name} did not start"))?;
    keep(child.id())?;
    for _ in 0..LOOKS_MAX {
        if child.try_wait()?.is_some() {
            return Ok(Begin::Ended(end_of(log)));
        }
        if ready(child.id()) {
            return Ok(Begin::Ready(child));
        }
        thread::sleep(LOOK_EVERY);
    }
    anyhow::bail!("{name} runs but cannot be used after a minute; its log ends with:\n{}", end_of(log))
}

fn end_of(log: &Path) -> String {
    let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(QUOTED_LINES)..).unwrap_or_default().join("\n")
}
