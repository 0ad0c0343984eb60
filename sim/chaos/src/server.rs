//! One server: the process that serves, and the handle by which the run treats it badly.

use crate::contract::{ChaosServer, Handlers};
use anyhow::{Context, ensure};
use punctual::Server;
use rustix::process::{Pid, Signal, kill_process};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

/// The grace of a stop in order.
const GRACE: Duration = Duration::from_secs(2);

/// Serves until it is told to stop, or until whoever started it is gone.
pub(crate) async fn serve(address: &str) -> anyhow::Result<()> {
    let handlers = Handlers::default();
    let server = Server::builder().service(ChaosServer::new(handlers.clone())).listen(address).bind().await?;
    let bound = server.local_addrs().first().cloned().context("no address")?;
    let server = server.spawn();
    let _ = handlers.server.set(server.clone());
    println!("{bound}");
    let mut stop = signal(SignalKind::terminate())?;
    let mut rest = Vec::new();
    let mut stdin = tokio::io::stdin();
    tokio::select! {
        _ = stop.recv() => {}
        _ = stdin.read_to_end(&mut rest) => {}
    }
    server.shutdown(GRACE).await;
    // A read of standard input blocks a thread that nothing ends.
    std::process::exit(0);
}

/// A server process.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    pub(crate) address: String,
}

impl Process {
    /// Starts one, and returns once it listens.
    pub(crate) async fn start(address: &str) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--serve", address]).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().context("the server did not start")?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line).await?;
        ensure!(line.ends_with('\n'), "the server at {address} did not come up");
        Ok(Process { child, address: line.trim_end().to_owned() })
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let id = self.child.id().context("the server is gone")?;
        let pid = i32::try_from(id).ok().and_then(Pid::from_raw).context("no process id")?;
        Ok(kill_process(pid, signal)?)
    }

    /// Stops it in order, and waits for its end.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        self.signal(Signal::TERM)?;
        let status = self.child.wait().await?;
        ensure!(status.success(), "a server that was told to stop ended with {status}");
        Ok(())
    }

    /// Kills it.
    pub(crate) async fn kill(mut self) -> anyhow::Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Freezes it for a while.
    pub(crate) async fn freeze(&self, time: Duration) -> anyhow::Result<()> {
        self.signal(Signal::STOP)?;
        tokio::time::sleep(time).await;
        self.signal(Signal::CONT)
    }
}
