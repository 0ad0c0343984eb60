//! A server's process: what it says goes to a file, its beginning is watched until it can be used, and it can be ended and
//! started again.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::account::{self, Account};
use super::free_port;
use super::keeper::Keeper;

/// How often a server is started when another program took the port that the kernel had named.
const STARTS_MAX: u32 = 3;
/// How often a server that was ended is tried again on its port, one try each 100 ms.
const RESTARTS_MAX: u32 = 300;
const RESTART_EVERY: Duration = Duration::from_millis(100);

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

/// Data on disk, and how its server is started.
pub(super) trait Site {
    /// What the server is called.
    fn name(&self) -> &'static str;

    /// Where clients find it.
    fn url(&self, port: u16) -> String;

    /// What asks it to end in order, whoever is connected.
    fn stop_signal(&self) -> &'static str;

    /// Starts it once.
    ///
    /// # Errors
    /// When it does not start, or is not ready for too long.
    fn begin(&self, port: u16, keeper: &mut Keeper) -> Result<Begin>;
}

/// A server that was started.
pub(super) struct Server {
    site: Box<dyn Site>,
    port: u16,
    /// `None` between an end and the next start.
    child: Option<Child>,
}

impl Server {
    /// Starts it, on another port each time that it ends as it begins.
    ///
    /// # Errors
    /// What went wrong, or what the last one said.
    pub(super) fn start(site: Box<dyn Site>, keeper: &mut Keeper) -> Result<Self> {
        let mut server = Server { site, port: 0, child: None };
        let mut said = String::new();
        for _ in 0..STARTS_MAX {
            server.port = free_port()?;
            match server.site.begin(server.port, keeper)? {
                Begin::Ready(child) => {
                    server.child = Some(child);
                    return Ok(server);
                }
                Begin::Ended(last) => said = last,
            }
        }
        anyhow::bail!("{} ended as it began; its log ends with:\n{said}", server.site.name())
    }

    /// Where clients find it, also after it was started again.
    pub(super) fn url(&self) -> String {
        self.site.url(self.port)
    }

    /// Kills it, and waits until it is gone.
    ///
    /// # Errors
    /// When it does not run, or the signal cannot be sent.
    pub(super) fn kill(&mut self, keeper: &mut Keeper) -> Result<()> {
        self.end("KILL", keeper)
    }

    /// Has it end in order, and waits until it is gone.
    ///
    /// # Errors
    /// When it does not run, or the signal cannot be sent.
    pub(super) fn stop(&mut self, keeper: &mut Keeper) -> Result<()> {
        self.end(self.site.stop_signal(), keeper)
    }

    fn end(&mut self, signal: &str, keeper: &mut Keeper) -> Result<()> {
        let child = self.child.as_mut().with_context(|| format!("{} does not run", self.site.name()))?;
        let process = child.id().to_string();
        let mut kill = Command::new("sh");
        let status = kill.args(["-c", "kill -s \"$1\" \"$2\"", "kill", signal, &process]).status()?;
        anyhow::ensure!(status.success(), "{} cannot be sent {signal}", self.site.name());
        child.wait()?;
        // Its number may be another process's from here on.
        keeper.forget(child.id())?;
        self.child = None;
        Ok(())
    }

    /// Starts it on the same data and port. What is left of a killed one (PostgreSQL's children, which hold its shared memory)
    /// goes away by itself, and so does a connection that happens to have the port.
    ///
    /// # Errors
    /// What went wrong, or what the last one said.
    pub(super) fn start_again(&mut self, keeper: &mut Keeper) -> Result<()> {
        anyhow::ensure!(self.child.is_none(), "{} runs", self.site.name());
        let mut said = String::new();
        for _ in 0..RESTARTS_MAX {
            match self.site.begin(self.port, keeper)? {
                Begin::Ready(child) => {
                    self.child = Some(child);
                    return Ok(());
                }
                Begin::Ended(last) => said = last,
            }
            thread::sleep(RESTART_EVERY);
        }
        anyhow::bail!("{} does not start again; its log ends with:\n{said}", self.site.name())
    }

    /// Waits until it ends by itself.
    ///
    /// # Errors
    /// When the operating system cannot say.
    pub(super) fn wait(&mut self) -> Result<Option<ExitStatus>> {
        self.child.as_mut().map(|child| child.wait().context("waiting for a server")).transpose()
    }
}

/// Starts a server and waits until `ready`. The keeper has its process, to be ended by the signal `harsh`, before anything can
/// go wrong with it.
///
/// # Errors
/// When it does not start, or is not ready for too long.
pub(super) fn begin(
    mut command: Command,
    account: Option<Account>,
    log: &Path,
    keeper: &mut Keeper,
    harsh: &str,
    ready: impl Fn(u32) -> bool,
) -> Result<Begin> {
    let name = command.get_program().to_string_lossy().into_owned();
    let file = File::create(log).with_context(|| format!("{} cannot be written", log.display()))?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    account::run_as(&mut command, account);
    let mut child = command.spawn().with_context(|| format!("{name} did not start"))?;
    keeper.keep(child.id(), harsh)?;
    for _ in 0..LOOKS_MAX {
        if child.try_wait()?.is_some() {
            keeper.forget(child.id())?;
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
