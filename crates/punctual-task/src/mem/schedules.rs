//! Schedules: declared, steered, swept. The decisions are the planner's; this reads for them and writes them down.

use super::State;
use super::bug;
use crate::error::StoreError;
use crate::id::{ScheduleId, TaskId};
use crate::planner::{
    Change, Grant, Snapshot, Walk, decide_command, decide_creation, decide_declaration, decide_window, plan_reading,
    with_backfill,
};
use crate::schedule::{CompiledRule, Slot, SlotKey, ZoneStamp};
use crate::series::{
    Declaration, Declared, Loss, LossReason, Materialised, Position, ScheduleCommand, ScheduleSpec, ScheduleState,
    Steered, Sweep, SweepReport, Window,
};
use crate::task::{Due, NewTask, TaskState};
use punctual_clock::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// A schedule.
#[derive(Debug)]
pub(super) struct ScheduleRow {
    pub(super) created: Timestamp,
    pub(super) spec: ScheduleSpec,
    rule: CompiledRule,
    pub(super) position: Position,
    /// When a sweep is to look at it next.
    pub(super) wake: Option<Timestamp>,
    /// What was declared last, and by which revision.
    hash: u64,
    revision: u64,
    /// Occurrences that have not ended: of the series and triggered, and of backfills.
    pub(super) live: BTreeSet<TaskId>,
    pub(super) live_backfilled: BTreeSet<TaskId>,
    /// In the order in which they were recorded.
    pub(super) losses: Vec<Loss>,
    /// Totals by reason, over all that was ever recorded.
    pub(super) lost: BTreeMap<LossReason, u64>,
}

