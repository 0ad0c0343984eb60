//! Statements with their values written in: many of them travel together and cost one round trip.
//!
//! A statement's text is a constant of this crate. Its values are numbers, or bytes in hexadecimal, so that no value can be
//! read as SQL whatever the server's mode or character set.

use std::io::Write as _;

/// A value of a statement.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    Null,
    Int(i64),
    Bytes(&'a [u8]),
    /// A list for `IN (?)`. An empty one matches nothing.
    Ints(&'a [i64]),
    /// A list of names for `IN (?)`.
    Names(&'a [String]),
    /// Rows of numbers for a `JSON_TABLE(?, ..)`.
    Rows(&'a [[i64; 3]]),
    /// The transaction's time.
    Now,
    /// So many microseconds after it.
    After(i64),
    /// This time, or the transaction's if that is later.
    NotBefore(i64),
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Value::Int(value)
    }
}

impl From<u32> for Value<'_> {
    fn from(value: u32) -> Self {
        Value::Int(i64::from(value))
    }
}

impl From<i16> for Value<'_> {
    fn from(value: i16) -> Self {
        Value::Int(i64::from(value))
    }
}

impl From<u8> for Value<'_> {
    fn from(value: u8) -> Self {
        Value::Int(i64::from(value))
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Value::Int(i64::from(value))
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Value::Bytes(value.as_bytes())
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(value: &'a [u8]) -> Self {
        Value::Bytes(value)
    }
}

impl<'a> From<&'a [i64]> for Value<'a> {
    fn from(value: &'a [i64]) -> Self {
        Value::Ints(value)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

/// How many rows one multi-row insert has at most: beyond some hundreds more of them save nothing.
const ROWS_MAX: usize = 1_000;
/// How long a multi-row insert grows before the next one begins, in bytes: larger ones are slower than their parts.
const INSERT_BYTES_MAX: usize = 1 << 20;

/// How many branches are joined at most: more of them take the parser and the optimiser longer than two statements.
const BRANCHES_MAX: usize = 200;

/// Statements in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Script {
    text: Vec<u8>,
    /// Where each statement ends.
    ends: Vec<usize>,
}

impl Script {
    /// How many numbers a list has at most. MariaDB makes a list of a thousand into a table and joins with that, which may
    /// read the whole of an index.
    pub(crate) const LIST_MAX: usize = 500;

    pub(crate) fn new() -> Self {
        Script::default()
    }

