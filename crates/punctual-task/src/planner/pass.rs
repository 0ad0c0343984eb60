//! One pass of a sweep over one schedule.

use super::change::{Change, Grant, Losses, Plan, series_wake};
use super::leap::leap;
use super::{LEFT_WAIT, Snapshot, UNREADABLE_WAIT, WALK_MAX, Walk};
use crate::schedule::{RuleError, Slot, SlotKey, ZoneStamp, ZoneVerdict};
use crate::series::{LossReason, Missed, Overflow, Overlap, Position, ScheduleState, SlotOutcome};
use punctual_clock::Timestamp;

/// Decides the due slots of one schedule.
///
/// `taken` are the keys of the walk's slots that have a task, in key order; other keys between do no harm. `live` is how
/// many occurrences, triggered ones included, have not ended. A plan that is [`short`](Plan::short) is not to be written:
/// [`plan_reading`] shows what is to be done instead.
#[must_use]
pub fn plan(snapshot: &Snapshot<'_>, walk: &Walk, taken: &[SlotKey], live: u32) -> Plan {
    decide(snapshot, walk, taken, live, WALK_MAX)
}

/// [`plan`] for a store that can read at once which slots have tasks: `taken` is asked for those of the walk, and once more
/// if the walk has to go on.
///
/// # Errors
/// What `taken` gives.
pub fn plan_reading<E>(
    snapshot: &Snapshot<'_>,
    walk: &mut Walk,
    live: u32,
    mut taken: impl FnMut(&Walk) -> Result<Vec<SlotKey>, E>,
) -> Result<Plan, E> {
    let first = plan(snapshot, walk, &taken(walk)?, live);
    if !first.short {
        return Ok(first);
    }
    walk.go_on(snapshot);
    Ok(plan(snapshot, walk, &taken(walk)?, live))
}

/// The same with another bound on the slots that create nothing.
pub(super) fn decide(snapshot: &Snapshot<'_>, walk: &Walk, taken: &[SlotKey], live: u32, walked_max: u32) -> Plan {
    if snapshot.position.state != ScheduleState::Active {
        // A backfill of a schedule that has ended is looked at by `with_backfill`.
        return Plan::new(Change { wake: None, ..Change::none(snapshot.position) }, Vec::new(), false);
    }
    let stamp = match snapshot.rule.judge_zone(snapshot.position.zone.as_ref(), walk.now) {
        ZoneVerdict::Same => None,
        ZoneVerdict::Restamp(stamp) => Some(stamp),
        ZoneVerdict::Leave(why) => return plan_left(snapshot.position, walk.now, why),
    };
    let mut pass = Pass::new(snapshot, walk, live, walked_max);
    let stop = pass.run(taken);
    pass.end(stop, stamp)
}

/// Leaves a schedule alone whose stored rule cannot be compiled here, such as one in a zone that this build does not know:
/// nothing is decided, and the schedule is looked at again [`UNREADABLE_WAIT`] later, by whoever comes then. Another
/// process may have a build that knows the rule. The store reports why.
#[must_use]
pub fn plan_broken(position: &Position, now: Timestamp) -> Plan {
    let mut change = Change::none(position);
    change.wake = change.wake.map(|_| now.after(UNREADABLE_WAIT));
    Plan::new(change, Vec::new(), false)
}

/// Leaves a schedule to hosts with a newer zone database. They are not to wait for long, and this one is not to spin.
fn plan_left(position: &Position, now: Timestamp, why: String) -> Plan {
    let mut change = Change::none(position);
    change.wake = change.wake.map(|_| now.after(LEFT_WAIT));
    Plan { left: Some(why), ..Plan::new(change, Vec::new(), false) }
}

/// A rule that gave its last slot and cannot say what follows: an operator has to edit it.
pub(super) fn halt_without_cursor(position: &mut Position, error: &RuleError) {
    position.cursor = None;
    halt(position, halted_by(error));
}

fn halted_by(error: &RuleError) -> String {
    format!("the rule gives no next slot: {error}")
}

/// Why a pass ends before the last slot of its walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// It has decided as many slots as one pass may, or cannot see far enough ahead.
    Bound,
    /// The window is full, capacity is not.
    Window,
    /// Capacity is used up.
    Blocked,
    /// The series' budget is used up.
    Budget,
    /// The missed policy halts the schedule.
    Halt,
}

