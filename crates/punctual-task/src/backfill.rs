//! A backfill: a past range of a schedule whose slots are created after all, as an operator asks.
//!
//! It lives in its schedule's [`Position`](crate::Position), under the schedule's lock; sweeps take it up like the series
//! itself. What becomes of its slots is decided in [`crate::planner`].

use crate::error::{StoreError, StoreErrorKind};
use crate::schedule::{Slot, SlotKey};
use crate::series::{Loss, ScheduleSpec};
use punctual_clock::Timestamp;
use serde::{Deserialize, Serialize};

/// What to create after all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackfillRequest {
    /// The number that it is to get: one more than that of the schedule's last backfill, from 1. Another number is a
    /// conflict, and the same request again is the resend of one whose reply was lost.
    pub pass: u32,
    /// The first instant.
    pub from: Timestamp,
    /// The first instant that is not in it any more. What lies at or after the schedule's cursor is never in it.
    pub to: Timestamp,
    /// How many of its occurrences may be live at once, from 1: a gate of its own beside the schedule's `max_pending`.
    pub max_pending: u32,
    /// At most this many are created.
    pub limit: Option<u64>,
    /// Also create slots that have a task, and those of which it is not known any more whether they had one.
    pub rerun: bool,
}

impl BackfillRequest {
    /// The slots in `from..to` that were not run, one at a time.
    #[must_use]
    pub const fn new(pass: u32, from: Timestamp, to: Timestamp) -> Self {
        BackfillRequest { pass, from, to, max_pending: 1, limit: None, rerun: false }
    }

    /// Checks every limit.
    ///
    /// # Errors
    /// Names the field, the limit and the value.
    pub fn validate(&self) -> Result<(), StoreError> {
        if self.from >= self.to {
            return Err(StoreError::refused("the backfill's range is empty: `from` must be earlier than `to`"));
        }
        if self.max_pending == 0 || self.max_pending > ScheduleSpec::MAX_PENDING_MAX {
            return Err(StoreError::refused(format!(
                "the backfill's max_pending {} is not 1 to {}",
                self.max_pending,
                ScheduleSpec::MAX_PENDING_MAX
            )));
        }
        if self.limit == Some(0) {
            return Err(StoreError::refused(
                "a backfill of at most 0 occurrences does nothing; give 1 or more, or none",
            ));
        }
        Ok(())
    }
}

/// A schedule's last backfill, under way or over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backfill {
    /// What was asked for, with `to` cut to what lay before the schedule's cursor.
    pub request: BackfillRequest,
    /// Its next slot that is not decided; `None` when it is over.
    pub cursor: Option<Slot>,
    /// How many occurrences it has created.
    pub created: u64,
    /// How many slots it passed over that had a task.
    pub existed: u64,
}

/// The form in which a store keeps a backfill. The names are short since every row of a schedule may have one.
#[derive(Serialize, Deserialize)]
struct Row {
    pass: u32,
    from: i64,
    to: i64,
    max: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    rerun: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cursor: Option<(i64, i64, bool)>,
    created: u64,
    existed: u64,
}

impl Backfill {
    /// Whether slots are left to be decided.
    #[must_use]
    pub const fn is_active(&self) -> bool {
        self.cursor.is_some()
    }

    /// The text that a store keeps.
    #[must_use]
    pub fn to_row(&self) -> String {
        let BackfillRequest { pass, from, to, max_pending, limit, rerun } = self.request;
        let row = Row {
            pass,
            from: from.as_micros(),
            to: to.as_micros(),
            max: max_pending,
            limit,
            rerun,
            cursor: self.cursor.map(|slot| (slot.key.as_raw(), slot.at.as_micros(), slot.gap)),
            created: self.created,
            existed: self.existed,
        };
        // Plain numbers: writing them to memory does not fail.
        serde_json::to_string(&row).unwrap_or_default()
    }

    /// What a store kept.
    ///
    /// # Errors
    /// [`Corrupt`](StoreErrorKind::Corrupt) if the text is none of [`Backfill::to_row`].
    pub fn from_row(text: &str) -> Result<Self, StoreError> {
        let row: Row = serde_json::from_str(text).map_err(|error| {
            StoreError::new(StoreErrorKind::Corrupt, format!("a schedule's backfill cannot be read ({error})"))
        })?;
        let cursor =
            row.cursor.map(|(key, at, gap)| Slot { key: SlotKey::from_raw(key), at: Timestamp::from_micros(at), gap });
        Ok(Backfill {
            request: BackfillRequest {
                pass: row.pass,
                from: Timestamp::from_micros(row.from),
                to: Timestamp::from_micros(row.to),
                max_pending: row.max,
                limit: row.limit,
                rerun: row.rerun,
            },
            cursor,
            created: row.created,
            existed: row.existed,
        })
    }
}