impl ScheduleRow {
    fn snapshot(&self) -> Snapshot<'_> {
        Snapshot { spec: &self.spec, rule: &self.rule, position: &self.position, created: self.created }
    }

    pub(super) fn live(&self) -> u32 {
        u32::try_from(self.live.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn live_backfilled(&self) -> u32 {
        u32::try_from(self.live_backfilled.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn holds(&mut self, pass: u32) -> &mut BTreeSet<TaskId> {
        if pass == 0 { &mut self.live } else { &mut self.live_backfilled }
    }
}

impl State {
    pub(super) fn declare(&mut self, declaration: &Declaration) -> Result<Declared, StoreError> {
        let Some(id) = self.names.get(&declaration.spec.name).copied() else {
            return self.create(declaration);
        };
        let row = self.schedules.get(&id).ok_or_else(|| bug("a schedule's name leads nowhere"))?;
        let walk = Walk::for_declaration(&row.snapshot(), declaration, self.now);
        let taken = self.taken(row, &walk);
        let plan = decide_declaration(&row.snapshot(), row.hash, row.revision, declaration, &walk, &taken)?;
        if let Some(change) = plan.change {
            self.write(id, change)?;
        }
        if let Some(row) = self.schedules.get_mut(&id) {
            row.hash = plan.hash;
            row.revision = plan.revision;
        }
        Ok(plan.answer)
    }

    fn create(&mut self, declaration: &Declaration) -> Result<Declared, StoreError> {
        let id = ScheduleId(self.next_schedule);
        let plan = decide_creation(declaration, id, self.now)?;
        let change = plan.change.ok_or_else(|| bug("a creation without a position"))?;
        let row = ScheduleRow {
            created: self.now,
            spec: declaration.spec.clone(),
            rule: compile(&declaration.spec, self.now)?,
            position: change.position,
            wake: change.wake,
            hash: plan.hash,
            revision: plan.revision,
            live: BTreeSet::new(),
            live_backfilled: BTreeSet::new(),
            losses: Vec::new(),
            lost: BTreeMap::new(),
        };
        self.next_schedule = self.next_schedule.saturating_add(1);
        self.names.insert(declaration.spec.name.clone(), id);
        self.schedules.insert(id, row);
        Ok(plan.answer)
    }

    pub(super) fn steer(&mut self, name: &str, command: &ScheduleCommand) -> Result<Steered, StoreError> {
        let id = self.schedule_id(name)?;
        let row = self.schedules.get(&id).ok_or_else(|| bug("a schedule's name leads nowhere"))?;
        if let ScheduleCommand::Trigger { id: task, .. } = command
            && let Some(known) = self.tasks.get(task)
        {
            let mine = |occurrence: &crate::Occurrence| occurrence.schedule == id && occurrence.slot.is_none();
            return if known.occurrence.as_ref().is_some_and(mine) {
                Ok(Steered::Triggered(*task))
            } else {
                Err(StoreError::refused(format!("task {task} is there already: draw a fresh id for each trigger")))
            };
        }
        let walk = Walk::for_command(&row.snapshot(), command, self.now);
        let taken = self.taken(row, &walk);
        let plan = decide_command(&row.snapshot(), command, &walk, &taken, row.live())?;
        if let Some(first) = plan.first {
            self.write(id, first)?;
        }
        self.write(id, plan.change)?;
        Ok(plan.answer)
    }

    pub(super) fn materialise(&mut self, sweep: Sweep) -> Result<SweepReport, StoreError> {
        let mut due: Vec<(Timestamp, ScheduleId)> = self.wakes().filter(|(wake, _)| *wake <= self.now).collect();
        due.sort_unstable();
        due.truncate(sweep.schedules_max as usize);
        let mut schedules = Vec::with_capacity(due.len());
        for (_, id) in due {
            let Some(row) = self.schedules.get(&id) else { continue };
            let mut walk = Walk::for_sweep(&row.snapshot(), self.now, sweep.window_max);
            let taken = |walk: &Walk| Ok::<_, StoreError>(self.taken(row, walk));
            let mut plan = plan_reading(&row.snapshot(), &mut walk, row.live(), taken)?;
            if let Some(walk) = Walk::for_backfill(&row.snapshot(), self.now, sweep.window_max) {
                let taken = self.taken(row, &walk);
                plan = with_backfill(&row.snapshot(), plan, &walk, &taken, row.live_backfilled());
            }
            let name = row.spec.name.clone();
            let tasks = self.write(id, plan.change.clone())?;
            schedules.push(plan.report(&name, tasks));
        }
        Ok(SweepReport { schedules, next_due: self.wakes().map(|(wake, _)| wake).min() })
    }

    pub(super) fn apply(&mut self, window: &Window) -> Result<Materialised, StoreError> {
        let id = window.schedule;
        let row = self
            .schedules
            .get(&id)
            .ok_or_else(|| StoreError::not_found(format!("there is no schedule with id {}", id.0)))?;
        let walk = Walk::for_window(&row.snapshot(), window, self.now);
        let taken = self.taken(row, &walk);
        let plan = decide_window(&row.snapshot(), window, &walk, &taken, row.live())?;
        let name = row.spec.name.clone();
        let tasks = self.write(id, plan.change.clone())?;
        Ok(plan.report(&name, tasks))
    }

    pub(super) fn schedule_id(&self, name: &str) -> Result<ScheduleId, StoreError> {
        let id = self.names.get(name).copied();
        id.ok_or_else(|| StoreError::not_found(format!("there is no schedule named {name:?}")))
    }

    /// An occurrence has ended: a schedule that waited for capacity is to be looked at.
    pub(super) fn occurrence_ended(&mut self, schedule: ScheduleId, task: TaskId) {
        let Some(row) = self.schedules.get_mut(&schedule) else { return };
        row.live.remove(&task);
        row.live_backfilled.remove(&task);
        let waits = row.position.state == ScheduleState::Active && row.wake.is_none();
        let backfills = row.position.is_backfilling() && row.wake.is_none_or(|wake| wake > self.now);
        if waits || backfills {
            row.wake = Some(self.now);
        }
    }

    pub(super) fn rewind(&mut self, name: &str, cursor: Slot) -> bool {
        let Some(row) = self.names.get(name).and_then(|id| self.schedules.get_mut(id)) else { return false };
        row.position.state = ScheduleState::Active;
        row.position.cursor = Some(cursor);
        row.position.rev = row.position.rev.saturating_add(1);
        row.wake = Some(cursor.at);
        true
    }

    pub(super) fn restamp(&mut self, name: &str, stamp: &ZoneStamp) -> bool {
        let Some(row) = self.names.get(name).and_then(|id| self.schedules.get_mut(id)) else { return false };
        row.position.zone = Some(stamp.clone());
        row.position.rev = row.position.rev.saturating_add(1);
        true
    }

    fn wakes(&self) -> impl Iterator<Item = (Timestamp, ScheduleId)> {
        self.schedules.iter().filter_map(|(id, row)| Some((row.wake?, *id)))
    }

    /// The walk's keys that have tasks, in key order.
    fn taken(&self, row: &ScheduleRow, walk: &Walk) -> Vec<SlotKey> {
        let Some((first, last)) = walk.keys() else { return Vec::new() };
        let (id, era) = (row.position.id, row.position.era);
        self.slots
            .range((id, era, first.as_raw(), 0)..=(id, era, last.as_raw(), u32::MAX))
            .filter(|((.., pass), _)| walk.any_pass() || *pass == 0)
            .map(|((_, _, key, _), _)| SlotKey::from_raw(*key))
            .collect()
    }

    /// Writes what was decided; gives the created tasks.
    fn write(&mut self, id: ScheduleId, change: Change) -> Result<Vec<TaskId>, StoreError> {
        let row = self.schedules.get_mut(&id).ok_or_else(|| bug("a change of a schedule that is not there"))?;
        row.created = change.created.unwrap_or(row.created);
        if let Some(spec) = change.spec {
            row.rule = compile(&spec, row.created)?;
            row.spec = *spec;
        }
        row.position = change.position;
        row.wake = change.wake;
        for loss in change.losses {
            let total = row.lost.entry(loss.reason).or_default();
            *total = total.saturating_add(loss.count);
            row.losses.push(loss);
        }
        let live: Vec<TaskId> = row.live.iter().chain(&row.live_backfilled).copied().collect();
        if change.cancel_live {
            for task in live {
                self.cancel(task);
            }
        } else if change.drop_waiting {
            for task in live {
                if self.tasks.get(&task).is_some_and(|row| row.state() == TaskState::Waiting) {
                    self.cancel(task);
                }
            }
        }
        change.grants.into_iter().map(|grant| self.create_occurrence(id, grant)).collect()
    }

    fn create_occurrence(&mut self, schedule: ScheduleId, grant: Grant) -> Result<TaskId, StoreError> {
        let id = match grant.id.or_else(|| self.draw_task_ids(1).take()) {
            Some(id) => id,
            None => return Err(bug("no task id is left")),
        };
        let row = self.schedules.get_mut(&schedule).ok_or_else(|| bug("an occurrence without its schedule"))?;
        let era = row.position.era;
        if let Some(slot) = grant.slot
            && self.slots.insert((schedule, era, slot.as_raw(), grant.pass), id).is_some()
        {
            return Err(bug("a slot was decided twice"));
        }
        row.holds(grant.pass).insert(id);
        let occurrence = grant.occurrence(&row.position, &row.spec.name);
        let spec = &row.spec;
        let task = NewTask {
            id,
            method: spec.method.clone(),
            queue: spec.queue.clone(),
            level: spec.level,
            due: Due::At(grant.due),
            args: spec.args.clone(),
            schema: spec.schema,
            options: spec.options.clone(),
            key: None,
        };
        self.insert(task, Some(occurrence), era);
        Ok(id)
    }
}

fn compile(spec: &ScheduleSpec, created: Timestamp) -> Result<CompiledRule, StoreError> {
    CompiledRule::new(&spec.rule, created).map_err(|error| StoreError::refused(error.to_string()))
}
