//! A report for people: a table with bars for each case, its noise, and how it stands to its goals.

use crate::rpc::case::Case;
use crate::rpc::column::Column;
use crate::rpc::figures::{Lane, Sample};
use crate::rpc::goal::{self, Judged};
use crate::rpc::report::Report;
use crate::rpc::table::{Table, bar, decimals, thousands};
use crate::rpc::transport::Transport;
use crate::statistics::ratio;

/// Where it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Terminal,
    /// As a part of a file, below a heading of the second level.
    Markdown,
}

impl Form {
    fn heading(self, level: usize, text: &str) -> String {
        match self {
            Form::Terminal => format!("{text}\n"),
            Form::Markdown => format!("{} {text}\n\n", "#".repeat(level)),
        }
    }

    fn table(self, table: &Table) -> String {
        match self {
            Form::Terminal => table.to_text(),
            Form::Markdown => table.to_markdown(),
        }
    }

    fn lines(self, lines: &[String]) -> String {
        let mark = if self == Form::Markdown { "- " } else { "" };
        lines.iter().map(|line| format!("{mark}{line}\n")).collect()
    }
}

/// The whole report.
pub fn render(report: &Report, form: Form) -> String {
    let goals = goal::judge(report);
    let mut text = form.heading(3, &report.setting.title());
    text += &form.lines(&report.setting.lines());
    for case in report.cases() {
        text.push('\n');
        text += &form.heading(4, &format!("{}: {}", case.name(), report.setting.of(case)));
        text += &form.table(&timed(report, case));
        text += &noise(report, case, form);
        text += &judged(&goals, case, form);
    }
    if !report.idle.is_empty() {
        text.push('\n');
        text += &form.heading(4, &format!("{}: {}", Case::Idle.name(), Case::Idle.does()));
        text += &form.table(&idle(report));
        text +=
            "\nResident memory of either process, divided by the connections; the kernel's buffers are not in it.\n";
        text += &judged(&goals, Case::Idle, form);
    }
    text.push('\n');
    text += "Medians over the rounds. Counts are for each operation; spread is of the rates over the rounds.\n";
    text
}

/// What the run prints while it goes on.
pub fn progress(sample: &Sample, usual: Transport) -> String {
    let name = sample.lane.name(usual);
    format!("  {} round {} {name}: {}/s", sample.case.name(), sample.round + 1, thousands(sample.rate))
}

fn timed(report: &Report, case: Case) -> Table {
    let mut table = Table::new([
        "",
        "op/s",
        "",
        "/ floor",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "CPU us client",
        "server",
        "allocs client",
        "server",
        "writes",
        "reads",
        "MiB client",
        "server",
        "spread",
    ]);
    if case == Case::Beside {
        table.column("stream MiB/s");
    }
    let lanes = report.lanes(case);
    let most = lanes.iter().filter_map(|lane| report.rates(case, *lane).median()).fold(0.0, f64::max);
    for lane in lanes {
        table.row(row(report, case, lane, most));
    }
    table
}

fn row(report: &Report, case: Case, lane: Lane, most: f64) -> Vec<String> {
    let rates = report.rates(case, lane);
    let of = |figure: fn(&Sample) -> f64| report.series(case, lane, figure).median();
    let rate = rates.median();
    let counts = report.counts(case, lane);
    let floor = report.lane(Column::Floor);
    let peak = |figure: fn(&Sample) -> f64| report.series(case, lane, figure).max();
    let mut cells = vec![
        lane.name(report.setting.transport),
        rate.map_or_else(|| "-".to_owned(), thousands),
        bar(rate.unwrap_or(0.0), most),
        decimals(report.rate_ratio(case, lane, floor), 2),
        decimals(of(|sample| sample.client.p50_us), 1),
        decimals(of(|sample| sample.client.p99_us), 1),
        decimals(of(|sample| sample.client.p999_us), 1),
        decimals(of(|sample| sample.client_cpu_us), 2),
        decimals(of(|sample| sample.server_cpu_us), 2),
        decimals(counts.map(|counts| counts.client_allocations), 3),
        decimals(counts.and_then(|counts| counts.server_allocations), 3),
        decimals(counts.and_then(|counts| counts.client_writes), 3),
        decimals(counts.and_then(|counts| counts.client_reads), 3),
        decimals(peak(|sample| mebibytes(Some(sample.client_peak_kib))), 1),
        decimals(peak(|sample| mebibytes(sample.server_peak_kib)), 1),
        rates.spread().map_or_else(|| "-".to_owned(), |spread| format!("{:.0} %", spread * 100.0)),
    ];
    if case == Case::Beside {
        cells.push(decimals(of(stream_rate), 0));
    }
    cells
}