/// What the missed policy says of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ruling {
    Keep {
        late: bool,
    },
    Lose(LossReason),
    Halt,
    /// The walk does not reach far enough to tell.
    Unseen,
}

/// The missed policy over one walk. Looks at instants only.
#[derive(Debug)]
pub(crate) struct Judge<'a> {
    snapshot: &'a Snapshot<'a>,
    pub(crate) now: Timestamp,
    /// Slots before this instant are late.
    pub(crate) cut: Timestamp,
    /// Under `earliest`: the one that it keeps was met.
    pub(crate) oldest_decided: bool,
    /// How many slots of the walk can run and are late; all of them precede those on time.
    late: usize,
    /// How many slots of the walk can run.
    runnable: usize,
    /// The due slot after the walk, if there is one.
    beyond: Option<Slot>,
    /// How many slots that can run were met so far.
    met: usize,
}

impl<'a> Judge<'a> {
    fn new(snapshot: &'a Snapshot<'a>, walk: &Walk) -> Self {
        let cut = walk.now.before(snapshot.spec.late_after);
        let runnable = || walk.slots.iter().filter(|slot| !slot.gap);
        Judge {
            snapshot,
            now: walk.now,
            cut,
            oldest_decided: false,
            late: runnable().filter(|slot| slot.at < cut).count(),
            runnable: runnable().count(),
            beyond: walk.next.as_ref().ok().copied().flatten().filter(|next| next.at <= walk.now),
            met: 0,
        }
    }

    /// The ruling on the next slot that can run.
    fn rule(&mut self, slot: Slot) -> Ruling {
        self.met += 1;
        if slot.at >= self.cut {
            return Ruling::Keep { late: false };
        }
        if self.snapshot.position.kept_to.is_some_and(|to| slot.at <= to) {
            return Ruling::Keep { late: true };
        }
        let age = self.now.since(slot.at);
        match self.snapshot.spec.missed {
            Missed::Skip => Ruling::Lose(LossReason::Policy),
            Missed::Latest { max_age } => match self.follow(1, self.runnable, self.now) {
                None => Ruling::Unseen,
                Some(true) => Ruling::Lose(LossReason::Policy),
                Some(false) if age > max_age => Ruling::Lose(LossReason::Age),
                Some(false) => Ruling::Keep { late: true },
            },
            Missed::Earliest if self.oldest_decided => Ruling::Lose(LossReason::Policy),
            Missed::Earliest => {
                self.oldest_decided = true;
                Ruling::Keep { late: true }
            }
            Missed::All { max_age, .. } if age > max_age => Ruling::Lose(LossReason::Age),
            Missed::All { max_count, overflow, .. } => {
                match self.follow(max_count as usize, self.late, self.cut.before(std::time::Duration::from_micros(1))) {
                    None => Ruling::Unseen,
                    Some(false) => Ruling::Keep { late: true },
                    Some(true) => match overflow {
                        Overflow::Halt => Ruling::Halt,
                        Overflow::SkipOldest => Ruling::Lose(LossReason::Cap),
                    },
                }
            }
        }
    }

    /// Whether at least `count` slots that can run follow the one just met, of the `total` in the walk that lie at or
    /// before `end`, and of those beyond the walk. `None` if the walk does not tell.
    fn follow(&self, count: usize, total: usize, end: Timestamp) -> Option<bool> {
        let seen = total.saturating_sub(self.met);
        match self.beyond.filter(|next| next.at <= end) {
            _ if seen >= count => Some(true),
            None => Some(false),
            Some(next) if !next.gap && seen + 1 >= count => Some(true),
            Some(_) => None,
        }
    }
}

#[derive(Debug)]
struct Pass<'a> {
    snapshot: &'a Snapshot<'a>,
    walk: &'a Walk,
    live: u32,
    /// How many may be created before capacity is used up.
    capacity: u32,
    /// How many may be created before the series' budget is used up.
    budget: u64,
    judge: Judge<'a>,
    grants: Vec<Grant>,
    losses: Losses,
    slots: Vec<(Slot, SlotOutcome)>,
    /// How many slots were decided that created nothing, and how many may be.
    walked: u32,
    walked_max: u32,
}

