//! What a command line asks for, made sure to make sense: which columns in which cases, how long, on which cores.

use crate::rpc::case::Case;
use crate::rpc::column::Column;
use crate::rpc::figures::Lane;
use crate::rpc::flavor::Flavor;
use crate::rpc::options::Options;
use crate::rpc::process;
use crate::rpc::setting::Setting;
use crate::rpc::syscalls;
use crate::rpc::transport::Transport;
use crate::rpc::trial::Times;
use std::path::PathBuf;

/// Calls in flight on a connection that all columns hold without anybody's queue being enlarged.
const IN_FLIGHT_MAX: usize = 1_024;

/// Connections of a run; more would measure the scheduler.
const CONNECTIONS_MAX: usize = 64;

/// Idle connections: a port each over TCP, and no more than the server is told to expect.
const IDLE_MAX: usize = 16_000;

/// Descriptors of a process that are not its connections.
const DESCRIPTORS_BESIDE: u64 = 64;

/// A run that can be made.
#[derive(Debug, Clone)]
pub struct Plan {
    pub setting: Setting,
    pub columns: Vec<Column>,
    pub cases: Vec<Case>,
    pub idle: usize,
    pub times: Times,
    pub count_times: Times,
    /// Writes the report as JSON as well: known early, so that a bad name fails before anything was measured.
    pub json: Option<PathBuf>,
}

impl Plan {
    /// Checks the options against each other, this build and this machine.
    ///
    /// # Errors
    /// The first thing that makes no sense, with what to do instead.
    pub fn new(options: &Options) -> anyhow::Result<Self> {
        let cores = std::thread::available_parallelism()?.get();
        Self::on(options, cores, process::descriptors_max())
    }

    fn on(options: &Options, cores: usize, descriptors: u64) -> anyhow::Result<Self> {
        numbers(options)?;
        let columns = columns(options)?;
        let (cases, mut notes) = cases(options, &columns)?;
        let idle = idle(options, descriptors, &cases, &mut notes);
        let (rounds, times, count_times) = if options.quick {
            (2, Times { warm_up: 0.15, measure: 0.35 }, Times { warm_up: 0.05, measure: 0.15 })
        } else {
            let short = Times { warm_up: options.warm_up.min(0.3), measure: options.seconds.min(0.7) };
            (options.rounds, Times { warm_up: options.warm_up, measure: options.seconds }, short)
        };
        let (client_cores, server_cores) = halves(cores, options.runtime);
        let setting = Setting {
            transport: options.transport,
            in_flight: options.conc,
            connections: options.conns,
            runtime: options.runtime,
            rounds,
            warm_up: times.warm_up,
            seconds: times.measure,
            quick: options.quick,
            pinned: process::can_pin(),
            client_cores,
            server_cores,
            traced: options.transport != Transport::Inproc && syscalls::available(),
            order: Vec::new(),
            notes,
        };
        let mut plan = Plan { setting, columns, cases, idle, times, count_times, json: options.json.clone() };
        plan.setting.order = plan.order();
        Ok(plan)
    }

    /// The lanes of a case, in the order of the first round. The first column stands at both ends: its two trials of a round,
    /// far from each other, show the noise.
    pub fn lanes(&self, case: Case) -> Vec<Lane> {
        let transport = self.setting.transport;
        let offering = self.columns.iter().filter(|column| column.offers(case));
        let mut lanes: Vec<Lane> = offering.map(|column| Lane::new(*column, transport)).collect();
        if transport == Transport::Tls && case == Case::Echo256 && self.columns.contains(&Column::Punctual) {
            lanes.push(Lane::new(Column::Punctual, Transport::Tcp));
        }
        if transport == Transport::Shm && case != Case::Idle && self.columns.contains(&Column::Punctual) {
            lanes.push(Lane::new(Column::Punctual, Transport::Unix));
        }
        lanes.extend(lanes.first().map(|lane| lane.again()));
        lanes
    }

    /// Those of a case that are counted.
    pub fn counted(&self, case: Case) -> Vec<Lane> {
        let lanes = self.lanes(case).into_iter().filter(|lane| !lane.again && lane.transport == self.setting.transport);
        if self.setting.quick { lanes.take(1).collect() } else { lanes.collect() }
    }

    fn order(&self) -> Vec<String> {
        let mut names: Vec<String> = self.columns.iter().map(|column| column.name().to_owned()).collect();
        names.extend(self.columns.first().map(|column| format!("{} again", column.name())));
        names
    }
}

