//! Verdicts on reports that are made up.

use super::*;
use crate::rpc::figures::IdleFigures;
use crate::rpc::report::tests::{empty, lane, sample};

fn two_rounds(report: &mut Report, case: Case, column: Column, rates: [f64; 2]) {
    for (round, rate) in rates.into_iter().enumerate() {
        report.samples.push(sample(case, lane(column), round, rate, 1e6 / rate));
    }
}

fn found(report: &Report, what: &str) -> (String, Verdict) {
    let judged = judge(report).into_iter().find(|judged| judged.what == what);
    judged.map(|judged| (judged.goal, judged.verdict)).unwrap_or_else(|| panic!("nothing is said of {what}"))
}

/// Guards that a ratio to the floor is judged by its goal, and that falling short by less than the noise is told apart.
#[test]
fn noise_is_not_a_miss() {
    let mut report = empty();
    two_rounds(&mut report, Case::Add, Column::Punctual, [70.0, 70.0]);
    two_rounds(&mut report, Case::Add, Column::Floor, [100.0, 100.0]);
    assert_eq!(found(&report, "rate / floor"), (">= 0.75".to_owned(), Verdict::Missed));
    for round in 0..2 {
        report.samples.push(sample(Case::Add, lane(Column::Punctual).again(), round, 77.0, 1.0));
    }
    assert_eq!(found(&report, "rate / floor").1, Verdict::InsideNoise);
    two_rounds(&mut report, Case::Add, Column::Tarpc, [14.0, 14.0]);
    assert_eq!(found(&report, "rate / tarpc"), (">= 5".to_owned(), Verdict::Met));
}

/// Guards that streams may be as slow as the floor's slowest round, and plain calls may not.
#[test]
fn the_floor_of_streams_scatters() {
    let mut report = empty();
    for case in [Case::Add, Case::Upload4096] {
        two_rounds(&mut report, case, Column::Punctual, [62.0, 62.0]);
        two_rounds(&mut report, case, Column::Floor, [60.0, 140.0]);
    }
    let verdicts: Vec<Verdict> = judge(&report)
        .into_iter()
        .filter(|judged| judged.what == "rate / floor")
        .map(|judged| judged.verdict)
        .collect();
    assert_eq!(verdicts, [Verdict::Missed, Verdict::Met]);
}

/// Guards that counts are judged to the point, and writes only at the load that their goal is meant for.
#[test]
fn counts_have_no_noise() {
    let mut report = empty();
    two_rounds(&mut report, Case::Add, Column::Punctual, [1.0, 2.0]);
    report.counts.push(Counts {
        case: Case::Add,
        lane: lane(Column::Punctual),
        client_allocations: 0.002,
        server_allocations: Some(2.0),
        client_writes: Some(0.05),
        client_reads: Some(0.05),
    });
    assert_eq!(found(&report, "client allocations a call").1, Verdict::Met);
    assert_eq!(found(&report, "server allocations a call").1, Verdict::Missed);
    assert_eq!(found(&report, "writes a call").1, Verdict::Met);
    report.setting.in_flight = 16;
    assert!(judge(&report).iter().all(|judged| judged.what != "writes a call"));
}

/// Guards that latency is held against the fastest peer's slowest round.
#[test]
fn latency_is_held_against_the_best_peer() {
    let mut report = empty();
    two_rounds(&mut report, Case::Latency, Column::Punctual, [25_000.0, 25_000.0]);
    two_rounds(&mut report, Case::Latency, Column::Tonic, [10_000.0, 10_000.0]);
    two_rounds(&mut report, Case::Latency, Column::Tarpc, [28_000.0, 24_000.0]);
    assert_eq!(found(&report, "p50 us, best peer tarpc"), ("<= 41.7, its slowest round".to_owned(), Verdict::Met));
}

/// Guards that TLS is held against our own TCP of the same run, and not against goals that are meant for plain sockets.
#[test]
fn tls_has_goals_of_its_own() {
    let mut report = empty();
    report.setting.transport = Transport::Tls;
    let lane = |transport| Lane::new(Column::Punctual, transport);
    report.samples.push(sample(Case::Echo256, lane(Transport::Tls), 0, 50.0, 1.0));
    report.samples.push(sample(Case::Echo256, lane(Transport::Tcp), 0, 100.0, 1.0));
    report.samples.push(sample(Case::Echo256, Lane::new(Column::Floor, Transport::Tls), 0, 100.0, 1.0));
    assert_eq!(found(&report, "rate / punctual over tcp"), (">= 0.6".to_owned(), Verdict::Missed));
    assert_eq!(judge(&report).len(), 1);
}

/// Guards that shared memory is held against our own Unix socket of the same run.
#[test]
fn shared_memory_has_a_goal_of_its_own() {
    let mut report = empty();
    report.setting.transport = Transport::Shm;
    let lane = |transport| Lane::new(Column::Punctual, transport);
    report.samples.push(sample(Case::Add, lane(Transport::Shm), 0, 150.0, 1.0));
    report.samples.push(sample(Case::Add, lane(Transport::Unix), 0, 100.0, 1.0));
    assert_eq!(found(&report, "rate / punctual over unix"), (">= 1.4".to_owned(), Verdict::Met));
    assert_eq!(judge(&report).len(), 1);
}

/// Guards the two mixed goals: small calls beside a stream by their p99, idle connections by either side.
#[test]
fn mixed_rows() {
    let mut report = empty();
    report.samples.push(sample(Case::Calm, lane(Column::Punctual), 0, 1.0, 50.0));
    report.samples.push(sample(Case::Beside, lane(Column::Punctual), 0, 1.0, 90.0));
    assert_eq!(found(&report, "p99 beside the stream / without").1, Verdict::Met);
    let ours = lane(Column::Punctual);
    report.idle.push(IdleFigures { lane: ours, connections: 10_000, client_bytes: 9_000.0, server_bytes: 8_192.0 });
    assert_eq!(found(&report, "KiB an idle connection, server").1, Verdict::Met);
    assert_eq!(found(&report, "KiB an idle connection, client").1, Verdict::Missed);
}
