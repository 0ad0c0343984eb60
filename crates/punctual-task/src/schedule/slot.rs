//! A slot and its key: one nominal instant of a rule, and the number by which it is known for ever.

use punctual_clock::Timestamp;
use serde::{Deserialize, Serialize};

/// What a slot's key counts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyClass {
    /// UTC microseconds: interval rules and elapsed cron rules. The instant follows from the key alone.
    Utc,
    /// Wall clock microseconds: fixed cron rules and calendar rules. The instant follows from the key and the zone's
    /// rules, so that a change of these moves the slot and cannot double it.
    Local,
}

/// The identity of a slot inside one era of a schedule: twice the microseconds of its nominal time, plus the fold.
///
/// The microseconds are those of UTC or of the wall clock read as if it were UTC ([`KeyClass`]). The fold bit is 1 for
/// one thing only: the second copy of a wall time under [`Fold::Both`](super::Fold::Both), where one wall time names
/// two slots. Where a wall time names one slot its key is the same whether or not the clocks go back over it.
///
/// Keys are identities. The order of slots is that of their instants, which differs in and near gaps and folds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SlotKey(i64);

impl SlotKey {
    /// The key that a store holds as `raw`.
    #[must_use]
    pub const fn from_raw(raw: i64) -> Self {
        SlotKey(raw)
    }

    /// The number that a store holds.
    #[must_use]
    pub const fn as_raw(self) -> i64 {
        self.0
    }

    pub(crate) const fn of_micros(micros: i64) -> Self {
        SlotKey(micros.saturating_mul(2))
    }

    pub(crate) const fn of_seconds(seconds: i64, second_copy: bool) -> Self {
        SlotKey(seconds.saturating_mul(2_000_000).saturating_add(second_copy as i64))
    }

    /// The nominal time in microseconds: of UTC, or of the wall clock read as if it were UTC.
    #[must_use]
    pub const fn micros(self) -> i64 {
        self.0.div_euclid(2)
    }

    /// Whether this is the second copy of a wall time that names two slots.
    #[must_use]
    pub const fn is_second_copy(self) -> bool {
        self.0.rem_euclid(2) == 1
    }
}

/// One nominal instant of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Its identity.
    pub key: SlotKey,
    /// When it is due.
    pub at: Timestamp,
    /// It fell into a gap of the wall clock and the rule says [`Gap::Skip`](super::Gap::Skip): to be recorded as lost,
    /// never to be run. Its instant is one microsecond before the gap, where no slot that runs can lie, so that the
    /// record does not hide a slot at the gap's end.
    pub gap: bool,
}
