//! Stretches of slots that are too long to walk: their last slots found by probing, their losses passed in one leap.

use super::pass::Judge;
use super::{EXACT_MAX, Snapshot};
use crate::schedule::{CompiledRule, RuleError, Slot};
use crate::series::{LossReason, Missed, Overflow};
use punctual_clock::Timestamp;
use std::collections::VecDeque;
use std::time::Duration;

const TICK: Duration = Duration::from_micros(1);

/// A stretch of slots that are all lost for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leap {
    /// The last slot of the stretch.
    pub(crate) last: Timestamp,
    /// The slot after the stretch.
    pub(crate) next: Option<Slot>,
    /// Why all are lost.
    pub(crate) reason: LossReason,
}

/// The stretch from `from`, the first undecided slot, that the missed policy loses whatever other writers did. `None` if
/// it is not known to, or if it is short enough to be counted slot by slot. `sample` are slots that were walked: they
/// tell how dense the rule is.
pub(crate) fn leap(
    snapshot: &Snapshot<'_>,
    judge: &Judge<'_>,
    from: Slot,
    sample: &[Slot],
) -> Result<Option<Leap>, RuleError> {
    if snapshot.position.kept_to.is_some_and(|to| from.at <= to) {
        return Ok(None);
    }
    // Once the oldest is decided nothing remembers it, so that the others must be decided in the same pass.
    let must = snapshot.spec.missed == Missed::Earliest && judge.oldest_decided;
    let long = |end| estimate(sample, from.at, end) > EXACT_MAX;
    if !must && !long(judge.cut) {
        return Ok(None);
    }
    let rule = snapshot.rule;
    let before = from.at.before(TICK);
    let (end, reason) = match snapshot.spec.missed {
        Missed::Skip => (judge.cut, LossReason::Policy),
        Missed::Latest { .. } => match tail(rule, before, judge.now, 1)?.first() {
            Some(newest) => (newest.at.min(judge.cut), LossReason::Policy),
            None => return Ok(None),
        },
        Missed::Earliest if judge.oldest_decided => (judge.cut, LossReason::Policy),
        Missed::Earliest => return Ok(None),
        Missed::All { max_count, max_age, overflow } => {
            let young = judge.now.before(max_age).min(judge.cut);
            match overflow {
                _ if from.at < young => (young, LossReason::Age),
                Overflow::Halt => return Ok(None),
                Overflow::SkipOldest => {
                    let kept = tail(rule, before, judge.cut.before(TICK), max_count as usize)?;
                    (kept.first().map_or(judge.cut, |slot| slot.at), LossReason::Cap)
                }
            }
        }
    };
    if !must && !long(end) {
        return Ok(None);
    }
    let last = tail(rule, before, end.before(TICK), 1)?.first().map_or(from.at, |slot| slot.at);
    Ok(Some(Leap { last, next: rule.next_after(end.before(TICK))?, reason }))
}

/// About how many slots lie in `from..end`, if they are as dense as the sample.
fn estimate(sample: &[Slot], from: Timestamp, end: Timestamp) -> u64 {
    let (Some(first), Some(last)) = (sample.first(), sample.last()) else { return 0 };
    let steps = u128::try_from(sample.len().saturating_sub(1)).unwrap_or(0);
    let span = last.at.since(first.at).as_micros().max(1);
    let slots = end.since(from).as_micros().saturating_mul(steps) / span;
    u64::try_from(slots).unwrap_or(u64::MAX)
}

/// The last `count` slots in `(after, upto]` that are not in a skipped gap, in order; all of them if there are fewer.
///
/// A rule answers only what comes next, so this probes from ever earlier instants, and halves its way back when a probe
/// meets too many: some dozen probes, each bounded.
pub(crate) fn tail(
    rule: &CompiledRule,
    after: Timestamp,
    upto: Timestamp,
    count: usize,
) -> Result<Vec<Slot>, RuleError> {
    if count == 0 || upto <= after {
        return Ok(Vec::new());
    }
    let steps_max = count.saturating_mul(4).saturating_add(1_000);
    let mut span = Duration::from_secs(1);
    let mut from = upto.before(span).max(after);
    // A probe from `early` met too many slots, one from `late` met too few.
    let (mut early, mut late) = (None, upto);
    let mut found = Vec::new();
    loop {
        match probe(rule, from, upto, count, steps_max)? {
            Probe::TooMany => early = Some(from),
            Probe::Found(slots) => {
                let enough = slots.len() >= count || from <= after;
                found = slots;
                if enough {
                    return Ok(found);
                }
                late = from;
            }
        }
        from = match early {
            None => {
                span = span.saturating_mul(2);
                upto.before(span).max(after)
            }
            Some(early) => {
                let half = late.since(early) / 2;
                if half < TICK {
                    // Only slots in gaps can make a probe long and poor at once.
                    return Ok(found);
                }
                early.after(half)
            }
        };
    }
}

enum Probe {
    Found(Vec<Slot>),
    TooMany,
}

fn probe(
    rule: &CompiledRule,
    from: Timestamp,
    upto: Timestamp,
    count: usize,
    steps_max: usize,
) -> Result<Probe, RuleError> {
    let mut kept = VecDeque::with_capacity(count.min(1_024));
    for (steps, slot) in rule.slots_after(from).enumerate() {
        let slot = slot?;
        if slot.at > upto {
            break;
        }
        if steps >= steps_max {
            return Ok(Probe::TooMany);
        }
        if !slot.gap {
            if kept.len() == count {
                kept.pop_front();
            }
            kept.push_back(slot);
        }
    }
    Ok(Probe::Found(kept.into()))
}
