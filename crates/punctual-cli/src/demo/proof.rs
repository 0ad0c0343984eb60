//! The proof: what the handlers wrote down against what the store acknowledged and what the time rules name.

use crate::demo::ledger::{self, Entry};
use crate::demo::schedules::Schedules;
use crate::demo::tasks::Tasks;
use crate::exit::Failure;
use punctual::clock::Timestamp;
use punctual::task::schedule::CompiledRule;
use punctual::task::{Outcome, ScheduleView, Store, TaskId, TaskState};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// What was checked and found.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Proof {
    /// Lines in the handlers' ledger.
    pub(crate) executions: usize,
    /// Acknowledged tasks that are not in it.
    pub(crate) tasks_lost: usize,
    /// Created occurrences that are not in it.
    pub(crate) slots_lost: usize,
    /// Slots that ran as more than one task.
    pub(crate) slots_doubled: usize,
    /// Due slots that are neither created nor recorded as not run.
    pub(crate) slots_undecided: u64,
    /// Attempts that ran again because the kill hit them between their effect and its record.
    pub(crate) reruns_after_the_kill: usize,
    /// Every violation in words, the first thousand.
    pub(crate) failures: Vec<String>,
    /// How many slots were due, by schedule.
    #[serde(skip)]
    pub(crate) due: BTreeMap<String, u64>,
}

const FAILURES_MAX: usize = 1_000;

impl Proof {
    fn fail(&mut self, text: String) {
        if self.failures.len() < FAILURES_MAX {
            self.failures.push(text);
        }
    }
}

/// Compares.
pub(crate) async fn check(
    store: &Arc<dyn Store>,
    ledger: &Path,
    tasks: &Tasks,
    schedules: &Schedules,
) -> Result<Proof, Failure> {
    let entries = ledger::read(ledger)?;
    let mut proof = Proof { executions: entries.len(), ..Proof::default() };
    let mut by_task: BTreeMap<u64, Vec<&Entry>> = BTreeMap::new();
    for entry in &entries {
        by_task.entry(entry.task).or_default().push(entry);
    }
    acknowledged(&mut proof, &by_task, tasks.acknowledged.iter().chain(&schedules.acknowledged));
    again(&mut proof, store, &by_task).await?;
    for view in &schedules.views {
        slots(&mut proof, &entries, view)?;
    }
    Ok(proof)
}

/// Every acknowledged task ran, with the arguments that it was enqueued with.
fn acknowledged<'a>(
    proof: &mut Proof,
    by_task: &BTreeMap<u64, Vec<&Entry>>,
    tasks: impl Iterator<Item = &'a (TaskId, u64)>,
) {
    for (id, number) in tasks {
        match by_task.get(&id.0.unsigned_abs()) {
            None => {
                proof.tasks_lost += 1;
                proof.fail(format!("task {id} was acknowledged and never ran"));
            }
            Some(entries) if entries.iter().any(|entry| entry.number != *number) => {
                proof.fail(format!("task {id} ran with other arguments than it was enqueued with"));
            }
            Some(_) => {}
        }
    }
}

/// A task ran again only where the store recorded that a worker was lost with the attempt before.
async fn again(proof: &mut Proof, store: &Arc<dyn Store>, by_task: &BTreeMap<u64, Vec<&Entry>>) -> Result<(), Failure> {
    for (task, entries) in by_task.iter().filter(|(_, entries)| entries.len() > 1) {
        let id = TaskId(i64::try_from(*task).unwrap_or(i64::MAX));
        let Some(detail) = store.task(id).await? else {
            proof.fail(format!("task {id} ran and is not in the store"));
            continue;
        };
        let attempts: BTreeSet<u32> = entries.iter().map(|entry| entry.attempt).collect();
        let lost: BTreeSet<u32> = detail
            .attempts
            .iter()
            .filter(|attempt| attempt.outcome == Outcome::Lost)
            .map(|attempt| attempt.n)
            .collect();
        let last = attempts.last().copied().unwrap_or(0);
        let fine = attempts.len() == entries.len()
            && attempts.iter().all(|attempt| *attempt == last || lost.contains(attempt))
            && detail.view.state == TaskState::Succeeded;
        if fine {
            proof.reruns_after_the_kill += entries.len() - 1;
        } else {
            proof.fail(format!("task {id} ran {} times without a lost worker between", entries.len()));
        }
    }
    Ok(())
}

/// Every due slot of a schedule was created or recorded as not run; the created ones ran, each as one task.
fn slots(proof: &mut Proof, entries: &[Entry], view: &ScheduleView) -> Result<(), Failure> {
    let name = &view.spec.name;
    let mine = entries.iter().filter_map(|entry| match &entry.slot {
        Some((schedule, at)) if schedule == name => Some((*at, entry)),
        _ => None,
    });
    let mut ran: BTreeMap<i64, BTreeSet<u64>> = BTreeMap::new();
    for (at, entry) in mine {
        ran.entry(at).or_default().insert(entry.task);
    }
    let rule =
        CompiledRule::new(&view.spec.rule, Timestamp::EPOCH).map_err(|error| Failure::failed(error.to_string()))?;
    let end = view.position.cursor.map_or(Timestamp::MAX, |cursor| cursor.at);
    let due: BTreeSet<i64> = rule
        .slots_after(Timestamp::EPOCH)
        .map_while(Result::ok)
        .map(|slot| slot.at)
        .take_while(|at| *at < end)
        .map(Timestamp::as_micros)
        .collect();
    let lost: u64 = view.lost.iter().map(|(_, count)| count).sum();
    let count = u64::try_from(due.len()).unwrap_or(u64::MAX);
    proof.due.insert(name.clone(), count);
    if count != view.position.runs + lost {
        proof.slots_undecided += count.abs_diff(view.position.runs + lost);
        proof.fail(format!(
            "{name}: {count} slots were due, {} created, {lost} recorded as not run",
            view.position.runs
        ));
    }
    for (at, tasks) in &ran {
        if tasks.len() > 1 {
            proof.slots_doubled += 1;
            proof.fail(format!("{name}: the slot {at} ran as {} tasks", tasks.len()));
        }
        if !due.contains(at) {
            proof.fail(format!("{name}: the slot {at} ran and is none of the rule's"));
        }
    }
    let created = usize::try_from(view.position.runs).unwrap_or(usize::MAX);
    if ran.len() != created {
        proof.slots_lost += created.saturating_sub(ran.len());
        proof.fail(format!("{name}: {created} occurrences were created and {} ran", ran.len()));
    }
    Ok(())
}
