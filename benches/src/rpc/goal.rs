//! What each row is to reach, and whether it does. The numbers are the design's; a goal that is met moves up.

use crate::rpc::case::Case;
use crate::rpc::column::Column;
use crate::rpc::figures::{Counts, Lane};
use crate::rpc::flavor::Flavor;
use crate::rpc::report::Report;
use crate::rpc::transport::Transport;
use crate::statistics::ratio;
use serde::Serialize;

/// Calls in flight on a connection that the counts of writes are meant for.
const COUNTED_IN_FLIGHT: usize = 64;

/// What an average of counts may be above a whole number: what a connection itself costs, over the operations of a run.
const COUNT_SLACK: f64 = 0.05;

/// How a value stands to its goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Met,
    /// Missed by less than the same program differs from itself.
    InsideNoise,
    Missed,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::InsideNoise => "missed, inside the noise",
            Verdict::Missed => "missed",
        }
    }

    fn of(met: bool, nearly: bool) -> Self {
        match (met, nearly) {
            (true, _) => Verdict::Met,
            (false, true) => Verdict::InsideNoise,
            (false, false) => Verdict::Missed,
        }
    }
}

/// One goal of one case, judged.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judged {
    pub case: Case,
    pub what: String,
    pub goal: String,
    pub value: f64,
    pub verdict: Verdict,
}

/// The goals of a case's rate: against the floor, tonic and tarpc.
fn rates(case: Case) -> (Option<f64>, &'static [(Column, f64)]) {
    match case {
        Case::Add | Case::Echo256 => (Some(0.75), &[(Column::Tonic, 12.0), (Column::Tarpc, 5.0)]),
        Case::Echo4096 => (Some(0.80), &[(Column::Tonic, 9.0), (Column::Tarpc, 5.0)]),
        Case::Oneway => (Some(0.70), &[]),
        Case::Upload4096 => (Some(0.90), &[(Column::Tonic, 1.6)]),
        Case::Download4096 => (Some(0.90), &[(Column::Tonic, 1.8)]),
        Case::Duplex4096 => (Some(0.90), &[(Column::Tonic, 2.0)]),
        _ => (None, &[]),
    }
}

/// A count of an operation that has a goal.
type Count = (&'static str, f64, fn(&Counts) -> Option<f64>);

fn counts(case: Case) -> Vec<Count> {
    let client: fn(&Counts) -> Option<f64> = |counts| counts.server_allocations.map(|_| counts.client_allocations);
    let server: fn(&Counts) -> Option<f64> = |counts| counts.server_allocations;
    let writes: fn(&Counts) -> Option<f64> = |counts| counts.client_writes;
    let (client, server) = (("client allocations a call", 0.0, client), ("server allocations a call", 1.0, server));
    match case {
        Case::Add | Case::Echo256 => vec![client, server, ("writes a call", 0.10, writes)],
        Case::Echo4096 => vec![("writes a call", 0.15, writes)],
        Case::Oneway => vec![client, ("server allocations a call", 0.0, server.2)],
        Case::Upload4096 | Case::Download4096 | Case::Duplex4096 => vec![("writes for 16 items", 1.0, writes)],
        _ => Vec::new(),
    }
}

/// Judges one report, case by case.
struct Judge<'a> {
    report: &'a Report,
    ours: Lane,
    judged: Vec<Judged>,
}

/// Every goal that the run has something to say about.
pub fn judge(report: &Report) -> Vec<Judged> {
    let mut judge = Judge { report, ours: report.lane(Column::Punctual), judged: Vec::new() };
    for case in report.cases() {
        match report.setting.transport {
            Transport::Unix | Transport::Tcp => judge.sockets(case),
            Transport::Tls => judge.tls(case),
            Transport::Shm => judge.shared_memory(case),
            // Nobody has named a goal for it.
            Transport::Inproc => {}
        }
        judge.small_beside_bulk(case);
    }
    judge.idle();
    judge.judged
}