fn numbers(options: &Options) -> anyhow::Result<()> {
    let within = |name: &str, value: usize, min: usize, max: usize| {
        anyhow::ensure!((min..=max).contains(&value), "--{name} is {value}; choose {min} to {max}");
        Ok(())
    };
    within("conns", options.conns, 1, CONNECTIONS_MAX)?;
    within("conc", options.conc, 1, IN_FLIGHT_MAX * options.conns)?;
    anyhow::ensure!(
        options.conns <= options.conc,
        "--conns {} is more than --conc {}: some connections would have nothing to do; choose at most as many",
        options.conns,
        options.conc
    );
    within("rounds", options.rounds, 1, 100)?;
    within("idle", options.idle, 100, IDLE_MAX)?;
    let seconds = |name: &str, value: f64, min: f64| {
        anyhow::ensure!((min..=600.0).contains(&value), "--{name} is {value}; choose {min} to 600 seconds");
        Ok(())
    };
    seconds("seconds", options.seconds, 0.1)?;
    seconds("warm-up", options.warm_up, 0.0)
}

fn columns(options: &Options) -> anyhow::Result<Vec<Column>> {
    let mut chosen: Vec<Column> = Vec::new();
    for column in &options.columns {
        anyhow::ensure!(!chosen.contains(column), "--columns names {} twice", column.name());
        chosen.push(*column);
    }
    for column in &chosen {
        let name = column.name();
        anyhow::ensure!(column.is_built(), "this build has no {name}; build it with --features {name}");
        anyhow::ensure!(
            column.speaks(options.transport),
            "{name} is not measured over {}; leave it out, or choose --transport unix",
            options.transport
        );
        anyhow::ensure!(
            options.runtime == Flavor::Current || !column.is_local(),
            "{name} stays on one thread; leave it out, or choose --runtime current"
        );
    }
    if !chosen.is_empty() {
        return Ok(chosen);
    }
    let all = if options.quick { Column::QUICK.to_vec() } else { Column::ALL.to_vec() };
    let fits = |column: &Column| {
        column.is_built()
            && column.speaks(options.transport)
            && (options.runtime == Flavor::Current || !column.is_local())
    };
    Ok(all.into_iter().filter(fits).collect())
}

/// The cases, and what the reader must know of those that are left out.
fn cases(options: &Options, columns: &[Column]) -> anyhow::Result<(Vec<Case>, Vec<String>)> {
    let mut notes = Vec::new();
    let inproc = options.transport == Transport::Inproc;
    if options.case.is_empty() {
        let count = if options.quick { Case::QUICK } else { Case::ALL.len() };
        let offered =
            Case::ALL.into_iter().take(count).filter(|case| columns.iter().any(|column| column.offers(*case)));
        return Ok((offered.filter(|case| !inproc || *case != Case::Idle).collect(), notes));
    }
    let mut chosen: Vec<Case> = Vec::new();
    for case in &options.case {
        let name = case.name();
        anyhow::ensure!(!chosen.contains(case), "--case names {name} twice");
        anyhow::ensure!(
            columns.iter().any(|column| column.offers(*case)),
            "none of the chosen columns has {name}; add punctual, floor or tonic to --columns"
        );
        anyhow::ensure!(
            !inproc || *case != Case::Idle,
            "idle needs two processes; choose --transport unix, tcp or tls"
        );
        chosen.push(*case);
    }
    if chosen.contains(&Case::Beside) && !chosen.contains(&Case::Calm) {
        notes.push("Calm is added: beside is held against it.".to_owned());
        chosen.push(Case::Calm);
    }
    chosen.sort();
    Ok((chosen, notes))
}

/// How many idle connections the descriptors of one process allow.
fn idle(options: &Options, descriptors: u64, cases: &[Case], notes: &mut Vec<String>) -> usize {
    let allowed = usize::try_from(descriptors.saturating_sub(DESCRIPTORS_BESIDE)).unwrap_or(usize::MAX);
    let connections = options.idle.min(allowed);
    if cases.contains(&Case::Idle) && connections < options.idle {
        notes.push(format!(
            "Idle: {connections} connections instead of {}, since a process may have {descriptors} descriptors here; raise \
             that limit (ulimit -Hn).",
            options.idle
        ));
    }
    connections
}

/// The client's and the server's cores: one each for runtimes of one thread, half of all each for others.
fn halves(cores: usize, runtime: Flavor) -> (Vec<usize>, Vec<usize>) {
    if cores < 2 {
        return (vec![0], vec![0]);
    }
    match runtime {
        Flavor::Current => (vec![0], vec![1]),
        Flavor::Multi => ((0..cores / 2).collect(), (cores / 2..cores / 2 * 2).collect()),
    }
}

#[cfg(test)]
mod tests;
