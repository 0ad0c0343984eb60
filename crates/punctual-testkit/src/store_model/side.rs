//! One of the two stores: performs operations, and gives its answers in terms that can be compared.

use crate::store_suite::{LEASE, Opened, Transaction, slots_from};
use punctual_clock::Timestamp;
use punctual_task::{
    AttemptRecord, CancelOutcome, ClaimBatch, ClaimRequest, Declaration, Declared, Enqueued, Finish, Finished,
    FollowUp, Materialised, NewTask, Occurrence, Outcome, Page, Pruned, Renewal, Report, Rescue, Retention,
    RetryOutcome, ScheduleCommand, ScheduleId, ScheduleView, Steered, Store, StoreError, StoreErrorKind, Sweep,
    SweepReport, TaskFilter, TaskId, TaskView, Window, WorkerId, WorkerInfo,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// One operation. Tasks are named by their common ids, workers by the order of their registration.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "one lives at a time")]
pub(super) enum Operation {
    Advance(Duration),
    SetWall(Timestamp),
    Enqueue(Vec<NewTask>),
    /// In a transaction of the caller's.
    EnqueueWithin {
        batches: Vec<Vec<NewTask>>,
        commit: bool,
    },
    Claim {
        worker: usize,
        request: ClaimRequest,
    },
    Finish {
        worker: usize,
        ends: Vec<Finish>,
        follow_ups: Vec<FollowUp>,
    },
    Report {
        worker: usize,
        reports: Vec<Report>,
    },
    Cancel(Vec<TaskId>),
    Retry(Vec<TaskId>),
    PauseQueue {
        queue: String,
        paused: bool,
    },
    Register,
    Renew {
        worker: usize,
    },
    Holdings {
        worker: usize,
    },
    HandBack {
        worker: usize,
        tasks: Vec<TaskId>,
    },
    Retire {
        worker: usize,
    },
    Rescue {
        by: usize,
    },
    Declare(Declaration),
    Steer {
        name: String,
        command: ScheduleCommand,
    },
    /// The next `count` slots; a `skew` of 0 or 1 makes the version or the cursor wrong.
    Window {
        name: String,
        count: usize,
        skew: usize,
    },
    /// Sets the cursor so many slots back, by the rule that holds now.
    Rewind {
        name: String,
        steps: usize,
    },
    Sweep(Sweep),
    Prune(Retention),
    List(TaskFilter),
}

/// An answer, with common ids. Errors are compared by kind: their texts may name what a database said.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    Nothing,
    Enqueued(Result<Vec<Enqueued>, StoreErrorKind>),
    Transacted(Vec<Result<Vec<Enqueued>, StoreErrorKind>>),
    Claimed(Result<ClaimBatch, StoreErrorKind>),
    Finished(Result<Vec<Finished>, StoreErrorKind>),
    Reported(Result<Vec<bool>, StoreErrorKind>),
    Cancelled(Result<Vec<CancelOutcome>, StoreErrorKind>),
    Retried(Result<Vec<RetryOutcome>, StoreErrorKind>),
    Paused(Result<bool, StoreErrorKind>),
    Renewed(Result<Renewal, StoreErrorKind>),
    Held(Result<Vec<(TaskId, u32)>, StoreErrorKind>),
    HandedBack(Result<u32, StoreErrorKind>),
    Retired(Result<(), StoreErrorKind>),
    Rescued(Result<Rescue, StoreErrorKind>),
    /// With the definition's version afterwards.
    Declared(Result<Declared, StoreErrorKind>, Option<u32>),
    /// With the definition's version afterwards, and the tasks that an edit decided first.
    Steered(Result<Steered, StoreErrorKind>, Option<u32>, Vec<TaskId>),
    Applied(Option<Box<Result<Materialised, StoreErrorKind>>>),
    Swept(Result<SweepReport, StoreErrorKind>),
    Pruned(Result<Pruned, StoreErrorKind>),
    Listed(Result<Vec<TaskView>, StoreErrorKind>),
}

impl Answer {
    pub(super) fn text(&self) -> String {
        format!("{self:#?}")
    }
}

