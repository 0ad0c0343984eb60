//! The tables for people.

use crate::statistics::Series;
use crate::stores::arm::{Arm, Sample};
use crate::stores::bed::Kind;
use std::fmt::Write;

/// One table a store, in Markdown.
pub fn render(heading: &str, kinds: &[Kind], arms: &[Arm], samples: &[Sample]) -> String {
    let mut text = format!("# Stores: schedules and tasks beside plain SQL\n\n{heading}\n");
    for kind in kinds {
        let of = |arm: Arm, again: bool| -> Vec<&Sample> {
            samples.iter().filter(|s| s.store == *kind && s.arm == arm && s.again == again).collect()
        };
        let _ = writeln!(text, "\n## {}\n", kind.name());
        text.push_str(
            "| arm | a second | compared | goal | wall us | service us | statements | commits | log bytes | created, exists, not reached |\n\
             |---|---|---|---|---|---|---|---|---|---|\n",
        );
        for arm in arms {
            let mine = of(*arm, false);
            if mine.is_empty() {
                continue;
            }
            let (mut compared, mut goals) = (Vec::new(), Vec::new());
            for (against, goal) in [arm.goal(*kind), arm.second_goal(*kind)].into_iter().flatten() {
                let other = of(against, false);
                if !other.is_empty() {
                    compared.push(format!("{:.2} x `{}`", rate(&mine) / rate(&other), against.name()));
                    goals.push(format!("{goal}"));
                }
            }
            let each = |digits: usize, value: fn(&Sample) -> Option<f64>| {
                let median = Series::new(mine.iter().filter_map(|sample| value(sample))).median();
                median.map_or_else(|| "-".to_owned(), |median| format!("{median:.digits$}"))
            };
            // Every round does the same work: the first one's counts are all rounds'.
            let outcomes = mine.first().and_then(|sample| sample.measured.outcomes);
            let outcomes = outcomes.map_or_else(
                || "-".to_owned(),
                |all| {
                    let other = if all.other > 0 { format!(", {} other", all.other) } else { String::new() };
                    format!("{}, {}, {}{other}", all.created, all.exists, all.not_reached)
                },
            );
            let _ = writeln!(
                text,
                "| {} | {:.0} | {} | {} | {} | {} | {} | {} | {} | {outcomes} |",
                arm.name(),
                rate(&mine),
                compared.join("<br>"),
                goals.join("<br>"),
                each(1, |sample| Some(1e6 / sample.rate())),
                each(1, |sample| Some(1e6 * sample.measured.served_seconds? / f64::from(sample.measured.count))),
                each(4, |sample| sample.measured.statements),
                each(4, |sample| sample.measured.commits),
                each(0, |sample| sample.measured.logged_bytes)
            );
        }
        for arm in arms.iter().filter(|arm| arm.shows_noise()) {
            let ratios: Vec<f64> =
                of(*arm, false).iter().zip(of(*arm, true)).map(|(a, b)| a.rate() / b.rate()).collect();
            let low = ratios.iter().copied().fold(f64::INFINITY, f64::min);
            let high = ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let _ = writeln!(
                text,
                "\nNoise: `{}` against itself in the same round gave ratios from {low:.2} to {high:.2}.",
                arm.name()
            );
        }
    }
    text.push_str(
        "\nMedians over the rounds. Times, statements, commits and log bytes are for each slot or task: wall time from the first \
         call to the last, service time as the sum of all calls (above wall time where calls overlap), statements and commits \
         as the store counts them, log bytes as the server or, for SQLite, the operating system does (there with what goes \
         from the log into the file).\n",
    );
    text
}

fn rate(samples: &[&Sample]) -> f64 {
    Series::new(samples.iter().map(|sample| sample.rate())).median().unwrap_or(f64::NAN)
}
