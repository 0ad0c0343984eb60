//! Ids: 64-bit numbers drawn in blocks before the write, so that a write whose reply was lost can be read again by id.
//!
//! People see a task's id in Crockford's base 32 (no I, L, O, U; <https://www.crockford.com/base32.html>): 13 characters at
//! most, case-insensitive.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);
    };
}

number_id! {
    /// A task. Positive; ids of one engine grow with time, ids of different engines interleave in blocks.
    TaskId
}
number_id! {
    /// A schedule.
    ScheduleId
}
number_id! {
    /// A worker's registration: the fence. A process that registers again gets a new one.
    WorkerId
}

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.unsigned_abs();
        let mut text = [b'0'; 13];
        let mut at = text.len();
        loop {
            at -= 1;
            let digit = usize::try_from(rest % 32).unwrap_or(0);
            if let (Some(place), Some(letter)) = (text.get_mut(at), ALPHABET.get(digit)) {
                *place = *letter;
            }
            rest /= 32;
            if rest == 0 {
                break;
            }
        }
        f.write_str(std::str::from_utf8(text.get(at..).unwrap_or_default()).unwrap_or_default())
    }
}

/// The text is not a task id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a task id: expected 1 to 13 letters and digits as `punctual tasks list` prints them")]
pub struct BadTaskId(String);

impl FromStr for TaskId {
    type Err = BadTaskId;

    fn from_str(text: &str) -> Result<Self, BadTaskId> {
        let bad = || BadTaskId(text.to_owned());
        if text.is_empty() || text.len() > 13 {
            return Err(bad());
        }
        let mut number: i64 = 0;
        for byte in text.bytes() {
            let letter = match byte.to_ascii_uppercase() {
                b'O' => b'0',
                b'I' | b'L' => b'1',
                other => other,
            };
            let digit = ALPHABET.iter().position(|known| *known == letter).ok_or_else(bad)?;
            let digit = i64::try_from(digit).map_err(|_| bad())?;
            number = number.checked_mul(32).and_then(|n| n.checked_add(digit)).ok_or_else(bad)?;
        }
        Ok(TaskId(number))
    }
}

/// A run of ids that one engine may give out, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdBlock {
    next: i64,
    end: i64,
}

impl IdBlock {
    /// The ids `first .. first + count`.
    #[must_use]
    pub const fn new(first: i64, count: u32) -> Self {
        IdBlock { next: first, end: first.saturating_add(count as i64) }
    }

    /// How many are left.
    #[must_use]
    pub fn left(&self) -> u32 {
        u32::try_from(self.end - self.next).unwrap_or(0)
    }

    /// The next id, or `None` when the block is used up.
    pub fn take(&mut self) -> Option<TaskId> {
        (self.next < self.end).then(|| {
            let id = TaskId(self.next);
            self.next += 1;
            id
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text that people copy names the same task again, in either case and with look-alike letters.
    #[test]
    fn text_form_round_trips() {
        for number in [0, 1, 31, 32, 1_000_000, i64::MAX] {
            let text = TaskId(number).to_string();
            assert_eq!(text.parse(), Ok(TaskId(number)), "{text}");
            assert_eq!(text.to_lowercase().parse(), Ok(TaskId(number)));
        }
        assert_eq!("1O".parse(), Ok(TaskId(32)));
        for bad in ["", "U", "ZZZZZZZZZZZZZ", "0123456789ABCD", "a-b"] {
            assert!(bad.parse::<TaskId>().is_err(), "{bad}");
        }
    }

    /// A block gives each of its ids once and then says that it is empty.
    #[test]
    fn a_block_ends() {
        let mut block = IdBlock::new(5, 2);
        assert_eq!(block.left(), 2);
        assert_eq!([block.take(), block.take(), block.take()], [Some(TaskId(5)), Some(TaskId(6)), None]);
    }
}
