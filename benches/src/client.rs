//! A column's client process: the closed loop. It says `begin` and `end`, then its figures as one JSON line.

use crate::case::Case;
use crate::columns::Column;
use crate::load::Load;
use crate::sample::ClientFigures;
use crate::{allocator, cpu};
use clap::Args;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
pub struct ClientArguments {
    #[arg(long)]
    pub column: Column,
    #[arg(long)]
    pub case: Case,
    #[arg(long)]
    pub socket: PathBuf,
    #[arg(long)]
    pub core: usize,
    #[arg(long)]
    pub in_flight: usize,
    #[arg(long)]
    pub warm_up: f64,
    #[arg(long)]
    pub seconds: f64,
    #[arg(long)]
    pub count_allocations: bool,
}

pub fn run(arguments: &ClientArguments) -> anyhow::Result<()> {
    cpu::pin(arguments.core);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if arguments.count_allocations {
        allocator::count();
    }
    let load = Load::new();
    let callers = load.callers(arguments.in_flight);
    let mut marks = Vec::new();
    runtime.block_on(async {
        let warm_up = Duration::from_secs_f64(arguments.warm_up);
        let measure = Duration::from_secs_f64(arguments.seconds);
        let window = load.window(warm_up, measure, |mark| {
            println!("{mark}");
            let _ = std::io::stdout().flush();
            marks.push((quanta::Instant::now(), allocator::calls()));
        });
        let work = arguments.column.call(&arguments.socket, arguments.case, callers);
        let ((), work) = tokio::join!(window, work);
        work
    })?;
    let measured = load.measured();
    let [(began, allocations_before), (ended, allocations_after)] = marks.as_slice() else {
        anyhow::bail!("the window has no two ends");
    };
    let micros = |quantile: f64| {
        let nanos = u32::try_from(measured.value_at_quantile(quantile)).unwrap_or(u32::MAX);
        f64::from(nanos) / 1000.0
    };
    let figures = ClientFigures {
        operations: measured.len(),
        seconds: ended.duration_since(*began).as_secs_f64(),
        p50_us: micros(0.5),
        p99_us: micros(0.99),
        p999_us: micros(0.999),
        allocations: allocations_after - allocations_before,
    };
    println!("{}", serde_json::to_string(&figures)?);
    Ok(())
}
