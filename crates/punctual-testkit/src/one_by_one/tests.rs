//! The per-slot path that a store without a bulk member inherits.

use crate::{OneByOne, VirtualClock, store_suite::START};
use punctual_clock::{Clock, Entropy, SeededEntropy};
use punctual_task::schedule::{Cron, Every, Gap, Rule};
use punctual_task::series::Overflow;
use punctual_task::{
    BackfillRequest, Declaration, MemStore, Missed, Overlap, Page, Position, Resume, ScheduleCommand, ScheduleSpec,
    Store, Sweep, TaskFilter, TaskId, TaskState,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Everything of a schedule that does not depend on how many steps it took: its position but for the count of changes, its
/// occurrences by slot and pass, the sums of what was lost.
#[derive(Debug, PartialEq)]
struct State {
    position: Position,
    live: (u32, u32),
    lost: Vec<(&'static str, u64)>,
    tasks: BTreeMap<(i64, u32), (u64, bool, TaskState)>,
}

async fn tasks(store: &dyn Store, name: &str) -> BTreeMap<(i64, u32), (TaskId, u64, bool, TaskState)> {
    let filter = TaskFilter { schedule: Some(name.to_owned()), ..TaskFilter::default() };
    let mut all = BTreeMap::new();
    let mut before = None;
    loop {
        let page = store.tasks(filter.clone(), Page { before, limit: Page::LIMIT_MAX }).await.unwrap();
        let Some(last) = page.last() else { return all };
        before = Some(last.id);
        for task in page {
            let occurrence = task.occurrence.unwrap();
            let key = (occurrence.slot.unwrap().as_raw(), occurrence.pass);
            let twice = all.insert(key, (task.id, occurrence.run, occurrence.catch_up, task.state));
            // The same key in two eras is two slots; histories here have one era.
            assert!(twice.is_none(), "slot {key:?} of {name} was created twice");
        }
    }
}

async fn state(store: &dyn Store, name: &str) -> State {
    let view = store.schedule(name.to_owned()).await.unwrap().unwrap();
    let tasks = tasks(store, name).await;
    State {
        position: Position { rev: 0, note: String::new(), ..view.position },
        live: (view.live, view.live_backfilled),
        lost: view.lost.iter().map(|(reason, count)| (reason.as_str(), *count)).collect(),
        tasks: tasks.into_iter().map(|(key, (_, run, late, state))| (key, (run, late, state))).collect(),
    }
}

/// Sweeps until nothing can be decided now.
async fn sweep(store: &dyn Store, now: punctual_clock::Timestamp, sweep: Sweep) {
    for round in 0.. {
        assert!(round < 5_000, "sweeps do not end");
        let report = store.materialise(sweep).await.unwrap();
        if report.next_due.is_none_or(|due| due > now) {
            return;
        }
    }
}

fn spec(chance: &SeededEntropy, name: &str) -> ScheduleSpec {
    let below = |bound| chance.below(bound);
    let rule: Rule = match below(4) {
        0 => Every::new(Duration::from_secs(60)).anchor(START).into(),
        1 => Every::new(Duration::from_secs(7)).into(),
        2 => Rule::from(Cron::parse("*/5 * * * *").unwrap()).zone("Europe/London"),
        _ => Rule::from(Cron::parse("0,30 1,2,3 * * *").unwrap()).zone("America/New_York").gap(Gap::Skip),
    };
    let rule = if below(4) == 0 { rule.max_occurrences(1 + below(60)) } else { rule };
    let age = Duration::from_secs(1 + below(20_000));
    let missed = match below(5) {
        0 => Missed::Skip,
        1 => Missed::Earliest,
        2 => Missed::Latest { max_age: age },
        3 => Missed::All { max_count: 20, max_age: age, overflow: Overflow::Halt },
        _ => Missed::All { max_count: 9, max_age: age, overflow: Overflow::SkipOldest },
    };
    let overlap = [Overlap::Wait, Overlap::Skip, Overlap::Cancel, Overlap::Allow][below(4) as usize];
    let max_pending = 1 + u32::try_from(below(6)).unwrap();
    ScheduleSpec { missed, overlap, max_pending, ..ScheduleSpec::new(name, rule, "Demo/run", "{}".into()) }
}

async fn history(seed: u64) {
    let chance = SeededEntropy::new(seed);
    let clock = Arc::new(VirtualClock::starting_at(START));
    let bulk: Arc<dyn Store> = Arc::new(MemStore::new(clock.clone()));
    let single: Arc<dyn Store> = Arc::new(OneByOne(Arc::new(MemStore::new(clock.clone()))));
    for name in NAMES {
        let spec = spec(&chance, name);
        for store in [&bulk, &single] {
            store.declare(Declaration { spec: spec.clone(), revision: 0 }).await.unwrap();
        }
    }
    for step in 0..60u32 {
        clock.advance(Duration::from_micros(chance.below(match chance.below(8) {
            0 => 40_000_000_000,
            1..4 => 900_000_000,
            _ => 90_000_000,
        })));
        let name = NAMES[chance.below(3) as usize];
        let now = clock.timestamp();
        let command = match chance.below(8) {
            0 => Some(ScheduleCommand::Pause { note: String::new() }),
            1 | 2 => {
                Some(ScheduleCommand::Resume([Resume::FromNow, Resume::All, Resume::Last(4)][chance.below(3) as usize]))
            }
            3 => {
                let last = bulk.schedule(name.to_owned()).await.unwrap().unwrap().position.backfill;
                let pass = last.map_or(0, |last| last.request.pass) + 1;
                let from = now.before(Duration::from_secs(1 + chance.below(6_000)));
                let request = BackfillRequest::new(pass, from, now);
                let max_pending = 1 + u32::try_from(chance.below(5)).unwrap();
                Some(ScheduleCommand::Backfill(BackfillRequest { max_pending, rerun: chance.below(2) == 0, ..request }))
            }
            _ => None,
        };
        let ends = chance.below(100);
        let mut seen = Vec::new();
        for store in [&bulk, &single] {
            let kind = match &command {
                Some(command) => {
                    store.steer(name.to_owned(), command.clone()).await.map_err(|error| error.kind()).err()
                }
                None => None,
            };
            let bounds = Sweep { schedules_max: 2, window_max: 30 };
            sweep(&**store, now, bounds).await;
            // Some live occurrences end, the same ones in both stores.
            for name in NAMES {
                let live: Vec<TaskId> = tasks(&**store, name)
                    .await
                    .iter()
                    .filter(|((key, _), (.., state))| {
                        *state == TaskState::Waiting && key.unsigned_abs() / 14_000_000 % 100 < ends
                    })
                    .map(|(_, (id, ..))| *id)
                    .collect();
                store.cancel(live).await.unwrap();
            }
            sweep(&**store, now, bounds).await;
            let mut states = Vec::new();
            for name in NAMES {
                states.push(state(&**store, name).await);
            }
            seen.push((kind, states));
        }
        assert!(seen[0] == seen[1], "seed {seed}, step {step}, after {command:?}: {:#?}\nand\n{:#?}", seen[0], seen[1]);
    }
}

/// B23: a store without a bulk member, which creates one occurrence a transaction and inherits the loop, is in the same state
/// as one that writes windows whenever nothing is left to be decided: random policies, overlaps, commands, backfills and ends.
#[test]
fn b23_without_bulk_histories_end_in_the_same_state() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for seed in 0..12 {
        runtime.block_on(history(seed));
    }
}