/// A store with the ids that it drew.
#[derive(Debug)]
pub(super) struct Side {
    opened: Opened,
    store: Arc<dyn Store>,
    /// Common id by the store's own id, of tasks that the store drew the id of: numbered as they were created.
    common: BTreeMap<TaskId, TaskId>,
    own: Vec<TaskId>,
    workers: Vec<WorkerId>,
}

impl Side {
    pub(super) fn new(opened: Opened) -> Self {
        let store = opened.store();
        Side { opened, store, common: BTreeMap::new(), own: Vec::new(), workers: Vec::new() }
    }

    pub(super) async fn perform(&mut self, operation: &Operation) -> Answer {
        let store = Arc::clone(&self.store);
        match operation.clone() {
            // Both stores live by one clock, which the comparison has moved.
            Operation::Advance(_) | Operation::SetWall(_) => Answer::Nothing,
            Operation::Enqueue(tasks) => Answer::Enqueued(kind(store.enqueue(tasks).await).map(|mut replies| {
                replies.iter_mut().for_each(|reply| reply.id = self.to_common(reply.id));
                replies
            })),
            Operation::EnqueueWithin { batches, commit } => {
                let transaction = Transaction { batches, commit, before_end: None };
                let answers = self.opened.transact(transaction).await.unwrap();
                let common = |answer| {
                    let mut replies: Vec<Enqueued> = kind(answer)?;
                    replies.iter_mut().for_each(|reply| reply.id = self.to_common(reply.id));
                    Ok(replies)
                };
                Answer::Transacted(answers.into_iter().map(common).collect())
            }
            Operation::Claim { worker, request } => {
                Answer::Claimed(kind(store.claim(self.workers[worker], request).await).map(|mut batch| {
                    for task in &mut batch.tasks {
                        task.task = self.to_common(task.task);
                        task.occurrence = task.occurrence.take().map(without_id);
                    }
                    batch
                }))
            }
            Operation::Finish { worker, mut ends, mut follow_ups } => {
                ends.iter_mut().for_each(|end| end.task = self.to_own(end.task));
                follow_ups.iter_mut().for_each(|follow_up| follow_up.task = self.to_own(follow_up.task));
                Answer::Finished(kind(store.finish_then(self.workers[worker], ends, follow_ups).await))
            }
            Operation::Report { worker, mut reports } => {
                reports.iter_mut().for_each(|report| report.task = self.to_own(report.task));
                Answer::Reported(kind(store.report(self.workers[worker], reports).await))
            }
            Operation::Cancel(tasks) => Answer::Cancelled(kind(store.cancel(self.all_own(tasks)).await)),
            Operation::Retry(tasks) => Answer::Retried(kind(store.retry(self.all_own(tasks)).await).map(|replies| {
                let common = |reply| match reply {
                    RetryOutcome::KeyHeld(id) => RetryOutcome::KeyHeld(self.to_common(id)),
                    other => other,
                };
                replies.into_iter().map(common).collect()
            })),
            Operation::PauseQueue { queue, paused } => Answer::Paused(kind(store.pause_queue(queue, paused).await)),
            Operation::Register => {
                let info = WorkerInfo { name: format!("worker {}", self.workers.len()), slots: 4 };
                self.workers.push(store.register(info, LEASE).await.unwrap());
                Answer::Nothing
            }
            Operation::Renew { worker } => {
                Answer::Renewed(kind(store.renew(self.workers[worker], LEASE).await).map(|renewal| {
                    let mut cancel: Vec<_> = renewal.cancel.into_iter().map(|id| self.to_common(id)).collect();
                    cancel.sort_unstable();
                    Renewal { cancel }
                }))
            }
            Operation::Holdings { worker } => {
                Answer::Held(kind(store.holdings(self.workers[worker]).await).map(|held| {
                    let mut held: Vec<_> = held.into_iter().map(|(id, n)| (self.to_common(id), n)).collect();
                    held.sort_unstable();
                    held
                }))
            }
            Operation::HandBack { worker, tasks } => {
                Answer::HandedBack(kind(store.hand_back(self.workers[worker], self.all_own(tasks)).await))
            }
            Operation::Retire { worker } => Answer::Retired(kind(store.retire(self.workers[worker]).await)),
            Operation::Rescue { by } => Answer::Rescued(kind(store.rescue(self.workers[by]).await)),
            Operation::Declare(declaration) => {
                let name = declaration.spec.name.clone();
                let answer = kind(store.declare(declaration).await);
                Answer::Declared(answer, self.version(&name).await)
            }
            Operation::Steer { name, mut command } => {
                let decides = matches!(command, ScheduleCommand::Edit { decide_first: true, .. });
                let asked = match &mut command {
                    ScheduleCommand::Trigger { id, .. } => {
                        let common = *id;
                        *id = self.to_own(common);
                        Some(common)
                    }
                    ScheduleCommand::Edit { spec, .. } | ScheduleCommand::NewSeries { spec } => {
                        spec.name.clone_from(&name);
                        None
                    }
                    _ => None,
                };
                let answer = kind(store.steer(name.clone(), command).await).map(|steered| match (steered, asked) {
                    (Steered::Triggered(_), Some(common)) => Steered::Triggered(common),
                    (other, _) => other,
                });
                let created = if decides { self.take_up_unknown(&name).await } else { Vec::new() };
                Answer::Steered(answer, self.version(&name).await, created)
            }
            Operation::Window { name, count, skew } => Answer::Applied(match self.window(&name, count, skew).await {
                Some(window) => Some(Box::new(kind(store.apply(window).await).map(|done| self.take_up(done)))),
                None => None,
            }),
            Operation::Rewind { name, steps } => {
                self.rewind(&name, steps).await;
                Answer::Nothing
            }
            Operation::Sweep(sweep) => Answer::Swept(kind(store.materialise(sweep).await).map(|mut report| {
                report.schedules = report.schedules.into_iter().map(|done| self.take_up(done)).collect();
                report
            })),
            Operation::Prune(retention) => Answer::Pruned(kind(store.prune(retention, 1_000_000).await)),
            Operation::List(filter) => {
                let page = Page { before: None, limit: 40 };
                Answer::Listed(
                    kind(store.tasks(filter, page).await)
                        .map(|page| page.into_iter().map(|view| self.common_view(view)).collect()),
                )
            }
        }
    }