    /// A script of one statement.
    pub(crate) fn of(text: &'static str, values: &[Value<'_>]) -> Self {
        let mut script = Script::new();
        script.add(text, values);
        script
    }

    /// Adds a statement; each `?` of the text is the next value.
    pub(crate) fn add(&mut self, text: &'static str, values: &[Value<'_>]) {
        self.write(text, values);
        self.end(text);
    }

    /// Adds a statement whose one value is a list, as often as the list needs it. Gives how many statements they are.
    pub(crate) fn parts(&mut self, text: &'static str, ids: &[i64]) -> usize {
        let parts = ids.chunks(Self::LIST_MAX);
        let count = parts.len();
        for part in parts {
            self.add(text, &[part.into()]);
        }
        count
    }

    /// Adds several statements of one text, joined by `UNION ALL`, in parts that a parser handles well.
    pub(crate) fn union<'a, const N: usize>(
        &mut self,
        text: &'static str,
        branches: impl IntoIterator<Item = [Value<'a>; N]>,
    ) -> usize {
        let (mut in_part, mut parts) = (0, 0);
        for values in branches {
            if in_part == BRANCHES_MAX {
                self.end(text);
                in_part = 0;
            }
            if in_part > 0 {
                self.text.extend_from_slice(b" UNION ALL ");
            } else {
                parts += 1;
            }
            self.write(text, &values);
            in_part += 1;
        }
        if in_part > 0 {
            self.end(text);
        }
        parts
    }

    /// Adds a statement for rows that meet one of many conditions: `head` up to where these stand, the conditions joined by `OR`. A
    /// tenth of the work of a union, where all are ranges of one index. Gives how many statements they are.
    pub(crate) fn either<'a, const N: usize>(
        &mut self,
        head: &'static str,
        condition: &'static str,
        conditions: impl IntoIterator<Item = [Value<'a>; N]>,
    ) -> usize {
        let (mut in_part, mut parts) = (0, 0);
        for values in conditions {
            if in_part == BRANCHES_MAX {
                self.text.push(b')');
                self.end(head);
                in_part = 0;
            }
            if in_part > 0 {
                self.text.extend_from_slice(b" OR ");
            } else {
                parts += 1;
                self.text.extend_from_slice(head.as_bytes());
                self.text.push(b'(');
            }
            self.write(condition, &values);
            in_part += 1;
        }
        if in_part > 0 {
            self.text.push(b')');
            self.end(head);
        }
        parts
    }

    /// Adds multi-row inserts: `head` up to `VALUES `, the rows, and `tail`. Gives how many statements they are.
    pub(crate) fn insert<'a, const N: usize>(
        &mut self,
        head: &'static str,
        rows: impl IntoIterator<Item = [Value<'a>; N]>,
        tail: &'static str,
    ) -> usize {
        let (mut in_statement, mut begun, mut statements) = (0, self.text.len(), 0);
        for row in rows {
            if in_statement == ROWS_MAX || (in_statement > 0 && self.text.len() - begun > INSERT_BYTES_MAX) {
                self.text.extend_from_slice(tail.as_bytes());
                self.end(head);
                in_statement = 0;
            }
            if in_statement == 0 {
                begun = self.text.len();
                statements += 1;
                self.text.extend_from_slice(head.as_bytes());
                self.text.push(b'(');
            } else {
                self.text.extend_from_slice(b",(");
            }
            for (at, value) in row.iter().enumerate() {
                if at > 0 {
                    self.text.push(b',');
                }
                self.value(value);
            }
            self.text.push(b')');
            in_statement += 1;
        }
        if in_statement > 0 {
            self.text.extend_from_slice(tail.as_bytes());
            self.end(head);
        }
        statements
    }

    /// Adds the statements of another script.
    pub(crate) fn append(&mut self, other: &Script) {
        let before = self.text.len();
        self.text.extend_from_slice(&other.text);
        self.ends.extend(other.ends.iter().map(|end| before + end));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(crate) fn statements(&self) -> usize {
        self.ends.len()
    }

    /// The statements in packets of at most `bytes_max`, each with how many it has; a longer statement has one to itself.
    pub(crate) fn packets(&self, bytes_max: usize) -> Vec<(Vec<u8>, usize)> {
        let mut packets: Vec<(Vec<u8>, usize)> = Vec::new();
        let mut begin = 0;
        for end in &self.ends {
            let statement = self.text.get(begin..*end).unwrap_or_default();
            begin = *end;
            match packets.last_mut().filter(|(packet, _)| packet.len() + 1 + statement.len() <= bytes_max) {
                Some((packet, count)) => {
                    packet.push(b';');
                    packet.extend_from_slice(statement);
                    *count += 1;
                }
                None => packets.push((statement.to_vec(), 1)),
            }
        }
        packets
    }

    fn end(&mut self, _text: &'static str) {
        #[cfg(test)]
        {
            let begin = self.ends.last().copied().unwrap_or_default();
            crate::plans::seen(_text, self.text.get(begin..).unwrap_or_default());
        }
        self.ends.push(self.text.len());
    }

    fn write(&mut self, text: &'static str, values: &[Value<'_>]) {
        let mut values = values.iter();
        for (at, part) in text.split('?').enumerate() {
            if at > 0 {
                // A statement with too few values is refused by the server, as a comparison with NULL matches nothing.
                self.value(values.next().unwrap_or(&Value::Null));
            }
            self.text.extend_from_slice(part.as_bytes());
        }
    }

    fn value(&mut self, value: &Value<'_>) {
        match value {
            Value::Null => self.text.extend_from_slice(b"NULL"),
            Value::Int(number) => self.number(*number),
            Value::Bytes(bytes) => {
                const DIGITS: [u8; 16] = *b"0123456789abcdef";
                let digit = |at: u8| DIGITS.get(usize::from(at)).copied().unwrap_or(b'0');
                self.text.reserve(bytes.len() * 2 + 3);
                self.text.extend_from_slice(b"x'");
                self.text.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
                self.text.push(b'\'');
            }
            Value::Now => self.text.extend_from_slice(b"@now"),
            Value::After(micros) => {
                self.text.extend_from_slice(b"@now+");
                self.number(*micros);
            }
            Value::NotBefore(micros) => {
                self.text.extend_from_slice(b"GREATEST(@now,");
                self.number(*micros);
                self.text.push(b')');
            }
            Value::Names([]) => self.text.extend_from_slice(b"NULL"),
            Value::Names(names) => {
                for (at, name) in names.iter().enumerate() {
                    if at > 0 {
                        self.text.push(b',');
                    }
                    self.value(&Value::Bytes(name.as_bytes()));
                }
            }
            Value::Ints([]) => self.text.extend_from_slice(b"NULL"),
            Value::Ints(numbers) => self.numbers(numbers),
            Value::Rows(rows) => {
                self.text.extend_from_slice(b"'[");
                for (at, row) in rows.iter().enumerate() {
                    self.text.extend_from_slice(if at > 0 { b",[" } else { b"[" });
                    self.numbers(row);
                    self.text.push(b']');
                }
                self.text.extend_from_slice(b"]'");
            }
        }
    }

    fn numbers(&mut self, numbers: &[i64]) {
        for (at, number) in numbers.iter().enumerate() {
            if at > 0 {
                self.text.push(b',');
            }
            self.number(*number);
        }
    }

    fn number(&mut self, number: i64) {
        // Writing into a `Vec` does not fail.
        let _ = write!(self.text, "{number}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(script: &Script) -> String {
        let packets = script.packets(usize::MAX);
        packets.into_iter().map(|(packet, _)| String::from_utf8(packet).expect("text")).collect()
    }

    /// Values cannot end the literal that they stand in: bytes are hexadecimal whatever they hold.
    #[test]
    fn values_are_literals() {
        let mut script = Script::new();
        script.add("SELECT ?, ?, ?, ?", &["' OR 1 --".into(), Value::Null, i64::MIN.into(), true.into()]);
        script.add("SELECT 1 WHERE 1 IN (?)", &[[1_i64, -2].as_slice().into()]);
        script.add("SELECT 1 WHERE 1 IN (?)", &[Value::Ints(&[])]);
        script.add("SELECT JSON_TABLE(?, 1)", &[Value::Rows(&[[1, -2, 3], [4, 5, 6]])]);
        assert_eq!(
            text(&script),
            "SELECT x'27204f522031202d2d', NULL, -9223372036854775808, 1;SELECT 1 WHERE 1 IN (1,-2);\
             SELECT 1 WHERE 1 IN (NULL);SELECT JSON_TABLE('[[1,-2,3],[4,5,6]]', 1)"
        );
    }

    /// Rows beyond the limit of one statement go into the next, and packets are cut between statements only.
    #[test]
    fn long_scripts_are_cut() {
        let mut script = Script::new();
        let rows = (0..2_500_i64).map(|at| [at.into(), "a".into()]);
        assert_eq!(script.insert("INSERT INTO t VALUES ", rows, " END"), 3);
        assert_eq!(script.statements(), 3);
        let packets = script.packets(10);
        assert_eq!(packets.len(), 3);
        assert!(packets.iter().all(|(packet, count)| *count == 1 && packet.ends_with(b" END")));
        let branches = (0..450_i64).map(|at| [at.into()]);
        assert_eq!(Script::new().union("SELECT ?", branches.clone()), 3);
        let mut script = Script::new();
        assert_eq!(script.either("SELECT 1 WHERE ", "a = ?", branches), 3);
        assert!(script.packets(10).iter().all(|(packet, count)| *count == 1 && packet.ends_with(b")")));
        let mut script = Script::new();
        script.either(
            "SELECT 1 WHERE b AND ",
            "(c = ? AND d > ?)",
            [[1_i64, 2].map(Value::Int), [3, 4].map(Value::Int)],
        );
        assert_eq!(text(&script), "SELECT 1 WHERE b AND ((c = 1 AND d > 2) OR (c = 3 AND d > 4))");
    }
}
