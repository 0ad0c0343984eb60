//! Schedules.

/// A time rule as people write it. Exactly one of `cron`, `every` and `calendar` is set.
#[punctual::message]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleText {
    /// A cron expression of 5 fields, or 6 with seconds, or a macro such as `@daily`.
    #[serde(default)]
    pub cron: Option<String>,
    /// A fixed interval (`15m`), counted from `start` or from the schedule's creation.
    #[serde(default)]
    pub every: Option<String>,
    /// A calendar rule: `2 days at 09:00,18:00`, `1 week on mon,thu at 08:30`, `1 month on 31 overflow last at 00:15`.
    #[serde(default)]
    pub calendar: Option<String>,
    /// The IANA zone of cron and calendar rules; UTC if absent.
    #[serde(default)]
    pub zone: Option<String>,
    /// A wall time that does not exist on some day: `end` (default), `shift` or `skip`.
    #[serde(default)]
    pub gap: Option<String>,
    /// A wall time that comes twice on some day: `first` (default), `second` or `both`.
    #[serde(default)]
    pub fold: Option<String>,
    /// How a cron expression joins its two day fields: `or` (default) or `and`.
    #[serde(default)]
    pub days: Option<String>,
    /// No slot before this instant (RFC 3339).
    #[serde(default)]
    pub start: Option<String>,
    /// No slot at or after this instant (RFC 3339).
    #[serde(default)]
    pub until: Option<String>,
    /// At most this many occurrences.
    #[serde(default)]
    pub max_occurrences: Option<u64>,
}

/// A schedule to be stored.
#[punctual::message]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScheduleDraft {
    /// Its name, 1 to 200 bytes without control characters.
    pub name: String,
    /// Which instants.
    pub rule: RuleText,
    /// `Service/method` of each occurrence.
    pub method: String,
    /// Its arguments as JSON text.
    pub args: String,
    /// Its queue; the service's name if absent.
    #[serde(default)]
    pub queue: Option<String>,
    /// Its level in the queue, 0 (first) to 3 (last); 1 if absent.
    #[serde(default)]
    pub priority: Option<u8>,
    /// What happens to slots that nobody served in time: `skip`, `latest[:AGE]` (default `latest:24h`), `earliest`,
    /// `all:COUNT:AGE[:halt|:skip_oldest]`.
    #[serde(default)]
    pub missed: Option<String>,
    /// What happens to a due slot while `max_pending` occurrences are live: `wait` (default), `skip`, `cancel`, `allow`.
    #[serde(default)]
    pub overlap: Option<String>,
    /// How many occurrences may be live at once; 1 if absent.
    #[serde(default)]
    pub max_pending: Option<u32>,
    /// How many attempts each occurrence may spend.
    #[serde(default)]
    pub attempts: Option<u32>,
    /// The budget of one attempt (`30s`).
    #[serde(default)]
    pub timeout: Option<String>,
    /// Occurrences become due up to this long (`5m`) after their slots, always equally long in one schedule.
    #[serde(default)]
    pub jitter: Option<String>,
    /// So many failures in a row pause the schedule; none do if absent.
    #[serde(default)]
    pub pause_after: Option<u32>,
    /// Begin the schedule anew if one of this name was cancelled; run numbers start again.
    #[serde(default)]
    pub new_series: bool,
}

/// What to change of a schedule. What is absent stays as it is.
#[punctual::message]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScheduleEdit {
    /// Another rule in place of the whole old one; its zone stays if the new one names none.
    #[serde(default)]
    pub rule: Option<RuleText>,
    /// `Service/method` of each occurrence.
    #[serde(default)]
    pub method: Option<String>,
    /// Its arguments as JSON text.
    #[serde(default)]
    pub args: Option<String>,
    /// Its queue.
    #[serde(default)]
    pub queue: Option<String>,
    /// Its level in the queue, 0 (first) to 3 (last).
    #[serde(default)]
    pub priority: Option<u8>,
    /// As in [`ScheduleDraft`].
    #[serde(default)]
    pub missed: Option<String>,
    /// As in [`ScheduleDraft`].
    #[serde(default)]
    pub overlap: Option<String>,
    /// How many occurrences may be live at once.
    #[serde(default)]
    pub max_pending: Option<u32>,
    /// How many attempts each occurrence may spend.
    #[serde(default)]
    pub attempts: Option<u32>,
    /// The budget of one attempt (`30s`).
    #[serde(default)]
    pub timeout: Option<String>,
    /// As in [`ScheduleDraft`]; `0s` for none.
    #[serde(default)]
    pub jitter: Option<String>,
    /// As in [`ScheduleDraft`]; 0 for never.
    #[serde(default)]
    pub pause_after: Option<u32>,
    /// Only if the definition still has this version; else the one that is read when the edit begins.
    #[serde(default)]
    pub version: Option<u32>,
    /// Slots that are due are first decided by the definition as it was, instead of being lost with a change of the rule.
    #[serde(default)]
    pub decide_first: bool,
    /// Occurrences that have not begun are cancelled instead of kept.
    #[serde(default)]
    pub drop_pending: bool,
}