/// What a backfill would do with one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackfillSlot {
    /// No task was ever made for it.
    New,
    /// It has a task: only a rerun makes another one.
    Exists,
    /// It was decided not to run, and is made up for.
    Missed,
    /// Retention may have removed its task, or another rule held at the time: only a rerun makes one.
    Unknown,
    /// Its wall time does not exist on that day and the gap rule is `skip`: never created.
    Gap,
}

impl BackfillSlot {
    /// The lower-case name, as JSON writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            BackfillSlot::New => "new",
            BackfillSlot::Exists => "exists",
            BackfillSlot::Missed => "missed",
            BackfillSlot::Unknown => "unknown",
            BackfillSlot::Gap => "gap",
        }
    }

    /// Whether a backfill creates it.
    #[must_use]
    pub const fn is_created(self, rerun: bool) -> bool {
        match self {
            BackfillSlot::New | BackfillSlot::Missed => true,
            BackfillSlot::Exists | BackfillSlot::Unknown => rerun,
            BackfillSlot::Gap => false,
        }
    }
}

/// What a backfill would do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BackfillPreview {
    /// Its slots, oldest first, at most [`COMMAND_WALK_MAX`](crate::planner::COMMAND_WALK_MAX).
    pub slots: Vec<(Slot, BackfillSlot)>,
    /// Whether the range has more slots than those.
    pub more: bool,
}

impl BackfillPreview {
    /// Tells the slots that lie in one of `losses` from those of which nothing is known.
    pub fn recognise(&mut self, losses: &[Loss]) {
        let mut ranges: Vec<(Timestamp, Timestamp)> = losses.iter().map(|loss| (loss.from, loss.to)).collect();
        ranges.sort_unstable();
        for (slot, what) in &mut self.slots {
            // Ranges of one schedule do not overlap, but for those of different eras, which may.
            let before = ranges.partition_point(|(from, _)| *from <= slot.at);
            if *what == BackfillSlot::New
                && ranges.get(..before).unwrap_or_default().iter().rev().any(|(_, to)| slot.at <= *to)
            {
                *what = BackfillSlot::Missed;
            }
        }
    }

    /// How many slots are of a kind.
    #[must_use]
    pub fn count(&self, what: BackfillSlot) -> usize {
        self.slots.iter().filter(|(_, kind)| *kind == what).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::LossReason;

    /// What a store keeps of a backfill comes back as it was, under way or over; other text is damage, not a guess.
    #[test]
    fn a_row_comes_back() {
        let request = BackfillRequest::new(7, Timestamp::from_secs(5), Timestamp::from_secs(9));
        let slot = Slot { key: SlotKey::from_raw(-3), at: Timestamp::from_secs(6), gap: true };
        for backfill in [
            Backfill { request, cursor: None, created: 0, existed: 3 },
            Backfill {
                request: BackfillRequest { limit: Some(4), rerun: true, max_pending: 9, ..request },
                cursor: Some(slot),
                created: 2,
                existed: 0,
            },
        ] {
            assert_eq!(Backfill::from_row(&backfill.to_row()), Ok(backfill));
        }
        for text in ["", "{}", "[1]", "{\"pass\":-1}"] {
            assert_eq!(Backfill::from_row(text).unwrap_err().kind(), StoreErrorKind::Corrupt);
        }
    }

    /// Slots inside a recorded loss are known as missed; those that exist or are unknown stay what they are.
    #[test]
    fn losses_are_recognised() {
        let at = Timestamp::from_secs;
        let slot = |second| Slot { key: SlotKey::from_raw(second), at: at(second), gap: false };
        let loss = |from, to| Loss { from: at(from), to: at(to), reason: LossReason::Age, count: 1, exact: true };
        use BackfillSlot::{Exists, Missed, New, Unknown};
        let mut preview = BackfillPreview {
            slots: vec![(slot(1), New), (slot(2), New), (slot(3), Exists), (slot(4), New), (slot(5), Unknown)],
            more: false,
        };
        preview.recognise(&[loss(4, 9), loss(2, 3)]);
        let what: Vec<_> = preview.slots.iter().map(|(_, what)| *what).collect();
        assert_eq!(what, [New, Missed, Exists, Missed, Unknown]);
    }
}