impl<'a> Pass<'a> {
    fn new(snapshot: &'a Snapshot<'a>, walk: &'a Walk, live: u32, walked_max: u32) -> Self {
        Pass {
            snapshot,
            walk,
            live,
            capacity: capacity(snapshot, live),
            budget: budget(snapshot),
            judge: Judge::new(snapshot, walk),
            grants: Vec::new(),
            losses: Losses::default(),
            slots: Vec::with_capacity(walk.slots.len().min(WALK_MAX as usize)),
            walked: 0,
            walked_max,
        }
    }

    /// Decides slot by slot; says why it stopped before the walk's end, if it did.
    fn run(&mut self, taken: &[SlotKey]) -> Option<Stop> {
        if self.budget == 0 {
            return Some(Stop::Budget);
        }
        for slot in &self.walk.slots {
            if self.walked >= self.walked_max {
                return Some(Stop::Bound);
            }
            if let Some(stop) = self.decide(*slot, taken.binary_search(&slot.key).is_ok()) {
                return Some(stop);
            }
            if self.budget == 0 {
                return Some(Stop::Budget);
            }
        }
        None
    }

    fn decide(&mut self, slot: Slot, taken: bool) -> Option<Stop> {
        if slot.gap {
            let outcome = if taken { SlotOutcome::Exists } else { SlotOutcome::Lost(LossReason::Gap) };
            self.pass_over(slot, outcome);
            return None;
        }
        let ruling = self.judge.rule(slot);
        if taken {
            self.pass_over(slot, SlotOutcome::Exists);
            return None;
        }
        let late = match ruling {
            Ruling::Lose(reason) => {
                self.pass_over(slot, SlotOutcome::Lost(reason));
                return None;
            }
            Ruling::Halt => return Some(Stop::Halt),
            Ruling::Unseen if self.slots.is_empty() && !self.walk.goes_on() => {
                // Hundreds of gaps in a row would have to follow. Running the slot is the safe answer, and a pass that
                // decides nothing would be repeated for ever.
                true
            }
            Ruling::Unseen => return Some(Stop::Bound),
            Ruling::Keep { late } => late,
        };
        let granted = u32::try_from(self.grants.len()).unwrap_or(u32::MAX);
        if granted >= self.capacity {
            if self.snapshot.spec.overlap == Overlap::Skip {
                self.pass_over(slot, SlotOutcome::Lost(LossReason::Overlap));
                return None;
            }
            return Some(Stop::Blocked);
        }
        if granted >= self.walk.window_max {
            return Some(Stop::Window);
        }
        self.grant(slot, late);
        None
    }

    fn pass_over(&mut self, slot: Slot, outcome: SlotOutcome) {
        match outcome {
            SlotOutcome::Lost(reason) => self.losses.add(slot.at, reason),
            _ => self.losses.close(),
        }
        self.slots.push((slot, outcome));
        self.walked += 1;
    }

    fn grant(&mut self, slot: Slot, catch_up: bool) {
        self.losses.close();
        self.budget -= 1;
        self.grants.push(grant(self.snapshot, self.grants.len(), slot, self.walk.now, catch_up));
        self.slots.push((slot, SlotOutcome::Created));
    }

    /// Whether the pass ended only because its walk did.
    fn is_short(&self, stop: Option<Stop>) -> bool {
        matches!(stop, None | Some(Stop::Bound)) && self.walked < self.walked_max && self.walk.goes_on()
    }

