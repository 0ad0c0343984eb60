//! A table, for a terminal or in Markdown.

/// Cells that a bar has at most.
const BAR_CELLS: f64 = 16.0;

/// Rows under a head. The first column is words, the others are numbers or bars.
#[derive(Debug, Clone)]
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new<const N: usize>(head: [&str; N]) -> Self {
        Table { head: head.map(str::to_owned).to_vec(), rows: Vec::new() }
    }

    /// Adds a column to the head.
    pub fn column(&mut self, name: &str) {
        self.head.push(name.to_owned());
    }

    /// Adds a row; what it lacks stays empty.
    pub fn row(&mut self, mut cells: Vec<String>) {
        cells.resize(self.head.len(), String::new());
        self.rows.push(cells);
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// In columns of equal width, numbers to the right.
    pub fn to_text(&self) -> String {
        let all = || std::iter::once(&self.head).chain(&self.rows);
        let width =
            |column: usize| all().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
                let left = column == 0 || cell.starts_with(is_bar);
                if left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            let cells: Vec<String> = cells.collect();
            format!("  {}\n", cells.join("  ").trim_end())
        };
        all().map(line).collect()
    }

    /// As GitHub reads it.
    pub fn to_markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule: Vec<String> = self.head.iter().map(|_| "---".to_owned()).collect();
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        line(&self.head) + &line(&rule) + &rows
    }
}

fn is_bar(cell: char) -> bool {
    ('█'..='▏').contains(&cell)
}

/// A bar for `value`, full at `most`, in eighths of a cell. What is above nothing shows at least as the thinnest one.
pub fn bar(value: f64, most: f64) -> String {
    let share = if most > 0.0 && value > 0.0 { (value / most).min(1.0) } else { return String::new() };
    let eighths = (share * BAR_CELLS * 8.0).round().max(1.0);
    let (full, rest) = ((eighths / 8.0).floor(), eighths % 8.0);
    let mut bar = String::new();
    let mut left = full;
    while left >= 1.0 {
        bar.push('█');
        left -= 1.0;
    }
    const PARTS: [(f64, char); 7] =
        [(1.0, '▏'), (2.0, '▎'), (3.0, '▍'), (4.0, '▌'), (5.0, '▋'), (6.0, '▊'), (7.0, '▉')];
    bar.extend(PARTS.iter().find(|(eighths, _)| (rest - eighths).abs() < 0.5).map(|(_, part)| part));
    bar
}

/// A whole number with commas: 1,234,567.
pub fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        let left = digits.len() - index;
        if index > 0 && left.is_multiple_of(3) && !out.ends_with('-') {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number with so many decimals, or a dash where there is none.
pub fn decimals(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards the bar's ends and its eighths: the largest is full, nothing is empty, little is still seen.
    #[test]
    fn bars_are_in_proportion() {
        assert_eq!(bar(10.0, 10.0), "████████████████");
        assert_eq!(bar(5.0, 10.0), "████████");
        assert_eq!(bar(1.0 / 32.0, 1.0), "▌");
        assert_eq!(bar(1.0, 1e9), "▏");
        assert_eq!(bar(0.0, 10.0), "");
        assert_eq!(bar(3.0, 0.0), "");
        assert_eq!(bar(20.0, 10.0), bar(10.0, 10.0));
        assert_eq!(bar(f64::NAN, 10.0), "");
    }

    /// Guards that large numbers can be read.
    #[test]
    fn commas_stand_in_threes() {
        for (value, text) in
            [(0.0, "0"), (999.6, "1,000"), (12_345.0, "12,345"), (1_234_567.4, "1,234,567"), (-1_000.0, "-1,000")]
        {
            assert_eq!(thousands(value), text);
        }
    }

    /// Guards that columns line up, with numbers to the right, and that Markdown has as many cells in each row.
    #[test]
    fn both_forms_hold_the_same_cells() {
        let mut table = Table::new(["", "op/s", "bar"]);
        table.row(vec!["punctual".to_owned(), "1,000".to_owned(), "██".to_owned()]);
        table.row(vec!["floor".to_owned(), "20".to_owned()]);
        assert_eq!(table.to_text(), "             op/s  bar\n  punctual  1,000  ██\n  floor        20\n");
        assert_eq!(
            table.to_markdown(),
            "|  | op/s | bar |\n| --- | --- | --- |\n| punctual | 1,000 | ██ |\n| floor | 20 |  |\n"
        );
    }

    /// Guards that what was not measured is not shown as zero.
    #[test]
    fn nothing_is_a_dash() {
        assert_eq!((decimals(None, 3), decimals(Some(0.0), 3)), ("-".to_owned(), "0.000".to_owned()));
    }
}
