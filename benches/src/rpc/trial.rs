//! One trial: starts a server and a client, reads their figures, ends both.

use crate::rpc::case::Case;
use crate::rpc::counters::Counters;
use crate::rpc::figures::{ClientFigures, Counts, IdleFigures, Lane, Sample};
use crate::rpc::flavor::Flavor;
use crate::rpc::process;
use crate::rpc::syscalls;
use crate::rpc::transport::Transport;
use anyhow::Context as _;
use serde::de::DeserializeOwned;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// How long connections are left alone before their memory is looked at: longer than any buffer is kept for reuse.
const IDLE_TIME: Duration = Duration::from_secs(1);

/// What the trials of one run share.
pub struct Bench {
    pub program: PathBuf,
    /// Holds the socket, the certificates and the tracer's reports.
    pub folder: PathBuf,
    pub in_flight: usize,
    pub connections: usize,
    pub runtime: Flavor,
    pub client_cores: Vec<usize>,
    pub server_cores: Vec<usize>,
    pub times: Times,
    /// Of the runs that count; they need not be long.
    pub count_times: Times,
}

/// Seconds of a trial.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    pub warm_up: f64,
    pub measure: f64,
}

/// A process of a trial, that ends with this.
struct Side {
    child: Child,
    requests: ChildStdin,
    replies: Lines<BufReader<ChildStdout>>,
    whose: &'static str,
}

impl Side {
    fn start(mut command: Command, whose: &'static str) -> anyhow::Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("the {whose} does not start"))?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (requests, replies) = pipes.with_context(|| format!("the {whose} has no pipes"))?;
        Ok(Side { child, requests, replies: BufReader::new(replies).lines(), whose })
    }

