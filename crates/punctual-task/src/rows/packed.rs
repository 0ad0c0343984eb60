//! Rows that hold many tasks: what a worker claimed at once, what ended at once. One row a batch instead of one a task.
//!
//! Entries have a fixed width and are little-endian, so that a row's length says how many it holds.

use crate::rows::Damage;
use bytes::{Buf, BufMut};

/// The task was enqueued with a unique key.
pub const FLAG_KEY: u8 = 1;

/// A running task, with all that its end needs: finishing reads no task row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The task.
    pub task: i64,
    /// The schedule whose occurrence it is; 0 for none.
    pub gate: i64,
    /// Its pair of queue and method.
    pub lane: u32,
    /// Its level.
    pub level: u8,
    /// [`FLAG_KEY`], or 0.
    pub flags: u8,
    /// This attempt's number.
    pub n: u32,
    /// The attempts of the retry policy that are spent.
    pub spent: u32,
    /// How many workers were lost over it, in a row.
    pub losses: u32,
    /// When it was due, in microseconds.
    pub due: i64,
}

/// The length of one [`Held`].
pub const HELD_BYTES: usize = 8 + 8 + 4 + 1 + 1 + 4 + 4 + 4 + 8;

/// A row of running tasks.
pub fn pack_held<'a>(entries: impl ExactSizeIterator<Item = &'a Held>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(entries.len() * HELD_BYTES);
    for held in entries {
        bytes.put_i64_le(held.task);
        bytes.put_i64_le(held.gate);
        bytes.put_u32_le(held.lane);
        bytes.put_u8(held.level);
        bytes.put_u8(held.flags);
        bytes.put_u32_le(held.n);
        bytes.put_u32_le(held.spent);
        bytes.put_u32_le(held.losses);
        bytes.put_i64_le(held.due);
    }
    bytes
}

/// What [`pack_held`] was given.
///
/// # Errors
/// Where the row is torn.
pub fn unpack_held(mut bytes: &[u8]) -> Result<Vec<Held>, Damage> {
    if !bytes.len().is_multiple_of(HELD_BYTES) {
        return Err(Damage(format!("a claim of {} bytes", bytes.len())));
    }
    let mut entries = Vec::with_capacity(bytes.len() / HELD_BYTES);
    while bytes.remaining() >= HELD_BYTES {
        entries.push(Held {
            task: bytes.get_i64_le(),
            gate: bytes.get_i64_le(),
            lane: bytes.get_u32_le(),
            level: bytes.get_u8(),
            flags: bytes.get_u8(),
            n: bytes.get_u32_le(),
            spent: bytes.get_u32_le(),
            losses: bytes.get_u32_le(),
            due: bytes.get_i64_le(),
        });
    }
    Ok(entries)
}

/// A task that has ended, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    /// When, in microseconds.
    pub at: i64,
    /// The task.
    pub task: i64,
}

/// The length of one [`End`].
pub const END_BYTES: usize = 8 + 8;

/// A row of ends.
pub fn pack_ends(entries: &[End]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(entries.len() * END_BYTES);
    for end in entries {
        bytes.put_i64_le(end.at);
        bytes.put_i64_le(end.task);
    }
    bytes
}

/// What [`pack_ends`] was given.
///
/// # Errors
/// Where the row is torn.
pub fn unpack_ends(mut bytes: &[u8]) -> Result<Vec<End>, Damage> {
    if !bytes.len().is_multiple_of(END_BYTES) {
        return Err(Damage(format!("a row of ends of {} bytes", bytes.len())));
    }
    let mut entries = Vec::with_capacity(bytes.len() / END_BYTES);
    while bytes.remaining() >= END_BYTES {
        entries.push(End { at: bytes.get_i64_le(), task: bytes.get_i64_le() });
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is packed comes back the same, and a torn row is damage.
    #[test]
    fn entries_round_trip() {
        let held = Held {
            task: i64::MAX,
            gate: 9,
            lane: 7,
            level: 3,
            flags: FLAG_KEY,
            n: u32::MAX,
            spent: 2,
            losses: 1,
            due: -5,
        };
        let row = vec![held; 90];
        let bytes = pack_held(row.iter());
        assert_eq!(bytes.len(), 90 * HELD_BYTES);
        assert_eq!(unpack_held(&bytes).expect("whole"), row);
        assert!(unpack_held(bytes.get(1..).expect("not empty")).is_err());
        let ends = [End { at: 1, task: 2 }, End { at: i64::MIN, task: i64::MAX }];
        assert_eq!(unpack_ends(&pack_ends(&ends)).expect("whole"), ends);
        assert!(unpack_ends(&[0; 15]).is_err());
    }
}
