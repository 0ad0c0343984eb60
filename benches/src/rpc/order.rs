//! The order of a run: every lane in turn, then the other way round; then the counts.

use crate::rpc::case::Case;
use crate::rpc::certificate;
use crate::rpc::figures::Lane;
use crate::rpc::page;
use crate::rpc::plan::Plan;
use crate::rpc::report::Report;
use crate::rpc::transport::Transport;
use crate::rpc::trial::Bench;
use anyhow::Context as _;

/// Makes all trials of a plan.
pub fn measure(plan: &Plan) -> anyhow::Result<Report> {
    let folder = tempfile::tempdir()?;
    if plan.setting.transport == Transport::Tls {
        certificate::write(folder.path())?;
    }
    if let Some(file) = &plan.json {
        std::fs::write(file, "").with_context(|| format!("--json {}", file.display()))?;
    }
    let setting = &plan.setting;
    let bench = Bench {
        program: std::env::current_exe()?,
        folder: folder.path().to_owned(),
        in_flight: setting.in_flight,
        connections: setting.connections,
        runtime: setting.runtime,
        client_cores: setting.client_cores.clone(),
        server_cores: setting.server_cores.clone(),
        times: plan.times,
        count_times: plan.count_times,
    };
    eprintln!("{}", setting.title());
    for line in setting.lines() {
        eprintln!("{line}");
    }
    let mut report = Report { setting: setting.clone(), samples: Vec::new(), counts: Vec::new(), idle: Vec::new() };
    for case in &plan.cases {
        measure_case(plan, &bench, *case, &mut report)?;
    }
    Ok(report)
}

fn measure_case(plan: &Plan, bench: &Bench, case: Case, report: &mut Report) -> anyhow::Result<()> {
    let usual = plan.setting.transport;
    let of = |lane: Lane| move || format!("{} of {}", case.name(), lane.name(usual));
    if case == Case::Idle {
        for lane in plan.lanes(case).into_iter().filter(|lane| !lane.again) {
            let figures = bench.idle(lane, plan.idle).with_context(of(lane))?;
            eprintln!(
                "  idle {}: {:.1} KiB a connection on the server",
                lane.name(usual),
                figures.server_bytes / 1_024.0
            );
            report.idle.push(figures);
        }
        return Ok(());
    }
    for round in 0..plan.setting.rounds {
        let mut lanes = plan.lanes(case);
        if round % 2 == 1 {
            lanes.reverse();
        }
        for lane in lanes {
            let sample = bench.timed(lane, case, round).with_context(of(lane))?;
            eprintln!("{}", page::progress(&sample, usual));
            report.samples.push(sample);
        }
    }
    for lane in plan.counted(case) {
        report.counts.push(bench.counts(lane, case).with_context(of(lane))?);
    }
    Ok(())
}
