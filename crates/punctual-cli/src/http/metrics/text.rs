//! The text format: OpenMetrics 1.0, which Prometheus reads.

use std::fmt::Write;

/// What a family is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It only grows; its samples end in `_total`.
    Counter,
    /// It is what it is now.
    Gauge,
}

/// A text in the making: families, each followed by its samples.
#[derive(Debug, Default)]
pub(super) struct Text {
    out: String,
    name: String,
}

impl Text {
    /// Begins a family.
    pub(super) fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let word = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        // Writing to a String cannot fail.
        let _ = write!(self.out, "# HELP {name} {help}.\n# TYPE {name} {word}\n");
        name.clone_into(&mut self.name);
        if kind == Kind::Counter {
            self.name.push_str("_total");
        }
    }

    /// A sample that is a whole number.
    pub(super) fn count(&mut self, labels: &[(&str, &str)], value: u64) {
        self.sample(labels);
        let _ = writeln!(self.out, " {value}");
    }

    /// A sample in seconds, or of another unit with a fraction.
    pub(super) fn number(&mut self, labels: &[(&str, &str)], value: f64) {
        self.sample(labels);
        let _ = writeln!(self.out, " {value}");
    }

    fn sample(&mut self, labels: &[(&str, &str)]) {
        self.out.push_str(&self.name);
        for (at, (name, value)) in labels.iter().enumerate() {
            let _ = write!(self.out, "{}{name}=\"", if at == 0 { '{' } else { ',' });
            for letter in value.chars() {
                match letter {
                    '\\' => self.out.push_str("\\\\"),
                    '"' => self.out.push_str("\\\""),
                    '\n' => self.out.push_str("\\n"),
                    letter => self.out.push(letter),
                }
            }
            self.out.push('"');
        }
        if !labels.is_empty() {
            self.out.push('}');
        }
    }

    /// All of it, followed by another text, which has the mark of the end.
    pub(super) fn finish(mut self, rest: &str) -> String {
        self.out.push_str(rest);
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name that somebody chose cannot end its label, or begin another sample.
    #[test]
    fn labels_are_escaped() {
        let mut text = Text::default();
        text.family("a", Kind::Counter, "Help");
        text.count(&[("q", "x\"} 1\nb\\"), ("r", "é")], 2);
        text.family("b", Kind::Gauge, "More");
        text.number(&[], 0.5);
        let told = "# HELP a Help.\n# TYPE a counter\na_total{q=\"x\\\"} 1\\nb\\\\\",r=\"é\"} 2\n\
                    # HELP b More.\n# TYPE b gauge\nb 0.5\n# EOF\n";
        assert_eq!(text.finish("# EOF\n"), told);
    }
}