/// Past slots to be created after all.
#[punctual::message]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BackfillDraft {
    /// The first instant (RFC 3339).
    pub from: String,
    /// The first instant that is not in the range any more; now if absent. Only slots before the schedule's next one count.
    #[serde(default)]
    pub to: Option<String>,
    /// How many of them may be live at once; 1 if absent.
    #[serde(default)]
    pub max_pending: Option<u32>,
    /// At most this many are created.
    #[serde(default)]
    pub limit: Option<u64>,
    /// Also create slots that have a task, and those of which it is not known any more whether they had one.
    #[serde(default)]
    pub rerun: bool,
    /// Only say what would be done.
    #[serde(default)]
    pub dry_run: bool,
}

/// What a backfill does, or would do.
#[punctual::message]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackfillReport {
    /// The schedule.
    pub schedule: String,
    /// Whether this only says what would be done.
    pub dry_run: bool,
    /// Its number; absent in a dry run.
    pub pass: Option<u32>,
    /// How many slots it creates.
    pub creates: u64,
    /// How many slots no task was ever made for.
    pub new: u64,
    /// How many have a task.
    pub exists: u64,
    /// How many were decided not to run.
    pub missed: u64,
    /// Of how many it is not known any more whether they had a task.
    pub unknown: u64,
    /// Whether the range has more slots than were looked at: 10,000.
    pub more: bool,
    /// The slots, oldest first, at most 100.
    pub slots: Vec<BackfillLine>,
}

/// One slot of a backfill.
#[punctual::message]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackfillLine {
    /// The instant in UTC.
    pub at: String,
    /// The same as the rule's zone writes it.
    pub local: String,
    /// `new`, `exists`, `missed`, `unknown` or `gap`.
    pub what: String,
    /// Whether it is created.
    pub creates: bool,
}

/// The last backfill of a schedule.
#[punctual::message]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackfillState {
    /// Its number, from 1.
    pub pass: u32,
    /// `active` or `over`.
    pub state: String,
    /// The first instant of its range.
    pub from: String,
    /// The first instant after it.
    pub to: String,
    /// Its next slot.
    pub next: Option<String>,
    /// How many may be live at once.
    pub max_pending: u32,
    /// How many are.
    pub live: u32,
    /// How many occurrences it has created.
    pub created: u64,
    /// How many slots it passed over that had a task.
    pub existed: u64,
}

/// Which time zone database a schedule was computed with.
#[punctual::message]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneLine {
    /// The database's version.
    pub tzdb: String,
    /// The version that this host has.
    pub here: String,
    /// Why this host leaves the schedule alone, if it does.
    pub left: Option<String>,
}

/// An occurrence that has not ended.
#[punctual::message]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingLine {
    /// The task.
    pub task: String,
    /// `waiting` or `running`.
    pub state: String,
    /// The nominal instant.
    pub slot: Option<String>,
    /// Attempts begun so far.
    pub attempts: u32,
    /// The backfill that made it; 0 for none.
    pub pass: u32,
}

/// One line of a schedule list.
#[punctual::message]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleLine {
    /// Its name.
    pub name: String,
    /// The rule in words (`cron 0 3 * * * in Europe/Rome`).
    pub rule: String,
    /// `Service/method` of each occurrence.
    pub method: String,
    /// `active`, `paused`, `halted`, `ended` or `cancelled`.
    pub state: String,
    /// Why it is paused or halted.
    pub note: String,
    /// The next slot that is not decided.
    pub next: Option<String>,
    /// The same as the schedule's zone writes it.
    pub next_local: Option<String>,
    /// Occurrences that have not ended.
    pub live: u32,
    /// Occurrences created so far.
    pub runs: u64,
    /// Slots that were not run, for any reason.
    pub lost: u64,
}

/// When occurrences become due, after their slots' instants.
#[punctual::message]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JitterLine {
    /// At most so long (`5m`), in all schedules with this jitter.
    pub most: String,
    /// So long in this one, always.
    pub delay: String,
}