    /// Everything that can be seen, one text an item.
    pub(super) async fn dump(&self) -> Vec<String> {
        let mut items = Vec::new();
        let mut before = None;
        loop {
            let page = self.store.tasks(TaskFilter::default(), Page { before, limit: Page::LIMIT_MAX }).await.unwrap();
            let Some(last) = page.last() else { break };
            before = Some(last.id);
            for view in page {
                let mut detail = self.store.task(view.id).await.unwrap().expect("a listed task is there");
                assert_eq!(detail.view, view, "the list and the detail show the same");
                detail.view = self.common_view(detail.view);
                detail.attempts.iter_mut().for_each(|attempt| self.common_attempt(attempt));
                items.push(format!("{detail:#?}"));
            }
        }
        items.push(format!("{:#?}", self.store.queues().await.unwrap()));
        // How long dead ones are listed goes by whichever clock a store has, and histories set one of them.
        for mut worker in self.store.workers().await.unwrap().into_iter().filter(|worker| worker.alive) {
            worker.id = WorkerId(self.worker_index(worker.id.0));
            items.push(format!("{worker:#?}"));
        }
        for mut view in self.store.schedules(None, Page::LIMIT_MAX).await.unwrap() {
            view.position.id = ScheduleId(0);
            let losses = self.store.losses(view.spec.name.clone(), Page::LIMIT_MAX).await.unwrap();
            items.push(format!("{view:#?} {losses:#?}"));
        }
        items
    }

    async fn view(&self, name: &str) -> Option<ScheduleView> {
        self.store.schedule(name.to_owned()).await.unwrap()
    }

    async fn version(&self, name: &str) -> Option<u32> {
        self.view(name).await.map(|view| view.position.version)
    }

