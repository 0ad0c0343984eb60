//! Which zone rules a schedule's instants were computed from, so that hosts with different databases do not disagree
//! without noticing.

use super::compiled::CompiledRule;
use super::zone::tzdb_version;
use punctual_clock::Timestamp;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A stamp older than this is renewed: its hash looks three years ahead, and two of them are always to be covered.
const RENEW_AFTER: Duration = Duration::from_secs(365 * 24 * 3600);

/// The zone database that a schedule's cursor was computed with, and what it says of the schedule's zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneStamp {
    /// The database's version, such as `2026f`. Versions are in the order of their text.
    pub tzdb: String,
    /// From when the hash looks three years ahead.
    pub from: Timestamp,
    /// [`CompiledRule::transitions_hash`] of `from`.
    pub hash: u64,
}

/// What the stamp of a schedule says to this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ZoneVerdict {
    /// This host's database agrees with the stamp, or the rule does not depend on a zone.
    Same,
    /// The schedule is to get this stamp. If the databases disagree, this host's is the newer one, and the cursor's
    /// instant is to be computed anew.
    Restamp(ZoneStamp),
    /// The databases disagree and this host's is the older one: it must leave the schedule alone. Says so in a sentence.
    Leave(String),
}

impl fmt::Display for ZoneStamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {:016x}", self.tzdb, self.from.as_micros(), self.hash)
    }
}

/// A text that is no stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadZoneStamp;

impl fmt::Display for BadZoneStamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a zone's stamp must be a version, microseconds and a hash of 16 hexadecimal digits")
    }
}

impl std::error::Error for BadZoneStamp {}

impl FromStr for ZoneStamp {
    type Err = BadZoneStamp;

    fn from_str(text: &str) -> Result<Self, BadZoneStamp> {
        let mut words = text.split(' ');
        let (Some(tzdb), Some(from), Some(hash), None) = (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(BadZoneStamp);
        };
        if tzdb.is_empty() {
            return Err(BadZoneStamp);
        }
        let from = from.parse().map_err(|_| BadZoneStamp)?;
        let hash = u64::from_str_radix(hash, 16).map_err(|_| BadZoneStamp)?;
        Ok(ZoneStamp { tzdb: tzdb.to_owned(), from: Timestamp::from_micros(from), hash })
    }
}

impl CompiledRule {
    /// The stamp of a schedule whose cursor this host computed at `now`; `None` where no zone's rules matter to the rule.
    #[must_use]
    pub fn zone_stamp(&self, now: Timestamp) -> Option<ZoneStamp> {
        self.zone_matters().then(|| ZoneStamp {
            tzdb: tzdb_version().to_owned(),
            from: now,
            hash: self.transitions_hash(now),
        })
    }

    /// Compares the stamp that a schedule has with this host's database.
    #[must_use]
    pub fn judge_zone(&self, stamp: Option<&ZoneStamp>, now: Timestamp) -> ZoneVerdict {
        let renewed = || self.zone_stamp(now).map_or(ZoneVerdict::Same, ZoneVerdict::Restamp);
        let Some(stamp) = stamp.filter(|_| self.zone_matters()) else {
            // A rule without a zone keeps what it has; one that was stored before stamps were gets its first.
            return if stamp.is_none() { renewed() } else { ZoneVerdict::Same };
        };
        let ours = tzdb_version();
        let old = now.since(stamp.from) > RENEW_AFTER;
        if stamp.tzdb == ours {
            return if old { renewed() } else { ZoneVerdict::Same };
        }
        let newer = *ours > *stamp.tzdb;
        if self.transitions_hash(stamp.from) == stamp.hash {
            return if old && newer { renewed() } else { ZoneVerdict::Same };
        }
        if newer {
            return renewed();
        }
        ZoneVerdict::Leave(format!(
            "the time zone database of this host ({ours}) is older than the one that the schedule was computed with ({}), \
             and they disagree about {} in the next years: a host with a newer build decides it",
            stamp.tzdb,
            self.zone_name()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{Cron, Every, Rule};

    const NOW: Timestamp = Timestamp::from_secs(1_772_409_600);

    fn rule(zone: &str) -> CompiledRule {
        CompiledRule::new(&Rule::from(Cron::parse("30 1 * * *").unwrap()).zone(zone), NOW).unwrap()
    }

    /// A stamp's text comes back; other text is no stamp.
    #[test]
    fn the_text_comes_back() {
        let stamp = rule("Europe/Rome").zone_stamp(NOW).unwrap();
        assert_eq!(stamp.to_string().parse(), Ok(stamp));
        for text in ["", "2026f", "2026f 1", "2026f x 00", "2026f 1 xyz", "2026f 1 00 more", " 1 00"] {
            assert_eq!(text.parse::<ZoneStamp>(), Err(BadZoneStamp), "{text}");
        }
    }

    /// Only rules on a wall clock that changes are stamped: an interval and a rule in UTC mean the same everywhere.
    #[test]
    fn what_depends_on_no_zone_has_no_stamp() {
        let every = Rule::from(Every::new(Duration::from_secs(60))).zone("Europe/Rome");
        for rule in [rule("UTC"), CompiledRule::new(&every, NOW).unwrap()] {
            assert_eq!(rule.zone_stamp(NOW), None);
            assert_eq!(rule.judge_zone(None, NOW), ZoneVerdict::Same);
        }
    }

    /// Of two hosts that disagree the one with the newer database decides, the other one leaves the schedule alone and
    /// names both versions; hosts that agree on the coming years share it, whatever their versions.
    #[test]
    fn the_newer_database_decides() {
        let rule = rule("Europe/Rome");
        let ours = rule.zone_stamp(NOW).unwrap();
        let judge = |stamp: &ZoneStamp| rule.judge_zone(Some(stamp), NOW);
        assert_eq!(judge(&ours), ZoneVerdict::Same);
        let named = |tzdb: &str, hash| ZoneStamp { tzdb: tzdb.to_owned(), from: NOW, hash };
        assert_eq!(judge(&named("1999a", ours.hash)), ZoneVerdict::Same);
        assert_eq!(judge(&named("2999z", ours.hash)), ZoneVerdict::Same);
        assert_eq!(judge(&named("1999a", 7)), ZoneVerdict::Restamp(ours.clone()));
        let ZoneVerdict::Leave(text) = judge(&named("2999z", 7)) else { panic!("it must be left alone") };
        assert!(text.contains("2999z") && text.contains(tzdb_version()) && text.contains("Europe/Rome"), "{text}");
    }

    /// A stamp is renewed before its three years are over, but not by a host with an older database.
    #[test]
    fn stamps_are_renewed() {
        let rule = rule("America/New_York");
        let later = NOW.after(RENEW_AFTER * 2);
        let renewed = ZoneVerdict::Restamp(rule.zone_stamp(later).unwrap());
        let ours = rule.zone_stamp(NOW).unwrap();
        assert_eq!(rule.judge_zone(Some(&ours), later), renewed);
        assert_eq!(rule.judge_zone(Some(&ZoneStamp { tzdb: "1999a".to_owned(), ..ours.clone() }), later), renewed);
        let newer = ZoneStamp { tzdb: "2999z".to_owned(), ..ours };
        assert_eq!(rule.judge_zone(Some(&newer), later), ZoneVerdict::Same);
        assert_eq!(rule.judge_zone(None, later), renewed);
    }
}
