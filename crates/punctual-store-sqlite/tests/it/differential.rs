//! The same random history on the model in memory and on SQLite: every answer and every row that can be seen are equal.

use crate::stand::{START, config, number};
use bytes::Bytes;
use punctual_clock::{Clock, Entropy, SeededEntropy, Timestamp};
use punctual_store_sqlite::SqliteStore;
use punctual_task::schedule::{Calendar, Cron, Every, Gap, Rule, Slot};
use punctual_task::series::Overflow;
use punctual_task::{
    ClaimRequest, Declaration, Due, Finish, KeyHold, KeyMode, KeyScope, MemStore, Missed, NewTask, Next, Outcome,
    Overlap, Page, Resume, Retention, ScheduleCommand, ScheduleSpec, Store, StoreError, Sweep, TaskFilter, TaskId,
    TaskOptions, TaskState, UniqueKey, Window, WorkerId, WorkerInfo,
};
use punctual_testkit::VirtualClock;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(15);
const QUEUES: [&str; 3] = ["Demo", "Mail", "slow lane"];
const METHODS: [&str; 3] = ["Demo/run", "Demo/other", "Mail/send"];
const SCHEDULES: [&str; 4] = ["a", "b", "c", "d"];

/// Both stores, and what the history has made so far.
struct History {
    model: MemStore,
    /// More than one over the same file: each operation goes to one of them.
    sqlite: Vec<Arc<SqliteStore>>,
    clock: Arc<VirtualClock>,
    chance: SeededEntropy,
    tasks: Vec<NewTask>,
    ids: Vec<TaskId>,
    workers: Vec<WorkerId>,
    held: Vec<(WorkerId, TaskId, u32)>,
    log: Vec<String>,
}

impl History {
    async fn new(seed: u64, location: &str, stores: usize) -> Self {
        let clock = Arc::new(VirtualClock::starting_at(START));
        let mut sqlite = Vec::new();
        for _ in 0..stores {
            sqlite.push(Arc::new(SqliteStore::open(location, config(clock.clone())).await.unwrap()));
        }
        History {
            model: MemStore::new(clock.clone()),
            sqlite,
            clock,
            chance: SeededEntropy::new(seed),
            tasks: Vec::new(),
            ids: Vec::new(),
            workers: Vec::new(),
            held: Vec::new(),
            log: Vec::new(),
        }
    }

    fn sqlite(&self) -> Arc<SqliteStore> {
        self.pick(&self.sqlite).unwrap()
    }

    fn below(&self, bound: usize) -> usize {
        usize::try_from(self.chance.below(u64::try_from(bound).unwrap())).unwrap()
    }