    fn end(mut self, stop: Option<Stop>, stamp: Option<ZoneStamp>) -> Plan {
        let before = self.snapshot.position;
        if self.is_short(stop) {
            return Plan { short: true, ..Plan::new(Change::none(before), Vec::new(), true) };
        }
        let mut position = before.clone();
        if stamp.is_some() {
            position.zone = stamp;
        }
        position.runs = position.runs.saturating_add(self.grants.len() as u64);
        let rest = self.walk.slots.get(self.slots.len()..).unwrap_or_default();
        let mut next = match rest.first() {
            Some(slot) => Ok(Some(*slot)),
            None => self.walk.next.clone(),
        };
        if let (None | Some(Stop::Bound), Ok(Some(from))) = (stop, &next)
            && from.at < self.judge.cut
            && !self.slots.is_empty()
        {
            next = match leap(self.snapshot, &self.judge, *from, &self.walk.slots) {
                Ok(None) => next,
                Ok(Some(leap)) => {
                    self.losses.add_leap(from.at, leap.last, leap.reason);
                    Ok(leap.next)
                }
                Err(error) => Err(error),
            };
        }
        let reached = next.as_ref().ok().copied().flatten();
        for slot in rest.iter().filter(|slot| reached.is_some_and(|next| slot.at >= next.at)) {
            if self.slots.len() >= (self.walked as usize + self.grants.len()) + self.walk.window_max as usize {
                break;
            }
            self.slots.push((*slot, SlotOutcome::NotReached));
        }

        let mut change = Change::none(before);
        let mut more = false;
        match (stop, next) {
            (Some(Stop::Budget), _) | (_, Ok(None)) => end_series(&mut position),
            (_, Err(error)) => halt_without_cursor(&mut position, &error),
            (Some(Stop::Halt), Ok(cursor)) => {
                position.cursor = cursor;
                halt(&mut position, self.too_many());
            }
            (stop, Ok(Some(cursor))) => {
                position.cursor = Some(cursor);
                let due = cursor.at <= self.walk.now;
                // Under `cancel` what this pass creates is live for the slot that found no room: the next pass cancels it with
                // the others, as it would if each slot had been decided alone.
                let full = stop == Some(Stop::Blocked);
                let cancels = self.snapshot.spec.overlap == Overlap::Cancel;
                change.cancel_live = full && cancels && self.live > 0 && self.grants.is_empty();
                let blocked = full && (!cancels || change.cancel_live);
                more = due && !blocked;
            }
        }
        forget_kept(&mut position);
        let blocked = stop == Some(Stop::Blocked) && !more;
        let moved = Change::to(before, position);
        change.wake = match series_wake(&moved.position) {
            Some(_) if more => Some(self.walk.now),
            Some(_) if blocked => None,
            wake => wake,
        };
        change.position = moved.position;
        change.moved = moved.moved;
        change.losses = self.losses.into_ranges();
        change.grants = self.grants;
        Plan::new(change, self.slots, more)
    }

    fn too_many(&self) -> String {
        let (limit, age) = match self.snapshot.spec.missed {
            Missed::All { max_count, max_age, .. } => (max_count, max_age),
            Missed::Skip | Missed::Latest { .. } | Missed::Earliest => (0, std::time::Duration::ZERO),
        };
        format!(
            "more than {limit} slots of the last {} s were missed; resume from now, with the last so many, or with all",
            age.as_secs()
        )
    }
}

/// How many occurrences may be created before the overlap rule counts.
pub(super) fn capacity(snapshot: &Snapshot<'_>, live: u32) -> u32 {
    match snapshot.spec.overlap {
        Overlap::Allow => u32::MAX,
        Overlap::Wait | Overlap::Skip | Overlap::Cancel => snapshot.spec.max_pending.saturating_sub(live),
    }
}

/// How many occurrences the series may still create.
pub(super) fn budget(snapshot: &Snapshot<'_>) -> u64 {
    snapshot.rule.max_occurrences().map_or(u64::MAX, |max| max.saturating_sub(snapshot.position.runs))
}

/// The grant of a slot, of which `before` others were granted in the same change.
pub(super) fn grant(snapshot: &Snapshot<'_>, before: usize, slot: Slot, now: Timestamp, catch_up: bool) -> Grant {
    Grant {
        id: None,
        slot: Some(slot.key),
        at: slot.at,
        due: slot.at.after(snapshot.spec.delay()).max(now),
        run: snapshot.position.runs.saturating_add(before as u64).saturating_add(1),
        catch_up,
        pass: 0,
    }
}

pub(super) fn end_series(position: &mut Position) {
    position.state = ScheduleState::Ended;
    position.note.clear();
    position.cursor = None;
}

fn halt(position: &mut Position, note: String) {
    position.state = ScheduleState::Halted;
    position.note = note;
}

/// An operator's word on slots that are all decided is done with.
pub(super) fn forget_kept(position: &mut Position) {
    let passed = position.cursor.is_none_or(|cursor| position.kept_to.is_some_and(|to| cursor.at > to));
    if passed {
        position.kept_to = None;
    }
}
