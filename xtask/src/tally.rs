//! The sum of what `cargo test` says once for each test binary, for a closing line like nextest's.

use std::fmt;

/// Tests counted over all binaries of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    binaries: u64,
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Tally {
    /// Takes one line of the output; all but the result lines are ignored.
    pub(crate) fn take(&mut self, line: &str) {
        // A result line: "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s".
        let Some(counts) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". ")) else {
            return;
        };
        self.binaries += 1;
        for part in counts.1.split("; ") {
            let Some((number, what)) = part.split_once(' ') else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" | "filtered out" => self.skipped += number,
                _ => {}
            }
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { binaries, passed, failed, skipped } = self;
        let run = passed + failed;
        write!(f, "Summary {run} tests run in {binaries} binaries: {passed} passed, {failed} failed, {skipped} skipped")
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;

    /// Guards that a failure in an early binary is still in the closing line, which the last binary's own line hides.
    #[test]
    fn sums_over_binaries() {
        let mut tally = Tally::default();
        for line in [
            "running 4 tests",
            "test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "test graph::tests::works ... ok",
            "test result: ok. 7 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 1.20s",
            "test result: nonsense",
        ] {
            tally.take(line);
        }
        assert_eq!(tally, Tally { binaries: 2, passed: 10, failed: 1, skipped: 3 });
        assert_eq!(tally.to_string(), "Summary 11 tests run in 2 binaries: 10 passed, 1 failed, 3 skipped");
    }
}