/// All that is kept of one schedule.
#[punctual::message]
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleReport {
    /// The list's line.
    pub schedule: ScheduleLine,
    /// The arguments.
    pub args: serde_json::Value,
    /// When it was created.
    pub created: String,
    /// The queue.
    pub queue: String,
    /// What happens to missed slots.
    pub missed: String,
    /// What happens to a due slot while others are live.
    pub overlap: String,
    /// How many may be live at once.
    pub max_pending: u32,
    /// How long after their slots occurrences become due, at most and in this schedule, where that is not at once.
    #[serde(default)]
    pub jitter: Option<JitterLine>,
    /// How many failures in a row pause it.
    #[serde(default)]
    pub pause_after: Option<u32>,
    /// The definition's version.
    pub version: u32,
    /// The time rule's era.
    pub era: u32,
    /// Slots that were not run, by reason.
    pub lost: Vec<LostCount>,
    /// The latest ranges of slots that were not run, newest first.
    pub losses: Vec<LossLine>,
    /// The next slots.
    pub next: Vec<PreviewSlot>,
    /// Occurrences that have not ended, newest first, at most 10.
    #[serde(default)]
    pub pending: Vec<PendingLine>,
    /// The last backfill.
    #[serde(default)]
    pub backfill: Option<BackfillState>,
    /// The time zone database that it was computed with; absent where no zone matters.
    #[serde(default)]
    pub zone: Option<ZoneLine>,
}

/// Slots that were not run for one reason.
#[punctual::message]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostCount {
    /// `age`, `cap`, `policy`, `overlap`, `gap`, `paused` or `edit`.
    pub reason: String,
    /// How many.
    pub count: u64,
}

/// What an act did to one schedule.
#[punctual::message]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleAct {
    /// Its name.
    pub name: String,
    /// `created`, `updated` or `unchanged` of a definition; `changed` or `unchanged` of its state.
    pub outcome: String,
    /// `active`, `paused`, `halted`, `ended` or `cancelled`.
    pub state: String,
    /// Its next slot.
    pub next: Option<String>,
    /// What the operator should know besides.
    pub notes: Vec<String>,
}

/// An occurrence that an operator created.
#[punctual::message]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Triggered {
    /// The schedule.
    pub schedule: String,
    /// The task.
    pub task: String,
}

/// A range of slots that were not run.
#[punctual::message]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LossLine {
    /// The first one's instant.
    pub from: String,
    /// The last one's instant.
    pub to: String,
    /// Why.
    pub reason: String,
    /// How many.
    pub count: u64,
    /// Whether `count` is exact; otherwise there were at least so many.
    pub exact: bool,
}

/// A slot to come.
#[punctual::message]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviewSlot {
    /// The instant in UTC.
    pub at: String,
    /// The same as the rule's zone writes it.
    pub local: String,
    /// The wall time that the rule names, if a change of the clocks moves or skips it.
    pub nominal: Option<String>,
    /// Whether it will be skipped, since its wall time does not exist on that day.
    pub skipped: bool,
}

/// A crontab to be read.
#[punctual::message]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CrontabImport {
    /// The text.
    pub text: String,
    /// `user` (five time fields, command), `system` (five time fields, user, command), or `auto` (which of the two it
    /// looks like); empty means `auto`.
    #[serde(default)]
    pub format: String,
    /// The zone of lines that no `CRON_TZ` governs; UTC if absent.
    #[serde(default)]
    pub zone: Option<String>,
    /// Put before each schedule's name.
    #[serde(default)]
    pub prefix: String,
    /// Also replace schedules of the same names that do something else.
    #[serde(default)]
    pub replace: bool,
    /// Only say what would be done.
    #[serde(default)]
    pub dry_run: bool,
}

/// What became of a crontab.
#[punctual::message]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrontabReport {
    /// `user` or `system`: how it was read.
    pub format: String,
    /// The zone of lines that no `CRON_TZ` governs.
    pub zone: String,
    /// Whether this only says what would be done.
    pub dry_run: bool,
    /// Each line that is not blank or a comment, in order.
    pub lines: Vec<CrontabLine>,
    /// How many lines are schedules now: created, updated or unchanged.
    pub taken: u32,
    /// How many were refused.
    pub refused: u32,
    /// What holds for all that were taken.
    pub notes: Vec<String>,
}

/// What became of one line.
#[punctual::message]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrontabLine {
    /// Its number, from 1.
    pub number: u32,
    /// `created`, `updated` or `unchanged` for an entry that is a schedule now, `refused`, or `variable`.
    pub outcome: String,
    /// The line.
    pub text: String,
    /// The schedule's name, for an entry.
    pub schedule: Option<String>,
    /// Why it was refused, and what to do.
    pub reason: Option<String>,
    /// Where Punctual and cron differ for this line.
    pub notes: Vec<String>,
    /// The next run, in the line's zone.
    pub next: Option<String>,
}
