//! The tables for people.

use crate::sample::median;
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
        text.push_str("| arm | a second | compared | goal | statements | commits |\n|---|---|---|---|---|---|\n");
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
            let each = |value: fn(&Sample) -> Option<f64>| {
                let values: Vec<f64> = mine.iter().filter_map(|sample| value(sample)).collect();
                if values.is_empty() { "-".to_owned() } else { format!("{:.4}", median(values)) }
            };
            let _ = writeln!(
                text,
                "| {} | {:.0} | {} | {} | {} | {} |",
                arm.name(),
                rate(&mine),
                compared.join("<br>"),
                goals.join("<br>"),
                each(|sample| sample.measured.statements),
                each(|sample| sample.measured.commits)
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
        "\nMedians over the rounds. Statements and commits are for each slot or task, as the store counts them.\n",
    );
    text
}

fn rate(samples: &[&Sample]) -> f64 {
    median(samples.iter().map(|sample| sample.rate()).collect())
}