impl Judge<'_> {
    fn add(&mut self, case: Case, what: String, goal: String, value: f64, verdict: Verdict) {
        self.judged.push(Judged { case, what, goal, value, verdict });
    }

    fn sockets(&mut self, case: Case) {
        self.against_the_floor(case);
        for (column, goal) in rates(case).1 {
            self.against(case, self.report.lane(*column), *goal);
        }
        self.counted(case);
        self.processor(case);
        self.latency(case);
    }

    fn against_the_floor(&mut self, case: Case) {
        let floor = self.report.lane(Column::Floor);
        let (Some(goal), Some(value)) = (rates(case).0, self.report.rate_ratio(case, self.ours, floor)) else { return };
        let streams = case.has_streams();
        // The floor of streams scatters: as much as its own slowest round is as good as the floor.
        let slowest = self.report.rates(case, floor).min();
        let within = streams && self.report.rates(case, self.ours).median() >= slowest;
        let words = if streams { ", or within the floor's own rounds" } else { "" };
        let nearly = value * self.report.noise_factor(case) >= goal;
        let verdict = Verdict::of(value >= goal || within, nearly);
        self.add(case, "rate / floor".to_owned(), format!(">= {goal:.2}{words}"), value, verdict);
    }

    fn against(&mut self, case: Case, peer: Lane, goal: f64) {
        let Some(value) = self.report.rate_ratio(case, self.ours, peer) else { return };
        let verdict = Verdict::of(value >= goal, value * self.report.noise_factor(case) >= goal);
        let name = peer.name(self.report.setting.transport);
        self.add(case, format!("rate / {name}"), format!(">= {goal}"), value, verdict);
    }

    fn counted(&mut self, case: Case) {
        let Some(found) = self.report.counts(case, self.ours) else { return };
        let setting = &self.report.setting;
        let usual = setting.in_flight == COUNTED_IN_FLIGHT && setting.connections == 1;
        let mut judged = Vec::new();
        for (what, goal, count) in counts(case) {
            if let Some(value) = count(found).filter(|_| usual || !what.starts_with("writes")) {
                judged.push((what, goal, value));
            }
        }
        for (what, goal, value) in judged {
            // Counts have no noise. Those of writes are shares already, and need no slack.
            let slack = if what.starts_with("writes") { 0.0 } else { COUNT_SLACK };
            let verdict = Verdict::of(value <= goal + slack, false);
            self.add(case, what.to_owned(), format!("<= {goal}"), value, verdict);
        }
    }

    /// The only absolute times: they are meant for one machine, and stand here since nothing else is held against them.
    fn processor(&mut self, case: Case) {
        let setting = &self.report.setting;
        let goal = match case {
            Case::Add => 0.42,
            Case::Echo4096 => 1.15,
            _ => return,
        };
        if setting.transport != Transport::Unix || setting.in_flight != COUNTED_IN_FLIGHT {
            return;
        }
        let Some(value) = self.report.series(case, self.ours, |sample| sample.client_cpu_us).median() else { return };
        let verdict = Verdict::of(value <= goal, value <= goal * self.report.noise_factor(case));
        self.add(case, "client CPU us a call (machine)".to_owned(), format!("<= {goal}"), value, verdict);
    }

    fn latency(&mut self, case: Case) {
        if case != Case::Latency {
            return;
        }
        let Some(value) = self.report.series(case, self.ours, |sample| sample.client.p50_us).median() else { return };
        let Some((peer, theirs)) = self.report.best_peer(case, |sample| sample.client.p50_us) else { return };
        let (Some(median), Some(slowest)) = (theirs.median(), theirs.max()) else { return };
        let verdict = Verdict::of(value <= slowest, value <= median * self.report.noise_factor(case));
        let name = peer.name(self.report.setting.transport);
        self.add(
            case,
            format!("p50 us, best peer {name}"),
            format!("<= {slowest:.1}, its slowest round"),
            value,
            verdict,
        );
    }

    fn tls(&mut self, case: Case) {
        if case != Case::Echo256 {
            return;
        }
        self.against(case, Lane::new(Column::Punctual, Transport::Tcp), 0.6);
        self.against(case, self.report.lane(Column::Tonic), 4.0);
    }

    fn shared_memory(&mut self, case: Case) {
        if case == Case::Add {
            self.against(case, Lane::new(Column::Punctual, Transport::Unix), 1.4);
        }
    }

    fn small_beside_bulk(&mut self, case: Case) {
        if case != Case::Beside || self.report.setting.runtime != Flavor::Current {
            return;
        }
        let p99 = |case| self.report.series(case, self.ours, |sample| sample.client.p99_us).median();
        let Some(value) = ratio(p99(Case::Beside), p99(Case::Calm)) else { return };
        let verdict = Verdict::of(value <= 2.0, value <= 2.0 * self.report.noise_factor(case));
        self.add(case, "p99 beside the stream / without".to_owned(), "<= 2".to_owned(), value, verdict);
    }

    fn idle(&mut self) {
        let Some(found) = self.report.idle.iter().find(|figures| figures.lane == self.ours).cloned() else { return };
        for (side, bytes) in [("server", found.server_bytes), ("client", found.client_bytes)] {
            let what = format!("KiB an idle connection, {side}");
            let kib = bytes / 1_024.0;
            self.add(Case::Idle, what, "<= 8".to_owned(), kib, Verdict::of(kib <= 8.0, false));
        }
    }
}

#[cfg(test)]
mod tests;
