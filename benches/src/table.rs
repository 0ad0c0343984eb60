//! The tables for people.

use crate::case::Case;
use crate::columns::Column;
use crate::sample::{Counts, Sample, median};
use std::fmt::Write;

/// One table a case, in Markdown.
pub fn render(heading: &str, columns: &[Column], cases: &[Case], samples: &[Sample], counts: &[Counts]) -> String {
    let mut text = format!("# RPC: Punctual beside its peers\n\n{heading}\n");
    for case in cases {
        let of = |column: Column, again: bool| -> Vec<&Sample> {
            let mine = |sample: &&Sample| sample.column == column && sample.case == *case && sample.again == again;
            samples.iter().filter(mine).collect()
        };
        let _ = writeln!(text, "\n## {}\n", case.name());
        text.push_str("| | calls/s | of the first | p50 us | p99 us | p99.9 us | client CPU us | server CPU us |");
        text.push_str(" client allocs | server allocs | writes | reads | client, server peak MiB |\n");
        text.push_str("|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
        let first = columns.first().map_or(f64::NAN, |column| rate(&of(*column, false)));
        for column in columns {
            row(&mut text, column.name(), &of(*column, false), first, find(counts, *column, *case));
        }
        if let Some(column) = columns.first() {
            let name = format!("{} again", column.name());
            row(&mut text, &name, &of(*column, true), first, None);
            let _ = writeln!(text, "\n{}", noise(*column, &of(*column, false), &of(*column, true)));
        }
    }
    text.push_str(
        "\nMedians over the rounds. Allocations, writes and reads are per call, from runs that are not timed",
    );
    text.push_str(if counts.iter().any(|count| count.client_writes.is_none()) {
        " (writes and reads need strace, which is not installed).\n"
    } else {
        ".\n"
    });
    text
}

fn find(counts: &[Counts], column: Column, case: Case) -> Option<&Counts> {
    counts.iter().find(|count| count.column == column && count.case == case)
}

fn rate(samples: &[&Sample]) -> f64 {
    median(samples.iter().map(|sample| sample.rate()).collect())
}

fn row(text: &mut String, name: &str, samples: &[&Sample], first: f64, counts: Option<&Counts>) {
    let of = |figure: fn(&Sample) -> f64| median(samples.iter().map(|sample| figure(sample)).collect());
    let rate = rate(samples);
    let _ = write!(text, "| {name} | {rate:.0} | {:.2} ", rate / first);
    let _ = write!(text, "| {:.1} | {:.1} ", of(|s| s.client.p50_us), of(|s| s.client.p99_us));
    let _ = write!(
        text,
        "| {:.1} | {:.2} | {:.2} ",
        of(|s| s.client.p999_us),
        of(|s| s.client_cpu_us),
        of(|s| s.server_cpu_us)
    );
    let optional = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
    let _ = write!(text, "| {} ", optional(counts.map(|counts| counts.client_allocations)));
    let _ = write!(text, "| {} ", optional(counts.map(|counts| counts.server_allocations)));
    let _ = write!(text, "| {} ", optional(counts.and_then(|counts| counts.client_writes)));
    let _ = write!(text, "| {} ", optional(counts.and_then(|counts| counts.client_reads)));
    let mib = |kib: u64| f64::from(u32::try_from(kib).unwrap_or(u32::MAX)) / 1024.0;
    let peak = |figure: fn(&Sample) -> u64| samples.iter().map(|sample| figure(sample)).max().unwrap_or(0);
    let _ = writeln!(text, "| {:.1}, {:.1} |", mib(peak(|s| s.client_peak_kib)), mib(peak(|s| s.server_peak_kib)));
}

/// The same binary against itself, round by round: a difference inside this spread is none.
fn noise(column: Column, one: &[&Sample], other: &[&Sample]) -> String {
    let ratios: Vec<f64> = one.iter().zip(other).map(|(a, b)| a.rate() / b.rate()).collect();
    let low = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let high = ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("Noise: {} against itself in the same round gave ratios from {low:.2} to {high:.2}.", column.name())
}
