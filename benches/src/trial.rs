//! One trial: starts a server and a client, reads their figures, ends both.

use crate::case::Case;
use crate::columns::Column;
use crate::cpu;
use crate::sample::{ClientFigures, Counts, Sample};
use crate::syscalls;
use anyhow::{Context as _, bail};
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// What the trials of one run share.
pub struct Bench {
    pub program: PathBuf,
    pub folder: PathBuf,
    pub warm_up: f64,
    pub seconds: f64,
    pub in_flight: usize,
    pub client_core: usize,
    pub server_core: usize,
}

struct Server {
    child: Child,
    requests: ChildStdin,
    replies: Lines<BufReader<ChildStdout>>,
}

impl Server {
    fn allocations(&mut self) -> anyhow::Result<u64> {
        self.requests.write_all(b"\n")?;
        next(&mut self.replies, "the server")?.parse().context("the server's count")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn next(lines: &mut Lines<BufReader<ChildStdout>>, whose: &str) -> anyhow::Result<String> {
    lines.next().with_context(|| format!("{whose} ended early; its message stands above"))?.context("a line")
}

impl Bench {
    fn server(&self, column: Column, socket: &Path, count: bool) -> anyhow::Result<Server> {
        let _ = std::fs::remove_file(socket);
        let mut command = Command::new(&self.program);
        command.args(["server", "--column", column.name(), "--core", &self.server_core.to_string()]);
        command.arg("--socket").arg(socket).args(count.then_some("--count-allocations"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("start the server")?;
        let (Some(requests), Some(replies)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("the server has no pipes");
        };
        let mut server = Server { child, requests, replies: BufReader::new(replies).lines() };
        next(&mut server.replies, "the server")?;
        Ok(server)
    }

    fn client(
        &self,
        mut command: Command,
        column: Column,
        case: Case,
        socket: &Path,
        count: bool,
    ) -> anyhow::Result<Child> {
        command.args(["client", "--column", column.name(), "--case", case.name()]);
        command.args(["--core", &self.client_core.to_string(), "--in-flight", &self.in_flight.to_string()]);
        command.args(["--warm-up", &self.warm_up.to_string(), "--seconds", &self.seconds.to_string()]);
        command.arg("--socket").arg(socket).args(count.then_some("--count-allocations"));
        command.stdout(Stdio::piped()).spawn().context("start the client")
    }

    fn socket(&self, column: Column) -> PathBuf {
        self.folder.join(format!("{}.sock", column.name()))
    }

    /// A timed trial.
    pub fn timed(&self, column: Column, again: bool, case: Case, round: usize) -> anyhow::Result<Sample> {
        let socket = self.socket(column);
        let server = self.server(column, &socket, false)?;
        let mut client = self.client(Command::new(&self.program), column, case, &socket, false)?;
        let mut lines = BufReader::new(client.stdout.take().context("the client's output")?).lines();
        let pids = [client.id(), server.child.id()];
        next(&mut lines, "the client")?;
        let before = pids.map(cpu::run_nanos);
        next(&mut lines, "the client")?;
        let after = pids.map(cpu::run_nanos);
        let peaks = pids.map(cpu::peak_kib);
        let figures: ClientFigures = serde_json::from_str(&next(&mut lines, "the client")?)?;
        client.wait()?;
        #[expect(clippy::cast_precision_loss, reason = "nanoseconds of seconds are far below 2^52")]
        let per_call = |index: usize| (after[index] - before[index]) as f64 / 1000.0 / figures.operations.max(1) as f64;
        Ok(Sample {
            column,
            again,
            case,
            in_flight: self.in_flight,
            round,
            client_cpu_us: per_call(0),
            server_cpu_us: per_call(1),
            client_peak_kib: peaks[0],
            server_peak_kib: peaks[1],
            client: figures,
        })
    }

    /// Counts in two runs of their own: allocations, then system calls.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub fn counts(&self, column: Column, case: Case) -> anyhow::Result<Counts> {
        let socket = self.socket(column);
        let mut server = self.server(column, &socket, true)?;
        let mut client = self.client(Command::new(&self.program), column, case, &socket, true)?;
        let mut lines = BufReader::new(client.stdout.take().context("the client's output")?).lines();
        next(&mut lines, "the client")?;
        let before = server.allocations()?;
        next(&mut lines, "the client")?;
        let after = server.allocations()?;
        let figures: ClientFigures = serde_json::from_str(&next(&mut lines, "the client")?)?;
        client.wait()?;
        drop(server);
        let calls = figures.operations.max(1) as f64;
        let mut counts = Counts {
            column,
            case,
            client_allocations: figures.allocations as f64 / calls,
            server_allocations: (after - before) as f64 / calls,
            client_writes: None,
            client_reads: None,
        };
        if syscalls::available() {
            let report = self.folder.join("strace");
            let _server = self.server(column, &socket, false)?;
            let command = syscalls::traced(&self.program, &report);
            let client = self.client(command, column, case, &socket, false)?.wait_with_output()?;
            let text = String::from_utf8_lossy(&client.stdout);
            let figures: ClientFigures = serde_json::from_str(text.lines().last().unwrap_or_default())?;
            // The tracer also sees the warm-up, so the calls of the whole run are what its counts are divided by.
            let share = (self.warm_up + self.seconds) / self.seconds;
            let calls = figures.operations.max(1) as f64 * share;
            let (writes, reads) = syscalls::read(&report)?;
            counts.client_writes = Some(writes as f64 / calls);
            counts.client_reads = Some(reads as f64 / calls);
        }
        Ok(counts)
    }
}
