//! What must hold for every history, whatever the stores agree on.

use super::side::{Answer, Operation};
use punctual_task::schedule::SlotKey;
use punctual_task::{Materialised, ScheduleCommand, SlotOutcome};
use std::collections::{BTreeMap, BTreeSet};

/// What a history has decided so far.
#[derive(Debug, Default)]
pub(super) struct Checks {
    /// Slots by schedule, era and key.
    created: BTreeSet<(String, u32, SlotKey)>,
    lost: BTreeSet<(String, u32, SlotKey)>,
    /// Occurrences created, by schedule.
    runs: BTreeMap<String, u64>,
    /// Which slot has a run number.
    numbered: BTreeMap<(String, u64), SlotKey>,
    /// Tasks were pruned: a slot behind a cursor that is set back may be created again.
    pruned: bool,
}

impl Checks {
    /// Takes note of an answer; says what it breaks.
    pub(super) fn see(&mut self, operation: &Operation, answer: &Answer) -> Result<(), String> {
        match (operation, answer) {
            (_, Answer::Swept(Ok(report))) => report.schedules.iter().try_for_each(|done| self.decided(done)),
            (_, Answer::Applied(Some(done))) => done.as_ref().as_ref().map_or(Ok(()), |done| self.decided(done)),
            (_, Answer::Pruned(Ok(pruned))) => {
                self.pruned |= pruned.tasks > 0;
                Ok(())
            }
            (Operation::Steer { name, command: ScheduleCommand::NewSeries { .. } }, Answer::Steered(Ok(_), ..)) => {
                self.runs.remove(name);
                self.numbered.retain(|(schedule, _), _| schedule != name);
                Ok(())
            }
            // Decides in the same commit what a sweep would have.
            (Operation::Steer { name, .. }, Answer::Steered(_, _, created)) => {
                *self.runs.entry(name.clone()).or_default() += created.len() as u64;
                Ok(())
            }
            (Operation::Rewind { name, .. }, _) => {
                // What was lost is undecided again.
                self.lost.retain(|(schedule, ..)| schedule != name);
                if self.pruned {
                    self.created.retain(|(schedule, ..)| schedule != name);
                }
                Ok(())
            }
            (_, Answer::Claimed(Ok(batch))) => {
                for occurrence in batch.tasks.iter().filter_map(|task| task.occurrence.as_ref()) {
                    let Some(slot) = occurrence.slot.filter(|_| occurrence.pass == 0) else { continue };
                    let first = *self.numbered.entry((occurrence.name.clone(), occurrence.run)).or_insert(slot);
                    if first != slot || occurrence.run == 0 {
                        return Err(format!("two slots have run number {} of {:?}", occurrence.run, occurrence.name));
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn decided(&mut self, done: &Materialised) -> Result<(), String> {
        let name = &done.name;
        let mut created = 0;
        for (slot, outcome) in &done.slots {
            let place = (name.clone(), done.position.era, slot.key);
            let fresh = match outcome {
                SlotOutcome::Created => {
                    created += 1;
                    self.created.insert(place)
                }
                SlotOutcome::Lost(_) => !self.created.contains(&place) && self.lost.insert(place),
                _ => true,
            };
            if !fresh {
                return Err(format!("slot {slot:?} of {name:?} was decided twice, now as {outcome:?}"));
            }
        }
        let runs = self.runs.entry(name.clone()).or_default();
        *runs += created;
        let filled = done.backfilled.iter().filter(|(_, outcome)| *outcome == SlotOutcome::Created).count();
        if *runs != done.position.runs || created + filled as u64 != done.tasks.len() as u64 {
            return Err(format!("{name:?} has created {runs} occurrences and counts {}", done.position.runs));
        }
        if !done.slots.is_sorted_by_key(|(slot, _)| slot.at) {
            return Err(format!("the slots of {name:?} are not in order"));
        }
        Ok(())
    }
}