    fn pick<T: Clone>(&self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.below(from.len())].clone())
    }

    fn coin(&self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    /// Both answers must be equal; of errors, their kinds.
    fn same<T: Debug + PartialEq>(
        &mut self,
        what: impl Debug,
        model: Result<T, StoreError>,
        sqlite: Result<T, StoreError>,
    ) -> Option<T> {
        self.log.push(format!("{what:?}"));
        let (model, sqlite) =
            (model.map_err(|error| (error.kind(), error)), sqlite.map_err(|error| (error.kind(), error)));
        let equal = match (&model, &sqlite) {
            (Ok(model), Ok(sqlite)) => model == sqlite,
            (Err((model, _)), Err((sqlite, _))) => model == sqlite,
            _ => false,
        };
        assert!(
            equal,
            "after {} steps\n{}\nmodel:  {model:?}\nsqlite: {sqlite:?}",
            self.log.len(),
            self.log[self.log.len().saturating_sub(12)..].join("\n")
        );
        model.ok()
    }

    fn now(&self) -> Timestamp {
        self.clock.timestamp()
    }

    fn new_task(&self, id: TaskId) -> NewTask {
        let due = match self.below(4) {
            0 => Due::After(Duration::from_millis(self.chance.below(90_000))),
            1 => Due::At(self.now().before(Duration::from_secs(self.chance.below(60)))),
            _ => Due::Now,
        };
        let key = self.coin(4).then(|| UniqueKey {
            text: format!("key-{}", self.below(4)),
            scope: if self.coin(2) { KeyScope::Method } else { KeyScope::Queue },
            hold: match self.below(3) {
                0 => KeyHold::Waiting,
                1 => KeyHold::Finished,
                _ => KeyHold::FinishedPlus(Duration::from_secs(self.chance.below(40))),
            },
            mode: if self.coin(8) { KeyMode::Reject } else { KeyMode::Keep },
        });
        NewTask {
            id,
            method: self.pick(&METHODS).unwrap().to_owned(),
            queue: self.pick(&QUEUES).unwrap().to_owned(),
            level: u8::try_from(self.below(4)).unwrap(),
            due,
            args: Bytes::from(vec![b'1'; if self.coin(6) { 3000 } else { self.below(40) }]),
            schema: self.chance.next_u64(),
            options: if self.coin(3) {
                TaskOptions { attempts: Some(3), ..TaskOptions::default() }
            } else {
                TaskOptions::default()
            },
            key,
        }
    }

    async fn enqueue(&mut self) {
        let count = u32::try_from(1 + self.below(5)).unwrap();
        let (model, sqlite) = (self.model.draw_ids(count).await, self.sqlite().draw_ids(count).await);
        let mut ids = self.same(("draw", count), model, sqlite).unwrap();
        let mut batch: Vec<NewTask> = Vec::new();
        while let Some(id) = ids.take() {
            batch.push(self.new_task(id));
        }
        if self.coin(5) {
            batch.extend(self.pick(&self.tasks));
        }
        if self.coin(9) {
            batch.extend(self.pick(&self.tasks).map(|task| NewTask { level: 3 - task.level, ..task }));
        }
        let (model, sqlite) = (self.model.enqueue(batch.clone()).await, self.sqlite().enqueue(batch.clone()).await);
        if let Some(given) = self.same(("enqueue", &batch), model, sqlite) {
            self.ids.extend(given.iter().map(|given| given.id));
            self.tasks.extend(batch);
        }
    }

    async fn work(&mut self) {
        let Some(worker) = self.pick(&self.workers) else { return self.register().await };
        match self.below(12) {
            0 => {
                let (model, sqlite) = (self.model.renew(worker, LEASE).await, self.sqlite().renew(worker, LEASE).await);
                self.same(("renew", worker), model, sqlite);
            }
            1 => {
                let (model, sqlite) = (self.model.rescue(worker).await, self.sqlite().rescue(worker).await);
                self.same(("rescue", worker), model, sqlite);
            }
            2 => {
                let tasks: Vec<TaskId> = (0..3).filter_map(|_| self.pick(&self.held)).map(|held| held.1).collect();
                let model = self.model.hand_back(worker, tasks.clone()).await;
                let sqlite = self.sqlite().hand_back(worker, tasks.clone()).await;
                self.same(("hand back", worker, tasks), model, sqlite);
            }
            3 if self.coin(3) => {
                let (model, sqlite) = (self.model.retire(worker).await, self.sqlite().retire(worker).await);
                self.same(("retire", worker), model, sqlite);
            }
            4 => {
                let (model, sqlite) = (self.model.holdings(worker).await, self.sqlite().holdings(worker).await);
                self.same(("holdings", worker), model, sqlite);
            }
            5..=7 => self.claim(worker).await,
            _ => self.finish(worker).await,
        }
    }

    async fn register(&mut self) {
        let info = WorkerInfo { name: format!("worker {}", self.workers.len()), slots: 4 };
        let model = self.model.register(info.clone(), LEASE).await;
        let sqlite = self.sqlite().register(info.clone(), LEASE).await;
        let worker = self.same(("register", info), model, sqlite);
        self.workers.extend(worker);
    }

    async fn claim(&mut self, worker: WorkerId) {
        let request = ClaimRequest {
            queue: if self.coin(2) { self.pick(&QUEUES).map(str::to_owned) } else { None },
            methods: METHODS.iter().filter(|_| !self.coin(4)).map(|method| (*method).to_owned()).collect(),
            limit: u32::try_from(self.below(12)).unwrap(),
            suspects: self.coin(3),
        };
        let model = self.model.claim(worker, request.clone()).await;
        let sqlite = self.sqlite().claim(worker, request.clone()).await;
        if let Some(batch) = self.same(("claim", worker, request), model, sqlite) {
            self.held.extend(batch.tasks.iter().map(|task| (worker, task.task, task.n)));
        }
    }

    async fn finish(&mut self, worker: WorkerId) {
        let mut finishes = Vec::new();
        for _ in 0..1 + self.below(6) {
            let mine: Vec<_> = self.held.iter().filter(|held| held.0 == worker).copied().collect();
            let Some((_, task, n)) = self.pick(if self.coin(8) { &self.held } else { &mine }) else { continue };
            let (outcome, next) = match self.below(6) {
                0 => (Outcome::Failed, Next::Final(TaskState::Failed)),
                1 => (Outcome::Cancelled, Next::Final(TaskState::Cancelled)),
                2 => {
                    let due = self.now().after(Duration::from_secs(self.chance.below(30)));
                    (Outcome::Failed, Next::Again { due, spent: 1 })
                }
                3 => (Outcome::Snoozed, Next::Again { due: self.now(), spent: 0 }),
                _ => (Outcome::Succeeded, Next::Final(TaskState::Succeeded)),
            };
            let out = if outcome == Outcome::Failed { "{\"message\":\"broke\"}" } else { "1" };
            finishes.push(Finish {
                task,
                n: if self.coin(10) { n + 1 } else { n },
                started: self.now(),
                ended: self.now(),
                outcome,
                out: Bytes::from(out),
                next,
            });
        }
        let model = self.model.finish(worker, finishes.clone()).await;
        let sqlite = self.sqlite().finish(worker, finishes.clone()).await;
        self.same(("finish", worker, finishes), model, sqlite);
    }

    async fn operate(&mut self) {
        let tasks: Vec<TaskId> = (0..3).filter_map(|_| self.pick(&self.ids)).chain([TaskId(1 << 40)]).collect();
        match self.below(6) {
            0..=1 => {
                let (model, sqlite) =
                    (self.model.cancel(tasks.clone()).await, self.sqlite().cancel(tasks.clone()).await);
                self.same(("cancel", tasks), model, sqlite);
            }
            2..=3 => {
                let (model, sqlite) = (self.model.retry(tasks.clone()).await, self.sqlite().retry(tasks.clone()).await);
                self.same(("retry", tasks), model, sqlite);
            }
            4 => {
                let queue = if self.coin(5) { "unheard of" } else { self.pick(&QUEUES).unwrap() }.to_owned();
                let paused = self.coin(2);
                let model = self.model.pause_queue(queue.clone(), paused).await;
                let sqlite = self.sqlite().pause_queue(queue.clone(), paused).await;
                self.same(("pause", queue, paused), model, sqlite);
            }
            _ => {
                let keep = |coin: bool| (!coin).then(|| Duration::from_secs(self.chance.below(200)));
                let retention = Retention { ended: keep(self.coin(3)), failed: keep(self.coin(2)) };
                let model = self.model.prune(retention, 5_000).await;
                let sqlite = self.sqlite().prune(retention, 5_000).await;
                self.same(("prune", retention), model, sqlite);
            }
        }
    }

    fn spec(&self, name: &str) -> ScheduleSpec {
        let rule: Rule = match self.below(5) {
            0 => Every::new(Duration::from_secs(7)).into(),
            1 => Every::new(Duration::from_secs(60)).anchor(START).into(),
            2 => Cron::parse("*/2 * * * *").unwrap().zone("Europe/London"),
            3 => Cron::parse("30 2 * * *").unwrap().zone("America/New_York").gap(Gap::Skip),
            _ => Calendar::days(1).at("01:30".parse().unwrap()).zone("Europe/Rome"),
        };
        let rule = if self.coin(4) { rule.max_occurrences(self.chance.below(20) + 1) } else { rule };
        let rule = if self.coin(6) { rule.until(self.now().after(Duration::from_secs(400))) } else { rule };
        ScheduleSpec {
            queue: self.pick(&QUEUES).unwrap().to_owned(),
            level: u8::try_from(self.below(4)).unwrap(),
            missed: match self.below(5) {
                0 => Missed::Skip,
                1 => Missed::Earliest,
                2 => Missed::All { max_count: 5, max_age: Duration::from_secs(300), overflow: Overflow::Halt },
                3 => Missed::All { max_count: 50, max_age: Duration::from_secs(900), overflow: Overflow::SkipOldest },
                _ => Missed::default(),
            },
            overlap: self.pick(&[Overlap::Wait, Overlap::Skip, Overlap::Cancel, Overlap::Allow]).unwrap(),
            max_pending: u32::try_from(1 + self.below(6)).unwrap(),
            schema: 3,
            ..ScheduleSpec::new(name, rule, self.pick(&METHODS).unwrap(), Bytes::from_static(b"{\"s\":1}"))
        }
    }

    async fn steer(&mut self) {
        let name = self.pick(&SCHEDULES).unwrap().to_owned();
        let command = match self.below(8) {
            0 => ScheduleCommand::Pause { note: "for a while".to_owned() },
            1 => ScheduleCommand::Resume(Resume::ByPolicy),
            2 => ScheduleCommand::Resume(Resume::FromNow),
            3 => ScheduleCommand::Resume(Resume::Last(2)),
            4 => ScheduleCommand::Resume(Resume::All),
            5 => {
                let id = match self.pick(&self.ids).filter(|_| self.coin(5)) {
                    Some(known) => known,
                    None => {
                        let (model, sqlite) = (self.model.draw_ids(1).await, self.sqlite().draw_ids(1).await);
                        self.same("draw", model, sqlite).unwrap().take().unwrap()
                    }
                };
                ScheduleCommand::Trigger { id, force: self.coin(2) }
            }
            6 => {
                let version = self.model.schedule(name.clone()).await.unwrap().map_or(1, |view| view.position.version);
                let version = if self.coin(5) { version + 1 } else { version };
                ScheduleCommand::edit(self.spec(&name), version)
            }
            _ if self.coin(6) => ScheduleCommand::Cancel,
            _ => ScheduleCommand::Resume(Resume::All),
        };
        let model = self.model.steer(name.clone(), command.clone()).await;
        let sqlite = self.sqlite().steer(name.clone(), command.clone()).await;
        self.same(("steer", name, command), model, sqlite);
    }

    async fn schedule(&mut self) {
        match self.below(8) {
            0 => {
                let name = self.pick(&SCHEDULES).unwrap();
                let declaration = Declaration { spec: self.spec(name), revision: self.chance.below(3) };
                let model = self.model.declare(declaration.clone()).await;
                let sqlite = self.sqlite().declare(declaration.clone()).await;
                self.same(("declare", declaration), model, sqlite);
            }
            1..=2 => self.steer().await,
            3 => self.apply().await,
            _ => {
                let sweep = Sweep {
                    schedules_max: u32::try_from(1 + self.below(5)).unwrap(),
                    window_max: u32::try_from(1 + self.below(30)).unwrap(),
                };
                let (model, sqlite) = (self.model.materialise(sweep).await, self.sqlite().materialise(sweep).await);
                if let Some(report) = self.same(("sweep", sweep), model, sqlite) {
                    self.ids.extend(report.schedules.iter().flat_map(|done| done.tasks.iter().copied()));
                }
            }
        }
    }

    /// A window at the cursor, sometimes a stale one.
    async fn apply(&mut self) {
        let name = self.pick(&SCHEDULES).unwrap();
        let Some(view) = self.model.schedule(name.to_owned()).await.unwrap() else { return };
        let Some(cursor) = view.position.cursor else { return };
        let rule = punctual_task::schedule::CompiledRule::new(&view.spec.rule, view.created).unwrap();
        let rest = rule.slots_after(cursor.at).filter_map(Result::ok);
        let slots: Vec<Slot> = std::iter::once(cursor).chain(rest).take(1 + self.below(8)).collect();
        let skip = usize::from(self.coin(6) && slots.len() > 1);
        let window = Window {
            schedule: view.position.id,
            version: view.position.version + u32::from(self.coin(8)),
            cursor: slots[skip],
            slots: slots[skip..].to_vec(),
        };
        let model = self.model.apply(window.clone()).await;
        let sqlite = self.sqlite().apply(window.clone()).await;
        if let Some(done) = self.same(("apply", window), model, sqlite) {
            self.ids.extend(done.tasks);
        }
    }

    async fn step(&mut self) {
        match self.below(20) {
            0..=3 => self.enqueue().await,
            4 => self.register().await,
            5..=11 => self.work().await,
            12..=13 => self.operate().await,
            14..=17 => self.schedule().await,
            _ => {
                let by = Duration::from_millis(self.chance.below(if self.coin(12) { 4_000_000 } else { 9_000 }));
                self.log.push(format!("advance {by:?}"));
                self.clock.advance(by);
            }
        }
        // Ties between operations are broken by ids alone.
        self.clock.advance(Duration::from_micros(1));
    }

    /// Everything that can be seen.
    async fn compare(&mut self) {
        let states = [
            TaskState::Waiting,
            TaskState::Parked,
            TaskState::Running,
            TaskState::Succeeded,
            TaskState::Failed,
            TaskState::Cancelled,
            TaskState::Expired,
        ];
        let maybe = |text: &str| Some(text.to_owned());
        let mut filters = vec![TaskFilter::default()];
        filters.extend(states.map(|state| TaskFilter { state: Some(state), ..TaskFilter::default() }));
        for _ in 0..6 {
            filters.push(TaskFilter {
                state: self.pick(&states).filter(|_| self.coin(2)),
                queue: self.pick(&QUEUES).filter(|_| self.coin(2)).and_then(maybe),
                method: self.pick(&METHODS).filter(|_| self.coin(2)).and_then(maybe),
                schedule: self.pick(&SCHEDULES).filter(|_| self.coin(2)).and_then(maybe),
            });
        }
        for filter in filters {
            let before = self.pick(&self.ids).filter(|_| self.coin(3));
            let page = Page { before, limit: if self.coin(2) { 1000 } else { 7 } };
            let model = self.model.tasks(filter.clone(), page).await;
            let sqlite = self.sqlite().tasks(filter.clone(), page).await;
            self.same(("list", filter, page), model, sqlite);
        }
        for id in self.ids.clone() {
            let (model, sqlite) = (self.model.task(id).await, self.sqlite().task(id).await);
            self.same(("show", id), model, sqlite);
            self.log.pop();
        }
        let (model, sqlite) = (self.model.queues().await, self.sqlite().queues().await);
        self.same("queues", model, sqlite);
        let (model, sqlite) = (self.model.workers().await, self.sqlite().workers().await);
        self.same("workers", model, sqlite);
        let (model, sqlite) = (self.model.schedules(None, 100).await, self.sqlite().schedules(None, 100).await);
        self.same("schedules", model, sqlite);
        for name in SCHEDULES {
            let model = self.model.losses(name.to_owned(), 1000).await;
            let sqlite = self.sqlite().losses(name.to_owned(), 1000).await;
            self.same(("losses", name), model, sqlite);
        }
    }
}

async fn run(seed: u64, location: &str, stores: usize, steps: usize) {
    let mut history = History::new(seed, location, stores).await;
    for step in 0..steps {
        history.step().await;
        if step % 40 == 39 {
            history.compare().await;
        }
    }
    history.compare().await;
}

/// SQLite answers as the model does, whatever is asked in whatever order.
#[tokio::test]
async fn random_histories_give_equal_states() {
    let first = number("PUNCTUAL_FIRST_SEED", 0);
    for seed in first..first + number("PUNCTUAL_SEEDS", 25) {
        run(seed, "sqlite::memory:", 1, 400).await;
    }
}

/// The same over a file that three stores have open, as three processes do: what one remembers never hides what another
/// wrote, and reads go through other connections than writes.
#[tokio::test]
async fn random_histories_over_one_file_give_equal_states() {
    let dir = tempfile::TempDir::new().unwrap();
    for seed in 1000..1000 + number("PUNCTUAL_FILE_SEEDS", 3) {
        let path = dir.path().join(format!("{seed}.db"));
        run(seed, path.to_str().unwrap(), 3, 200).await;
    }
}
