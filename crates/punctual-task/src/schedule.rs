//! Schedule time: rules, and the slots that they name. Pure: no clock, no I/O, no waiting.
//!
//! A [`Rule`] is what a user writes and a store keeps: one of three kinds ([`Every`], [`Cron`], [`Calendar`]) with a
//! zone, bounds and exclusions. [`CompiledRule`] is the same rule checked and ready to answer "which slot comes after
//! this instant?". What becomes of a slot (missed, overlapping, counted) is the planner's business.
//!
//! ```
//! use punctual_clock::Timestamp;
//! use punctual_task::schedule::{CompiledRule, Cron, Rule};
//!
//! let rule: Rule = Cron::parse("30 2 * * *")?.zone("America/New_York");
//! let rule = CompiledRule::new(&rule, Timestamp::EPOCH)?;
//! // 2026-03-08 has no 02:30 in New York: the slot falls on the end of the gap.
//! let slot = rule.next_after(Timestamp::from_secs(1_772_900_000))?.expect("a daily rule does not end");
//! assert_eq!(rule.local(slot.at), "2026-03-08T03:00:00-04:00");
//! assert_eq!(rule.nominal(slot.key), "2026-03-08T02:30:00");
//! # Ok::<(), punctual_task::schedule::RuleError>(())
//! ```

mod calendar;
mod civil;
mod compiled;
mod cron;
pub mod crontab;
mod day;
mod error;
mod exclusion;
mod interval;
mod pattern;
mod preview;
mod rule;
mod slot;
mod stamp;
mod zone;

pub use calendar::{CALENDAR_EVERY_MAX, CALENDAR_TIMES_MAX, Calendar, CalendarUnit, Overflow};
pub use civil::{CivilDate, CivilDateTime, WallTime, Weekday, Weekdays};
pub use compiled::{CompiledRule, SEARCH_STEPS_MAX, Slots};
pub use cron::{CRON_TEXT_BYTES_MAX, Cron, DayMode};
pub use error::{RuleError, RuleErrorKind};
pub use exclusion::Exclusion;
pub use interval::{EVERY_MAX, EVERY_MIN, Every};
pub use preview::{PREVIEW_MAX, Upcoming, preview, utc_text};
pub use rule::{EXCLUSIONS_MAX, Fold, Gap, Kind, Rule};
pub use slot::{KeyClass, Slot, SlotKey};
pub use stamp::{BadZoneStamp, ZoneStamp, ZoneVerdict};
pub use zone::tzdb_version;
