//! How a run was made, for its heading.

use crate::rpc::case::Case;
use crate::rpc::flavor::Flavor;
use crate::rpc::transport::Transport;
use serde::{Deserialize, Serialize};

/// What holds for all trials of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Setting {
    pub transport: Transport,
    pub in_flight: usize,
    pub connections: usize,
    pub runtime: Flavor,
    pub rounds: usize,
    pub warm_up: f64,
    pub seconds: f64,
    pub quick: bool,
    pub client_cores: Vec<usize>,
    pub server_cores: Vec<usize>,
    /// Whether the kernel binds processes to cores at all.
    pub pinned: bool,
    /// Whether system calls could be counted.
    pub traced: bool,
    /// The names of the columns, in the order of the first round.
    pub order: Vec<String>,
    /// What a reader must know besides.
    pub notes: Vec<String>,
}

fn plural(count: usize, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

fn cores(list: &[usize]) -> String {
    let names: Vec<String> = list.iter().map(usize::to_string).collect();
    format!("core{} {}", if list.len() == 1 { "" } else { "s" }, names.join(", "))
}

impl Setting {
    /// In a few words: what is between the two sides.
    pub fn title(&self) -> String {
        let transport = match self.transport {
            Transport::Unix => "Unix socket",
            Transport::Tcp => "TCP",
            Transport::Tls => "TLS",
            Transport::Shm => "shared memory",
            Transport::Inproc => "in process",
        };
        let runtime = match self.runtime {
            Flavor::Current => "",
            Flavor::Multi => ", multi-thread runtime",
        };
        let quick = if self.quick { " (a quick look)" } else { "" };
        format!("{transport}, {} in flight, {}{runtime}{quick}", self.in_flight, plural(self.connections, "connection"))
    }

    /// Pinning, warm-up, order: a line each.
    pub fn lines(&self) -> Vec<String> {
        let (client, server) = (cores(&self.client_cores), cores(&self.server_cores));
        let who = if self.transport == Transport::Inproc { "thread" } else { "process" };
        let pinning = match (self.pinned, self.client_cores == self.server_cores) {
            (true, false) => format!("client {who} pinned to {client}, server {who} to {server}"),
            (true, true) => format!("both pinned to {client}, the only one: they take turns"),
            (false, _) => "not pinned: the kernel refuses it".to_owned(),
        };
        let mut lines = vec![
            format!("Pinning: {pinning}; {} runtime on both sides.", self.runtime.name()),
            format!(
                "Time: each trial warms up for {} s and is measured for {} s, in {}; both sides are new in each.",
                self.warm_up,
                self.seconds,
                plural(self.rounds, "round")
            ),
            format!("Order: {}; every second round the other way round.", self.order.join(", ")),
            "Counts: allocations, then writes and reads of the client, in runs of their own that are not timed."
                .to_owned(),
        ];
        if !self.traced {
            lines.push("Writes and reads are not counted: that needs strace, and two processes.".to_owned());
        }
        lines.extend(self.notes.iter().cloned());
        lines
    }

    /// What stands beside the name of a case.
    pub fn of(&self, case: Case) -> String {
        format!("{}; {} in flight", case.does(), case.in_flight(self.in_flight))
    }
}
