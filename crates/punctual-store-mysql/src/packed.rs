//! Rows that hold many tasks: what a worker claimed at once, what ended at once. One row a batch instead of one a task.
//!
//! Entries have a fixed width and are little-endian, so that a row's length says how many it holds.

use crate::errors::{Done, Fault};
use bytes::{Buf, BufMut};

/// How many tasks one row of claims holds: such a row stays within a page of
/// InnoDB, which puts longer ones elsewhere.
pub(crate) const CLAIM_TASKS_MAX: usize = 128;
/// How many tasks one row of ends holds: two pages, written once and read once by retention.
pub(crate) const ENDED_TASKS_MAX: usize = 500;

/// The task was enqueued with a unique key.
pub(crate) const FLAG_KEY: u8 = 1;

/// A running task, with all that its end needs: finishing reads no task row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) task: i64,
    /// The schedule whose occurrence it is; 0 for none.
    pub(crate) gate: i64,
    pub(crate) lane: u32,
    pub(crate) level: u8,
    pub(crate) flags: u8,
    /// This attempt's number.
    pub(crate) n: u32,
    pub(crate) spent: u32,
    pub(crate) losses: u32,
    pub(crate) due: i64,
}

pub(crate) const HELD_BYTES: usize = 8 + 8 + 4 + 1 + 1 + 4 + 4 + 4 + 8;

pub(crate) fn pack_held<'a>(entries: impl ExactSizeIterator<Item = &'a Held>) -> Vec<u8> {
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

pub(crate) fn unpack_held(mut bytes: &[u8]) -> Done<Vec<Held>> {
    if !bytes.len().is_multiple_of(HELD_BYTES) {
        return Err(Fault::corrupt(format!("a claim of {} bytes", bytes.len())));
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
pub(crate) struct End {
    pub(crate) at: i64,
    pub(crate) task: i64,
}

const END_BYTES: usize = 8 + 8;

pub(crate) fn pack_ends(entries: &[End]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(entries.len() * END_BYTES);
    for end in entries {
        bytes.put_i64_le(end.at);
        bytes.put_i64_le(end.task);
    }
    bytes
}

pub(crate) fn unpack_ends(mut bytes: &[u8]) -> Done<Vec<End>> {
    if !bytes.len().is_multiple_of(END_BYTES) {
        return Err(Fault::corrupt(format!("a row of ends of {} bytes", bytes.len())));
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

    /// What is packed comes back the same, a full row stays within its page, and a torn row is damage.
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
        let row = vec![held; CLAIM_TASKS_MAX];
        let bytes = pack_held(row.iter());
        assert!(bytes.len() < 8000, "{}", bytes.len());
        assert_eq!(unpack_held(&bytes).expect("whole"), row);
        assert!(unpack_held(bytes.get(1..).expect("not empty")).is_err());
        let ends = [End { at: 1, task: 2 }, End { at: i64::MIN, task: i64::MAX }];
        assert_eq!(unpack_ends(&pack_ends(&ends)).expect("whole"), ends);
        assert!(unpack_ends(&[0; 15]).is_err());
    }
}