    async fn window(&self, name: &str, count: usize, skew: usize) -> Option<Window> {
        let view = self.view(name).await?;
        let cursor = view.position.cursor?;
        let mut window = Window {
            schedule: view.position.id,
            version: view.position.version,
            cursor,
            slots: slots_from(&view, cursor, count),
        };
        match skew {
            0 => window.version += 1,
            1 => window.cursor = *window.slots.last()?,
            _ => {}
        }
        Some(window)
    }

    /// Sets a cursor back to where the rule was some slots ago, in the present era.
    async fn rewind(&self, name: &str, steps: usize) {
        let Some(view) = self.view(name).await else { return };
        let Some(cursor) = view.position.cursor else { return };
        let rule = punctual_task::schedule::CompiledRule::new(&view.spec.rule, view.created).unwrap();
        let from = cursor.at.before(Duration::from_secs(60 * steps as u64));
        let back = rule.next_after(from.max(view.created)).unwrap();
        if let Some(slot) = back.filter(|slot| slot.at < cursor.at) {
            self.opened.rewind(name, slot);
        }
    }

    /// Gives the created tasks their common ids, and the report with these.
    fn take_up(&mut self, mut done: Materialised) -> Materialised {
        done.tasks = done.tasks.iter().map(|id| self.name(*id)).collect();
        done.schedule = ScheduleId(0);
        done.position.id = ScheduleId(0);
        done
    }

    /// Gives the tasks of a schedule that no report named their common ids, oldest first.
    async fn take_up_unknown(&mut self, name: &str) -> Vec<TaskId> {
        let filter = TaskFilter { schedule: Some(name.to_owned()), ..TaskFilter::default() };
        let page = Page { before: None, limit: Page::LIMIT_MAX };
        let views = self.store.tasks(filter, page).await.unwrap();
        let unknown = |view: &&TaskView| {
            let slot = view.occurrence.as_ref().is_some_and(|occurrence| occurrence.slot.is_some());
            slot && !self.common.contains_key(&view.id)
        };
        let mut ids: Vec<TaskId> = views.iter().filter(unknown).map(|view| view.id).collect();
        ids.reverse();
        ids.into_iter().map(|id| self.name(id)).collect()
    }

    /// Draws the common id of a task that the store has created.
    fn name(&mut self, id: TaskId) -> TaskId {
        self.own.push(id);
        let common = TaskId(i64::try_from(self.own.len()).unwrap());
        self.common.insert(id, common);
        common
    }

    fn to_common(&self, id: TaskId) -> TaskId {
        self.common.get(&id).copied().unwrap_or(id)
    }

    fn to_own(&self, common: TaskId) -> TaskId {
        let index = usize::try_from(common.0).ok().and_then(|number| number.checked_sub(1));
        index.and_then(|index| self.own.get(index)).copied().unwrap_or(common)
    }

    fn all_own(&self, tasks: Vec<TaskId>) -> Vec<TaskId> {
        tasks.into_iter().map(|id| self.to_own(id)).collect()
    }

    fn worker_index(&self, id: i64) -> i64 {
        let index = self.workers.iter().position(|worker| worker.0 == id);
        index.map_or(-id, |index| i64::try_from(index + 1).unwrap())
    }

    fn common_view(&self, mut view: TaskView) -> TaskView {
        view.id = self.to_common(view.id);
        view.occurrence = view.occurrence.map(without_id);
        // The text of a loss names the worker by the store's own number.
        view.error = view.error.map(|text| if text.starts_with("worker ") { "lost".to_owned() } else { text });
        view
    }

    fn common_attempt(&self, attempt: &mut AttemptRecord) {
        attempt.worker = self.worker_index(attempt.worker);
        if attempt.outcome == Outcome::Lost {
            attempt.out.clear();
        }
    }
}

fn without_id(occurrence: Occurrence) -> Occurrence {
    Occurrence { schedule: ScheduleId(0), ..occurrence }
}

fn kind<T>(result: Result<T, StoreError>) -> Result<T, StoreErrorKind> {
    result.map_err(|error| error.kind())
}
