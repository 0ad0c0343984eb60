//! A rule as the user states it and as a store keeps it.

use super::calendar::Calendar;
use super::cron::Cron;
use super::exclusion::Exclusion;
use super::interval::Every;
use punctual_clock::Timestamp;
use serde::{Deserialize, Serialize};

/// How many exclusions a rule may have: each may cost a step of a search, and all of them lie in the stored rule.
pub const EXCLUSIONS_MAX: usize = 1_000;

/// What to do with a wall time that the clocks jump over. Concerns fixed cron and calendar rules only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gap {
    /// Run at the first valid instant after the gap.
    #[default]
    End,
    /// Run as long after the gap's end as the wall time lies after its beginning: 02:30 becomes 03:30.
    Shift,
    /// Do not run; a slot with its `gap` mark set is left for the record.
    Skip,
}

/// What to do with a wall time that the clocks show twice. Concerns fixed cron and calendar rules only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fold {
    /// Run once, on the first copy.
    #[default]
    First,
    /// Run once, on the second copy.
    Second,
    /// Run on both copies.
    Both,
}

/// The three kinds of rule, never mixed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// Steps of real time.
    Interval(Every),
    /// A cron expression.
    Cron(Cron),
    /// Every N days, weeks or months at wall times.
    Calendar(Calendar),
}

/// When a schedule has slots. Its JSON form is stable, leaves defaults out and refuses fields that it does not know: a
/// rule of a newer release must not be run as another rule.
///
/// ```
/// use punctual_clock::Timestamp;
/// use punctual_task::schedule::{Cron, Gap, Rule};
///
/// let rule: Rule = Cron::parse("0 3 * * *")?.zone("Europe/Rome").gap(Gap::Skip).until(Timestamp::from_secs(1_800_000_000));
/// let json = r#"{"kind":{"cron":{"text":"0 3 * * *"}},"zone":"Europe/Rome","gap":"skip","until":1800000000000000}"#;
/// assert_eq!(serde_json::to_string(&rule)?, json);
/// assert_eq!(serde_json::from_str::<Rule>(json)?, rule);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Rule {
    /// The kind with its own parts.
    pub kind: Kind,
    /// The IANA name of the zone; `UTC` unless said otherwise. An interval uses it for display and civil exclusions.
    #[serde(default = "utc", skip_serializing_if = "is_utc")]
    pub zone: String,
    /// What to do in a gap.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gap: Gap,
    /// What to do in a fold.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fold: Fold,
    /// No slot lies before this instant. In JSON: microseconds since 1970 UTC.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "micros::option")]
    pub start: Option<Timestamp>,
    /// No slot lies at or after this instant. In JSON: microseconds since 1970 UTC.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "micros::option")]
    pub until: Option<Timestamp>,
    /// How many occurrences may be created. Carried here, counted by the planner: slots know nothing of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_occurrences: Option<u64>,
    /// What is left out, at most [`EXCLUSIONS_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclusions: Vec<Exclusion>,
}

impl Rule {
    /// A rule of a kind, in UTC, with every default.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        Rule {
            kind,
            zone: utc(),
            gap: Gap::default(),
            fold: Fold::default(),
            start: None,
            until: None,
            max_occurrences: None,
            exclusions: Vec::new(),
        }
    }

    /// In the zone of this IANA name. Whether it exists is said when the rule is compiled.
    #[must_use]
    pub fn zone(mut self, name: impl Into<String>) -> Self {
        self.zone = name.into();
        self
    }

    /// With this choice for wall times that do not exist.
    #[must_use]
    pub fn gap(mut self, gap: Gap) -> Self {
        self.gap = gap;
        self
    }

    /// With this choice for wall times that come twice.
    #[must_use]
    pub fn fold(mut self, fold: Fold) -> Self {
        self.fold = fold;
        self
    }

    /// With no slot before `start`.
    #[must_use]
    pub fn start(mut self, start: Timestamp) -> Self {
        self.start = Some(start);
        self
    }

    /// With no slot at or after `until`.
    #[must_use]
    pub fn until(mut self, until: Timestamp) -> Self {
        self.until = Some(until);
        self
    }

    /// With at most `count` occurrences, as the planner counts them.
    #[must_use]
    pub fn max_occurrences(mut self, count: u64) -> Self {
        self.max_occurrences = Some(count);
        self
    }

    /// Without what `exclusion` holds, in addition to what is left out already.
    #[must_use]
    pub fn except(mut self, exclusion: Exclusion) -> Self {
        self.exclusions.push(exclusion);
        self
    }
}

fn utc() -> String {
    "UTC".to_owned()
}

fn is_utc(zone: &str) -> bool {
    zone == "UTC"
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

pub(crate) mod micros {
    //! An instant as microseconds since 1970 UTC, the form that the stores keep.

    use punctual_clock::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(at.as_micros())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        i64::deserialize(deserializer).map(Timestamp::from_micros)
    }

    pub(crate) mod option {
        //! The same, where there may be none.

        use punctual_clock::Timestamp;
        use serde::{Deserialize, Deserializer, Serialize, Serializer};

        pub(crate) fn serialize<S: Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
            at.map(Timestamp::as_micros).serialize(serializer)
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
            Ok(Option::<i64>::deserialize(deserializer)?.map(Timestamp::from_micros))
        }
    }
}