/// Not a number where there is none, which a series leaves out.
fn mebibytes(kib: Option<u64>) -> f64 {
    kib.and_then(|kib| u32::try_from(kib).ok()).map_or(f64::NAN, |kib| f64::from(kib) / 1_024.0)
}

#[expect(clippy::cast_precision_loss, reason = "bytes of seconds are far below 2^52")]
fn stream_rate(sample: &Sample) -> f64 {
    sample.client.bulk_bytes as f64 / f64::from(1 << 20) / sample.client.seconds
}

fn noise(report: &Report, case: Case, form: Form) -> String {
    let Some((lane, ratios)) = report.noise(case) else { return String::new() };
    let (Some(min), Some(max)) = (ratios.min(), ratios.max()) else { return String::new() };
    let indent = if form == Form::Terminal { "  " } else { "\n" };
    let name = lane.name(report.setting.transport);
    format!("{indent}A/A: {name} against itself within a round: {min:.2} to {max:.2}.\n")
}

fn judged(goals: &[Judged], case: Case, form: Form) -> String {
    let mut table = Table::new(["goal", "", "is", ""]);
    for judged in goals.iter().filter(|judged| judged.case == case) {
        let (what, goal) = (judged.what.clone(), judged.goal.clone());
        table.row(vec![what, goal, decimals(Some(judged.value), 2), judged.verdict.name().to_owned()]);
    }
    if table.is_empty() {
        return String::new();
    }
    let gap = if form == Form::Markdown { "\n" } else { "" };
    format!("{gap}{}", form.table(&table))
}

fn idle(report: &Report) -> Table {
    let mut table = Table::new(["", "connections", "KiB each, server", "client", "/ floor, server"]);
    let floor = report.idle.iter().find(|figures| figures.lane == report.lane(Column::Floor));
    for figures in &report.idle {
        let share = ratio(Some(figures.server_bytes), floor.map(|floor| floor.server_bytes));
        table.row(vec![
            figures.lane.name(report.setting.transport),
            figures.connections.to_string(),
            decimals(Some(figures.server_bytes / 1_024.0), 2),
            decimals(Some(figures.client_bytes / 1_024.0), 2),
            decimals(share, 2),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::figures::{Counts, IdleFigures};
    use crate::rpc::report::tests::{empty, lane, sample};

    fn report() -> Report {
        let mut report = empty();
        let (ours, floor) = (lane(Column::Punctual), lane(Column::Floor));
        for (lane, rate) in [(ours, 750_000.0), (floor, 1_000_000.0), (ours.again(), 700_000.0)] {
            report.samples.push(sample(Case::Add, lane, 0, rate, 50.0));
        }
        report.counts.push(Counts {
            case: Case::Add,
            lane: ours,
            client_allocations: 0.0,
            server_allocations: Some(1.0),
            client_writes: None,
            client_reads: None,
        });
        report.idle.push(IdleFigures { lane: ours, connections: 100, client_bytes: 2_048.0, server_bytes: 1_024.0 });
        report
    }

    /// Guards that a row shows what was measured, a ratio to the floor, and dashes for what was not.
    #[test]
    fn a_row_is_what_was_measured() {
        let text = render(&report(), Form::Markdown);
        let row = text.lines().find(|line| line.starts_with("| punctual |")).expect("our row");
        assert_eq!(
            row,
            "| punctual | 750,000 | ████████████ | 0.75 | 50.0 | 100.0 | 150.0 | 0.40 | 0.50 | 0.000 | 1.000 | - | - | 2.0 | 1.0 | 0 % |"
        );
        assert!(text.contains("| rate / floor | >= 0.75 | 0.75 | met |"), "{text}");
        assert!(text.contains("A/A: punctual against itself within a round: 0.93 to 0.93."), "{text}");
        assert!(text.contains("| punctual | 100 | 1.00 | 2.00 | - |"), "{text}");
    }

    /// Guards that whoever reads the table knows pinning, warm-up and order without the command line.
    #[test]
    fn the_conditions_are_printed() {
        let text = render(&report(), Form::Terminal);
        for words in ["client process pinned to core 0", "warms up for 1 s", "the other way round", "64 in flight"] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}
