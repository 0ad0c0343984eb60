//! Tables: aligned under headings on a terminal; elsewhere a line for each row, its cells separated by tabs, without
//! headings, so that `cut` and `awk` read it.

use comfy_table::{Attribute, Cell, Color, ContentArrangement, presets};

/// The longest cell on a terminal: a long error must not tear the columns apart. Programs get all of it, and so does who
/// looks at the one thing.
const CELL_CHARS_MAX: usize = 60;

/// How a cell is shown to people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shade {
    /// As it is.
    Plain,
    /// It went well.
    Good,
    /// It went wrong.
    Bad,
    /// Somebody should know.
    Odd,
    /// It is under way.
    Busy,
}

impl Shade {
    /// The shade of a state's name, of tasks and schedules alike.
    pub(crate) fn of_state(state: &str) -> Self {
        match state {
            "succeeded" | "serving" | "created" | "updated" => Shade::Good,
            "failed" | "refused" | "dead" | "lost" | "timed_out" | "panicked" => Shade::Bad,
            "paused" | "halted" | "cancelled" | "expired" | "parked" => Shade::Odd,
            "running" => Shade::Busy,
            _ => Shade::Plain,
        }
    }

    const fn colour(self) -> Option<Color> {
        match self {
            Shade::Plain => None,
            Shade::Good => Some(Color::Green),
            Shade::Bad => Some(Color::Red),
            Shade::Odd => Some(Color::Yellow),
            Shade::Busy => Some(Color::Cyan),
        }
    }
}

/// Rows under headings.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<(String, Shade)>>,
}

impl Table {
    /// An empty table with these headings.
    pub(crate) fn new(headings: &[&'static str]) -> Self {
        Table { headings: headings.to_vec(), rows: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn row<const N: usize>(&mut self, cells: [(String, Shade); N]) {
        self.rows.push(cells.into());
    }

    /// The text, without a last line end.
    pub(crate) fn render(&self, terminal: bool, colour: bool) -> String {
        if !terminal {
            let line =
                |row: &Vec<(String, Shade)>| row.iter().map(|(text, _)| flat(text)).collect::<Vec<_>>().join("\t");
            return self.rows.iter().map(line).collect::<Vec<_>>().join("\n");
        }
        let mut table = comfy_table::Table::new();
        // Cells are not broken to fit: what a terminal wraps, it can select and copy as one.
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        if !colour {
            table.force_no_tty();
        }
        let heading = |text: &&'static str| {
            let cell = Cell::new(text);
            if colour { cell.add_attribute(Attribute::Bold) } else { cell }
        };
        table.set_header(self.headings.iter().map(heading));
        for row in &self.rows {
            table.add_row(row.iter().map(|(text, shade)| {
                let cell = Cell::new(cut(&flat(text)));
                match shade.colour() {
                    Some(shade) if colour => cell.fg(shade),
                    _ => cell,
                }
            }));
        }
        table.trim_fmt()
    }
}

/// A text that breaks neither a row nor a terminal: stored names and errors may hold anything.
fn flat(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(CELL_CHARS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["ID", "STATE"]);
        table.row([("A\tB\u{1b}[2J".to_owned(), Shade::Plain), ("failed".to_owned(), Shade::Bad)]);
        table.row([("C".to_owned(), Shade::Plain), (String::new(), Shade::Plain)]);
        table
    }

    /// Programs get one line a row with as many tabs as columns less one, whatever the cells hold.
    #[test]
    fn programs_get_plain_lines() {
        assert_eq!(table().render(false, false), "A B [2J\tfailed\nC\t");
        assert_eq!(Table::new(&["ID"]).render(false, false), "");
    }

    /// A long cell is cut where people look, and whole where programs do.
    #[test]
    fn long_cells_are_cut_for_people() {
        let long = "\u{e9}".repeat(CELL_CHARS_MAX + 1);
        let mut table = Table::new(&["ERROR"]);
        table.row([(long.clone(), Shade::Plain)]);
        assert_eq!(table.render(false, false), long);
        assert!(table.render(true, false).ends_with(&format!("{}…", "\u{e9}".repeat(CELL_CHARS_MAX))));
    }

    /// People get headings, and colours only if they want them.
    #[test]
    fn people_get_headings() {
        let plain = table().render(true, false);
        assert!(plain.contains("ID") && plain.contains("STATE") && !plain.contains('\u{1b}'), "{plain:?}");
    }
}
