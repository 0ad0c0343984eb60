//! Command lines that make sense, and those that do not.

use super::*;
use clap::Parser;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: Options,
}

fn options(line: &str) -> Result<Options, String> {
    let words = std::iter::once("rpc").chain(line.split_whitespace());
    Line::try_parse_from(words).map(|line| line.options).map_err(|error| error.to_string())
}

fn plan(line: &str) -> Result<Plan, String> {
    Plan::on(&options(line)?, 2, 100_000).map_err(|error| error.to_string())
}

fn refused(line: &str, words: &[&str]) {
    let error = plan(line).expect_err(line);
    for word in words {
        assert!(error.contains(word), "{line}: {error}");
    }
}

fn good(line: &str) -> Plan {
    plan(line).unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// Guards that each bad option is refused with its name, its value and what to do.
#[test]
fn bad_options_are_refused() {
    refused("--transport carrier-pigeon", &["--transport", "carrier-pigeon", "unix, tcp, tls, shm or inproc"]);
    refused("--transport shm --columns floor", &["floor is not measured over shm"]);
    refused("--conc 0", &["--conc is 0", "1 to 1024"]);
    refused("--conc 1025", &["--conc is 1025", "1 to 1024"]);
    refused("--conns 0", &["--conns is 0"]);
    refused("--conc 2 --conns 4", &["--conns 4 is more than --conc 2"]);
    refused("--rounds 0", &["--rounds is 0"]);
    refused("--seconds 0", &["--seconds is 0", "600 seconds"]);
    refused("--seconds NaN", &["--seconds is NaN"]);
    refused("--warm-up=-1", &["--warm-up is -1"]);
    refused("--runtime fast", &["current", "multi"]);
    refused("--case ad", &["ad", "add"]);
    refused("--case add,add", &["add twice"]);
    refused("--columns tonic,tonic", &["tonic twice"]);
    refused("--columns tarpc --case upload-4096", &["none of the chosen columns has upload-4096"]);
    refused("--columns tonic --case oneway", &["none of the chosen columns has oneway"]);
    refused("--transport inproc --case idle", &["two processes"]);
    refused("--quick --rounds 5", &["--quick", "--rounds"]);
    refused("--idle 5", &["--idle is 5"]);
}

/// Guards that a peer that was not compiled in is refused with how to get it.
#[test]
fn peers_behind_features_say_so() {
    for name in ["capnp", "ttrpc"] {
        let column = Column::ALL.into_iter().find(|column| column.name() == name).expect("it has a name");
        if !column.is_built() {
            refused(&format!("--columns {name}"), &[&format!("--features {name}")]);
        }
    }
}

/// Guards what an ordinary and a quick run consist of.
#[test]
fn the_usual_runs() {
    let plan = good("");
    assert_eq!(plan.cases, Case::ALL);
    assert_eq!(plan.columns.first(), Some(&Column::Punctual));
    let quick = good("--quick");
    assert_eq!(quick.columns, Column::QUICK);
    assert_eq!(quick.cases.len(), Case::QUICK);
    assert!(quick.cases.contains(&Case::Latency) && !quick.cases.contains(&Case::Slow));
}

/// Guards that a quick run has less than a minute's work in it, with a tenth of a second for starting each trial.
#[test]
fn a_quick_run_is_quick() {
    let plan = good("--quick");
    let (timed, counted) = (plan.times, plan.count_times);
    let mut seconds = 0.0;
    for case in &plan.cases {
        let rounds = f64::from(u32::try_from(plan.setting.rounds).expect("few"));
        let lanes = |lanes: Vec<Lane>| f64::from(u32::try_from(lanes.len()).expect("few"));
        seconds += rounds * lanes(plan.lanes(*case)) * (timed.warm_up + timed.measure + 0.1);
        seconds += 2.0 * lanes(plan.counted(*case)) * (counted.warm_up + counted.measure + 0.1);
    }
    assert!(seconds < 55.0, "{seconds}");
}

/// Guards that columns stand only where they have such calls, and that the first one stands at both ends.
#[test]
fn lanes_are_those_that_have_the_calls() {
    let names = |plan: &Plan, case| -> Vec<String> {
        plan.lanes(case).into_iter().map(|lane| lane.name(plan.setting.transport)).collect()
    };
    let plan = good("--columns punctual,floor,tonic,tarpc");
    assert_eq!(names(&plan, Case::Add), ["punctual", "floor", "tonic", "tarpc", "punctual again"]);
    assert_eq!(names(&plan, Case::Oneway), ["punctual", "floor", "punctual again"]);
    assert_eq!(names(&plan, Case::Duplex4096), ["punctual", "floor", "tonic", "punctual again"]);
    let shm = good("--transport shm");
    assert_eq!(shm.columns, [Column::Punctual]);
    assert_eq!(names(&shm, Case::Add), ["punctual", "punctual over unix", "punctual again"]);
    let tls = good("--columns punctual,floor --transport tls");
    assert_eq!(names(&tls, Case::Echo256), ["punctual", "floor", "punctual over tcp", "punctual again"]);
    assert_eq!(names(&tls, Case::Add), ["punctual", "floor", "punctual again"]);
}

/// Guards that fewer idle connections than asked for are never measured in silence.
#[test]
fn few_descriptors_are_told() {
    let options = options("--case idle").expect("a good line");
    let plan = Plan::on(&options, 2, 4_096).expect("a good plan");
    assert_eq!(plan.idle, 4_032);
    assert!(plan.setting.notes.iter().any(|note| note.contains("4032 connections instead of 10000")), "{plan:?}");
    let plan = Plan::on(&options, 2, 20_000).expect("a good plan");
    assert_eq!((plan.idle, plan.setting.notes.len()), (10_000, 0));
}

/// Guards that the two sides never share a core where there are two.
#[test]
fn sides_have_cores_of_their_own() {
    assert_eq!(halves(1, Flavor::Multi), (vec![0], vec![0]));
    assert_eq!(halves(8, Flavor::Current), (vec![0], vec![1]));
    assert_eq!(halves(2, Flavor::Multi), (vec![0], vec![1]));
    assert_eq!(halves(5, Flavor::Multi), (vec![0, 1], vec![2, 3]));
}

/// Guards that what beside is held against is measured with it, and that it is said.
#[test]
fn beside_brings_calm() {
    let plan = good("--case beside");
    assert_eq!(plan.cases, [Case::Calm, Case::Beside]);
    assert_eq!(plan.setting.notes.len(), 1);
}