    fn hear<T: DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        let line = self.replies.next();
        let line = line.with_context(|| format!("the {} ended early; its message stands above", self.whose))??;
        serde_json::from_str(&line).with_context(|| format!("the {} said {line}", self.whose))
    }

    fn ask(&mut self) -> anyhow::Result<()> {
        self.requests.write_all(b"\n")?;
        Ok(self.requests.flush()?)
    }

    /// Lets a client that has said everything go.
    fn end(mut self) -> anyhow::Result<()> {
        self.ask()?;
        let status = self.child.wait()?;
        anyhow::ensure!(status.success(), "the {} failed: {status}", self.whose);
        Ok(())
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server that listens, where it is a process of its own.
struct Served {
    side: Option<Side>,
    address: String,
}

impl Served {
    /// Its counters; without a process of its own those that the client told.
    fn counters(&mut self, clients: Counters) -> anyhow::Result<Counters> {
        let Some(side) = &mut self.side else { return Ok(clients) };
        side.ask()?;
        side.hear()
    }
}

fn list(cores: &[usize]) -> String {
    cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

#[expect(clippy::cast_precision_loss, reason = "counts and nanoseconds of seconds are far below 2^52")]
fn float(count: u64) -> f64 {
    count as f64
}

impl Bench {
    fn serve(&self, lane: Lane, count: bool) -> anyhow::Result<Served> {
        if lane.transport == Transport::Inproc {
            return Ok(Served { side: None, address: String::new() });
        }
        let mut command = Command::new(&self.program);
        command.args(["server", "--column", lane.column.name(), "--transport", lane.transport.name()]);
        command.args(["--cores", &list(&self.server_cores), "--runtime", self.runtime.name()]);
        command.arg("--folder").arg(&self.folder).args(count.then_some("--count-allocations"));
        let mut side = Side::start(command, "server")?;
        let address = side.hear()?;
        Ok(Served { side: Some(side), address })
    }

    fn client(
        &self,
        mut command: Command,
        lane: Lane,
        case: Case,
        address: &str,
        connections: usize,
        times: Times,
    ) -> Command {
        command.args(["client", "--column", lane.column.name(), "--case", case.name()]);
        command.args(["--transport", lane.transport.name(), "--address", address]);
        command.args(["--cores", &list(&self.client_cores), "--server-cores", &list(&self.server_cores)]);
        command.args(["--runtime", self.runtime.name()]);
        command.args(["--in-flight", &case.in_flight(self.in_flight).to_string()]);
        command.args(["--connections", &connections.to_string()]);
        command.args(["--warm-up", &times.warm_up.to_string(), "--seconds", &times.measure.to_string()]);
        command.arg("--folder").arg(&self.folder);
        command
    }

    /// A timed trial.
    pub fn timed(&self, lane: Lane, case: Case, round: usize) -> anyhow::Result<Sample> {
        let (mut served, spread) = (self.serve(lane, false)?, case.connections(self.connections));
        let command = self.client(Command::new(&self.program), lane, case, &served.address, spread, self.times);
        let mut client = Side::start(command, "client")?;
        let server_pid = served.side.as_ref().map(Side::pid);
        let run_nanos = |client: &Side| {
            let (servers, clients) = process::run_nanos(client.pid());
            (clients, server_pid.map_or(servers, |pid| process::run_nanos(pid).0))
        };
        let mark = client.hear()?;
        let (before, first) = (run_nanos(&client), served.counters(mark)?);
        let mark = client.hear()?;
        let (after, last) = (run_nanos(&client), served.counters(mark)?);
        let figures: ClientFigures = client.hear()?;
        let server_peak_kib = server_pid.map(process::peak_kib);
        let client_peak_kib = process::peak_kib(client.pid());
        client.end()?;
        let operations = match case {
            Case::Oneway => last.since(first).served,
            _ => figures.operations,
        };
        // On a starved machine none may end in time. That is a rate of zero, which the reader sees, and no end of the run.
        let per_operation = |nanos: u64| float(nanos) / 1_000.0 / float(operations.max(1));
        Ok(Sample {
            case,
            lane,
            round,
            rate: float(operations) / figures.seconds,
            client_cpu_us: per_operation(after.0.saturating_sub(before.0)),
            server_cpu_us: per_operation(after.1.saturating_sub(before.1)),
            client_peak_kib,
            server_peak_kib,
            client: figures,
        })
    }

    /// Counts in two runs of their own: allocations, then system calls of the client.
    pub fn counts(&self, lane: Lane, case: Case) -> anyhow::Result<Counts> {
        let (mut served, spread) = (self.serve(lane, true)?, case.connections(self.connections));
        let mut command =
            self.client(Command::new(&self.program), lane, case, &served.address, spread, self.count_times);
        command.arg("--count-allocations");
        let mut client = Side::start(command, "client")?;
        let mark = client.hear()?;
        let first = served.counters(mark)?;
        let mark = client.hear()?;
        let last = served.counters(mark)?.since(first);
        let figures: ClientFigures = client.hear()?;
        client.end()?;
        let operations = if case == Case::Oneway { last.served } else { figures.operations };
        let per_operation = |count: u64| float(count) / float(operations.max(1));
        let mut counts = Counts {
            case,
            lane,
            client_allocations: per_operation(figures.counters.allocations),
            server_allocations: served.side.is_some().then(|| per_operation(last.allocations)),
            client_writes: None,
            client_reads: None,
        };
        drop(served);
        if lane.transport != Transport::Inproc && syscalls::available() {
            let (writes, reads) = self.traced(lane, case)?;
            (counts.client_writes, counts.client_reads) = (Some(writes), Some(reads));
        }
        Ok(counts)
    }

    /// Writes and reads for each operation. The tracer sees the whole life of the client, and so all its operations count.
    fn traced(&self, lane: Lane, case: Case) -> anyhow::Result<(f64, f64)> {
        let report = self.folder.join("strace");
        let (served, spread) = (self.serve(lane, false)?, case.connections(self.connections));
        let traced = syscalls::traced(&self.program, &report);
        let command = self.client(traced, lane, case, &served.address, spread, self.count_times);
        let mut client = Side::start(command, "traced client")?;
        let _: (Counters, Counters) = (client.hear()?, client.hear()?);
        let figures: ClientFigures = client.hear()?;
        client.end()?;
        let (writes, reads) = syscalls::read(&report)?;
        let operations = float(figures.total.max(1));
        Ok((float(writes) / operations, float(reads) / operations))
    }

    /// What one of so many idle connections holds.
    pub fn idle(&self, lane: Lane, connections: usize) -> anyhow::Result<IdleFigures> {
        let served = self.serve(lane, false)?;
        let server = served.side.as_ref().context("idle connections need two processes")?;
        let program = Command::new(&self.program);
        let command = self.client(program, lane, Case::Idle, &served.address, connections, self.times);
        let mut client = Side::start(command, "client")?;
        let resident = |client: &mut Side| -> anyhow::Result<(u64, u64)> {
            let _: Counters = client.hear()?;
            std::thread::sleep(IDLE_TIME);
            let both = (process::resident_kib(client.pid()), process::resident_kib(server.pid()));
            client.ask()?;
            Ok(both)
        };
        let before = resident(&mut client)?;
        let after = resident(&mut client)?;
        client.child.wait()?;
        let counted = connections.saturating_sub(crate::rpc::client::IDLE_FIRST).max(1) as u64;
        let each = |after: u64, before: u64| float(after.saturating_sub(before) * 1_024) / float(counted);
        Ok(IdleFigures {
            lane,
            connections,
            client_bytes: each(after.0, before.0),
            server_bytes: each(after.1, before.1),
        })
    }
}
