//! What commands print: one JSON document, or text that is a table on a terminal and plain lines anywhere else.
//!
//! A reader that closes the pipe (`| head`) ends the command quietly: what it did not want to read is no failure of ours.

mod table;

pub(crate) use table::{Shade, Table};

use crate::exit::{Exit, Failure};
use serde::Serialize;
use std::io::{self, BufWriter, IsTerminal, Write};

/// Where a command's result goes.
pub(crate) struct Output {
    out: BufWriter<Box<dyn Write>>,
    json: bool,
    terminal: bool,
    colour: bool,
}

impl Output {
    /// Standard output. Colours need a terminal, and that nobody set `NO_COLOR` (<https://no-color.org>).
    pub(crate) fn stdout(json: bool) -> Self {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Output { out: BufWriter::new(Box::new(stdout)), json, terminal, colour: terminal && !plain }
    }

    /// Whether the user asked for JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Whether a person looks at it.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// One line of text, or several. What was stored or sent by others may hold orders to a terminal: it gets none.
    pub(crate) fn line(&mut self, text: impl AsRef<str>) -> Result<(), Failure> {
        let text = text.as_ref();
        if self.terminal { self.raw(&harmless(text)) } else { self.raw(text) }
    }

    fn raw(&mut self, text: &str) -> Result<(), Failure> {
        self.out.write_all(text.as_bytes()).and_then(|()| self.out.write_all(b"\n")).map_err(unwritten)
    }

    /// One JSON document: indented for people, on one line for programs.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let text = if self.terminal { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
        let text = text.map_err(|error| Failure::failed(format!("the result cannot be written as JSON: {error}")))?;
        self.line(text)
    }

    /// A list: the values as JSON, or a table of them.
    pub(crate) fn list<T: Serialize>(
        &mut self,
        values: &[T],
        table: impl FnOnce(&[T]) -> Table,
    ) -> Result<(), Failure> {
        if self.json {
            return self.json(&values);
        }
        self.table(table(values))
    }

    /// A table, where a list is part of something larger.
    pub(crate) fn table(&mut self, table: Table) -> Result<(), Failure> {
        let text = table.render(self.terminal, self.colour);
        if text.is_empty() { Ok(()) } else { self.raw(&text) }
    }

    /// Everything so far reaches the reader now.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(unwritten)
    }
}

/// A text without control characters but those that shape lines.
fn harmless(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && !matches!(c, '\n' | '\t') { '\u{fffd}' } else { c }).collect()
}

/// The code of a failure that is none: the reader went away.
const READER_GONE: &str = "reader_gone";

fn unwritten(error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Failure::new(Exit::Failed, READER_GONE, "the reader of the output went away");
    }
    Failure::failed(format!("cannot write to standard output: {error}"))
}

/// Whether a command ended only because nobody reads on.
pub(crate) fn is_reader_gone(failure: &Failure) -> bool {
    failure.code() == READER_GONE
}

/// One line to standard error, where a failure to write has nobody left to be told to.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a program wrote, or a name that somebody chose, cannot steer the terminal of who looks at it.
    #[test]
    fn terminals_are_not_steered() {
        assert_eq!(harmless("a\u{1b}[2Jb\r\u{7}\tc\nd"), "a\u{fffd}[2Jb\u{fffd}\u{fffd}\tc\nd");
    }
}
