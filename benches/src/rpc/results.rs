//! Writes the RPC part of the results file from the JSON of runs, so that no figure in it is anybody's typing.

use crate::rpc::page::{self, Form};
use crate::rpc::report::Report;
use anyhow::Context as _;
use clap::Args;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- rpc: written by `results`, from the JSON of runs -->";
const END: &str = "<!-- rpc: end -->";

/// What to write, and where.
#[derive(Debug, Args)]
pub struct ResultsArguments {
    /// What `rpc --json` wrote, in the order of the parts
    #[arg(required = true, value_name = "FILE")]
    runs: Vec<PathBuf>,
    /// The file with the part between its two marks
    #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/RESULTS.md"))]
    into: PathBuf,
}

impl ResultsArguments {
    pub fn run(&self) -> anyhow::Result<()> {
        let mut parts = Vec::new();
        for file in &self.runs {
            parts.push(page::render(&read(file)?, Form::Markdown));
        }
        let old = std::fs::read_to_string(&self.into).with_context(|| self.into.display().to_string())?;
        let new = replace(&old, &parts.join("\n")).with_context(|| self.into.display().to_string())?;
        std::fs::write(&self.into, new).with_context(|| self.into.display().to_string())
    }
}

fn read(file: &Path) -> anyhow::Result<Report> {
    let text = std::fs::read(file).with_context(|| file.display().to_string())?;
    serde_json::from_slice(&text).with_context(|| format!("{} is not what `rpc --json` writes", file.display()))
}

/// The text with `part` between its marks.
fn replace(text: &str, part: &str) -> anyhow::Result<String> {
    let marks =
        || format!("the part is written between the lines {BEGIN} and {END}, which must be there in this order");
    let (before, rest) = text.split_once(BEGIN).with_context(marks)?;
    let (_, after) = rest.split_once(END).with_context(marks)?;
    Ok(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", part.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::case::Case;
    use crate::rpc::column::Column;
    use crate::rpc::report::tests::{empty, lane, sample};

    /// Guards that only the part is changed, and that writing it twice changes nothing more.
    #[test]
    fn only_the_part_is_written() {
        let old = format!("# Results\n\n{BEGIN}\nold\n{END}\n\n## Stores\n");
        let new = replace(&old, "\nnew\n").expect("the marks are there");
        assert_eq!(new, format!("# Results\n\n{BEGIN}\n\nnew\n\n{END}\n\n## Stores\n"));
        assert_eq!(replace(&new, "new").expect("they still are"), new);
    }

    /// Guards that a file without marks is left alone and says what it lacks.
    #[test]
    fn a_file_without_marks_is_refused() {
        for text in ["# Results\n".to_owned(), format!("{END}\n{BEGIN}\n")] {
            let error = replace(&text, "new").expect_err("there is no place for it").to_string();
            assert!(error.contains(BEGIN), "{error}");
        }
    }

    /// Guards that a run can be written down and read back whole.
    #[test]
    fn a_report_survives_json() {
        let mut report = empty();
        report.samples.push(sample(Case::Upload4096, lane(Column::Tonic).again(), 1, 12_345.678, 9.5));
        report.samples.push(sample(Case::Echo256, lane(Column::Punctual), 0, 5.0, 9.5));
        let text = serde_json::to_string(&report).expect("it can be written");
        let back: Report = serde_json::from_str(&text).expect("it can be read");
        assert_eq!(page::render(&back, Form::Markdown), page::render(&report, Form::Markdown));
    }
}
