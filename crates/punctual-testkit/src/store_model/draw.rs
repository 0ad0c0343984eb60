//! Histories drawn from a seed.

use super::side::{Answer, Operation};
use crate::VirtualClock;
use crate::store_suite::{METHODS, START};
use bytes::Bytes;
use punctual_clock::{Clock, Entropy, SeededEntropy, Timestamp};
use punctual_task::schedule::{Cron, Every, Gap, Rule};
use punctual_task::series::Overflow;
use punctual_task::{
    BackfillRequest, ClaimRequest, Claimed, Declaration, Due, Finish, FollowOn, FollowUp, KeyHold, KeyMode, KeyScope,
    Missed, NewTask, Next, Outcome, Overlap, Report, Resume, Retention, ScheduleCommand, ScheduleSpec, Sweep,
    TaskFilter, TaskId, TaskOptions, TaskState, UniqueKey,
};
use std::time::Duration;

/// Where the ids begin that histories give themselves, and how far apart they lie: a store goes on to draw ids after the
/// largest that it has seen, and these must not meet the next one.
const OWN_IDS: i64 = 1 << 40;
const OWN_STEP: i64 = 1 << 20;

/// How many tasks a history remembers to act on.
const REMEMBERED_MAX: usize = 60;

const QUEUES: [&str; 3] = ["Demo", "mail", "slow"];
const SCHEDULES: [&str; 4] = ["a", "b", "c", "d"];

/// What a history remembers in order to draw operations that mean something.
#[derive(Debug)]
pub(super) struct Script {
    entropy: SeededEntropy,
    next_id: i64,
    /// Tasks seen lately.
    tasks: Vec<TaskId>,
    /// Tasks as they were written lately, for resends.
    written: Vec<NewTask>,
    workers: usize,
    /// What each worker was given and has not finished.
    held: Vec<(usize, Claimed)>,
    /// Finishes made lately, for resends.
    finished: Vec<(usize, Finish)>,
    /// The definitions' versions as last seen, by name.
    versions: [u32; SCHEDULES.len()],
}

impl Script {
    pub(super) fn new(seed: u64) -> Self {
        Script {
            entropy: SeededEntropy::new(seed),
            next_id: OWN_IDS,
            tasks: Vec::new(),
            written: Vec::new(),
            workers: 0,
            held: Vec::new(),
            finished: Vec::new(),
            versions: [1; SCHEDULES.len()],
        }
    }

    fn below(&self, bound: usize) -> usize {
        usize::try_from(self.entropy.below(bound as u64)).unwrap()
    }

    fn chance(&self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Clone>(&self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// Up to `bound` seconds, to the microsecond: two waits are hardly ever equal.
    fn wait(&self, bound: u64) -> Duration {
        Duration::from_micros(1 + self.entropy.below(bound * 1_000_000))
    }

    /// The next operation.
    pub(super) fn draw(&mut self, clock: &VirtualClock) -> Operation {
        let now = clock.timestamp();
        match self.below(100) {
            0..15 => Operation::Advance(match self.below(20) {
                0 => self.wait(86_400),
                1..4 => self.wait(3_600),
                _ => self.wait(40),
            }),
            15 => Operation::SetWall(START.after(self.wait(4 * 86_400))),
            16..27 => Operation::Enqueue(self.batch(now)),
            27 | 28 => self.transaction(now),
            29..45 if self.workers > 0 => Operation::Claim { worker: self.worker(), request: self.request() },
            45..57 if self.workers > 0 => self.finishes(now),
            57..60 if !self.held.is_empty() => self.reports(now),
            60..64 => Operation::Cancel(self.some_tasks()),
            64..67 => Operation::Retry(self.some_tasks()),
            67 => Operation::PauseQueue { queue: self.pick(&QUEUES).to_owned(), paused: self.chance(40) },
            68 | 69 => {
                self.workers += 1;
                Operation::Register
            }
            70..75 if self.workers > 0 => Operation::Renew { worker: self.worker() },
            75 if self.workers > 0 => Operation::HandBack { worker: self.worker(), tasks: self.some_tasks() },
            76 if self.workers > 0 && self.chance(30) => Operation::Retire { worker: self.worker() },
            77 | 78 if self.workers > 0 => Operation::Rescue { by: self.worker() },
            79..82 => Operation::Declare(Declaration { spec: self.spec(), revision: self.entropy.below(3) }),
            82..87 => Operation::Steer { name: self.pick(&SCHEDULES).to_owned(), command: self.command(now) },
            87 | 88 => Operation::Window {
                name: self.pick(&SCHEDULES).to_owned(),
                count: 1 + self.below(12),
                skew: self.below(10),
            },
            89 => Operation::Rewind { name: self.pick(&SCHEDULES).to_owned(), steps: 1 + self.below(10) },
            90 => Operation::Prune(Retention {
                ended: self.chance(80).then(|| self.wait(7_200)),
                failed: self.chance(80).then(|| self.wait(7_200)),
            }),
            91 => Operation::List(self.filter()),
            _ => Operation::Sweep(Sweep {
                schedules_max: 1 + u32::try_from(self.below(4)).unwrap(),
                window_max: 1 + u32::try_from(self.below(30)).unwrap(),
            }),
        }
    }

    /// Remembers what an operation made known.
    pub(super) fn learn(&mut self, operation: &Operation, answer: &Answer) {
        match (operation, answer) {
            (Operation::Enqueue(tasks), Answer::Enqueued(Ok(_))) => {
                self.tasks.extend(tasks.iter().map(|task| task.id));
                self.written.extend(tasks.iter().cloned());
            }
            (Operation::EnqueueWithin { batches, commit: true }, Answer::Transacted(answers)) => {
                for (tasks, _) in batches.iter().zip(answers).filter(|(_, answer)| answer.is_ok()) {
                    self.tasks.extend(tasks.iter().map(|task| task.id));
                    self.written.extend(tasks.iter().cloned());
                }
            }
            (Operation::Claim { worker, .. }, Answer::Claimed(Ok(batch))) => {
                self.held.extend(batch.tasks.iter().map(|task| (*worker, task.clone())));
            }
            (Operation::Finish { worker, ends, follow_ups }, Answer::Finished(Ok(_))) => {
                self.tasks.extend(follow_ups.iter().map(|follow_up| follow_up.then.id));
                self.held.retain(|(_, task)| ends.iter().all(|end| (end.task, end.n) != (task.task, task.n)));
                self.finished.extend(ends.iter().map(|end| (*worker, end.clone())));
            }
            (Operation::Sweep(_), Answer::Swept(Ok(report))) => {
                self.tasks.extend(report.schedules.iter().flat_map(|done| done.tasks.iter().copied()));
            }
            (Operation::Window { .. }, Answer::Applied(Some(done))) => {
                self.tasks.extend(done.iter().flat_map(|done| done.tasks.iter().copied()));
            }
            (Operation::Steer { name, .. }, Answer::Steered(_, version, _))
            | (Operation::Declare(Declaration { spec: ScheduleSpec { name, .. }, .. }), Answer::Declared(_, version)) => {
                if let Some(at) = SCHEDULES.iter().position(|known| known == name) {
                    self.versions[at] = version.unwrap_or(1);
                }
            }
            _ => {}
        }
        forget(&mut self.tasks);
        forget(&mut self.written);
        forget(&mut self.held);
        forget(&mut self.finished);
    }

    fn worker(&self) -> usize {
        // Mostly one of the last few: the first ones are dead before long.
        self.workers - 1 - self.below(self.workers.min(if self.chance(90) { 4 } else { 100 }))
    }

    fn some_tasks(&self) -> Vec<TaskId> {
        let mut tasks: Vec<TaskId> =
            (0..self.below(4)).filter(|_| !self.tasks.is_empty()).map(|_| self.pick(&self.tasks)).collect();
        if self.chance(10) {
            tasks.push(TaskId(OWN_IDS * 2));
        }
        tasks
    }

    fn batch(&mut self, now: Timestamp) -> Vec<NewTask> {
        if self.chance(10) && !self.written.is_empty() {
            let from = self.below(self.written.len());
            return self.written[from..].iter().take(3).cloned().collect();
        }
        (0..self.below(6)).map(|_| self.task(now)).collect()
    }

    /// Tasks in a transaction. A queue's name that nobody has used yet may stay after a rollback, or not.
    fn transaction(&mut self, now: Timestamp) -> Operation {
        let commit = !self.knows_queues() || self.chance(70);
        let batches = (0..1 + self.below(2)).map(|_| (0..self.below(4)).map(|_| self.task(now)).collect()).collect();
        Operation::EnqueueWithin { batches, commit }
    }

    /// Whether every queue has had a task.
    fn knows_queues(&self) -> bool {
        QUEUES.iter().all(|queue| self.written.iter().any(|task| task.queue == *queue))
    }

    fn task(&mut self, now: Timestamp) -> NewTask {
        self.next_id += OWN_STEP;
        let key = self.chance(40).then(|| UniqueKey {
            text: format!("key {}", self.below(6)),
            scope: if self.chance(70) { KeyScope::Method } else { KeyScope::Queue },
            hold: match self.below(3) {
                0 => KeyHold::Waiting,
                1 => KeyHold::Finished,
                _ => KeyHold::FinishedPlus(self.wait(60)),
            },
            mode: if self.chance(90) { KeyMode::Keep } else { KeyMode::Reject },
        });
        NewTask {
            id: TaskId(self.next_id),
            method: if self.chance(95) { self.pick(&METHODS).to_owned() } else { "Nobody/knows".to_owned() },
            queue: self.pick(&QUEUES).to_owned(),
            level: if self.chance(98) { u8::try_from(self.below(4)).unwrap() } else { 4 },
            due: match self.below(5) {
                0 => Due::After(self.wait(100)),
                1 => Due::At(now.before(self.wait(100))),
                2 => Due::At(now.after(self.wait(1_000))),
                _ => Due::Now,
            },
            args: Bytes::from(format!("{{\"n\":{}}}", self.below(5))),
            schema: self.entropy.next_u64(),
            options: TaskOptions {
                attempts: self.chance(20).then_some(2),
                start_by: self.chance(5).then(|| now.as_micros()),
                ..TaskOptions::default()
            },
            key,
        }
    }

    fn request(&self) -> ClaimRequest {
        ClaimRequest {
            queue: self.chance(30).then(|| self.pick(&QUEUES).to_owned()),
            methods: METHODS.iter().filter(|_| self.chance(85)).map(|method| (*method).to_owned()).collect(),
            limit: u32::try_from(self.below(8)).unwrap(),
            suspects: self.chance(40),
        }
    }

    fn finishes(&mut self, now: Timestamp) -> Operation {
        if self.chance(15) && !self.finished.is_empty() {
            let (worker, end) = self.pick(&self.finished);
            let worker = if self.chance(80) { worker } else { self.worker() };
            let follow_ups = self.follow_ups(std::slice::from_ref(&end), now);
            return Operation::Finish { worker, ends: vec![end], follow_ups };
        }
        if self.held.is_empty() {
            return Operation::Holdings { worker: self.worker() };
        }
        let (worker, _) = self.pick(&self.held);
        let ends: Vec<Finish> = self
            .held
            .iter()
            .filter(|(holder, _)| *holder == worker || self.chance(5))
            .filter(|_| self.chance(60))
            .map(|(_, task)| self.end(task, now))
            .collect();
        let follow_ups = self.follow_ups(&ends, now);
        Operation::Finish { worker, ends, follow_ups }
    }

    /// What some attempts say, one of them maybe twice, or as another attempt than it is.
    fn reports(&self, now: Timestamp) -> Operation {
        let (worker, _) = self.pick(&self.held);
        let reports = (0..1 + self.below(3)).map(|_| {
            let (_, task) = self.pick(&self.held);
            Report {
                task: task.task,
                n: task.n + u32::from(self.chance(5)),
                at: now,
                percent: self.chance(70).then(|| u8::try_from(self.below(102)).unwrap()),
                message: format!("step {}", self.below(9)),
                checkpoint: self.chance(40).then(|| Bytes::from(format!("{}", self.below(9)))),
            }
        });
        Operation::Report { worker, reports: reports.collect() }
    }

    /// Follow-ups of some of these ends, and of attempts that are not among them.
    fn follow_ups(&mut self, ends: &[Finish], now: Timestamp) -> Vec<FollowUp> {
        let mut follow_ups = Vec::new();
        for end in ends {
            while self.knows_queues() && self.chance(20) {
                follow_ups.push(FollowUp {
                    task: end.task,
                    n: end.n + u32::from(self.chance(5)),
                    on: if self.chance(70) { FollowOn::Success } else { FollowOn::Failure },
                    then: self.task(now),
                });
            }
        }
        follow_ups
    }

    fn end(&self, task: &Claimed, now: Timestamp) -> Finish {
        let (outcome, next) = match self.below(8) {
            0..3 => (Outcome::Succeeded, Next::Final(TaskState::Succeeded)),
            3 => (Outcome::Failed, Next::Final(TaskState::Failed)),
            4 => (Outcome::Snoozed, Next::Again { due: now.after(self.wait(50)), spent: task.spent }),
            5 => (Outcome::Expired, Next::Final(TaskState::Expired)),
            6 => (Outcome::TimedOut, Next::Final(TaskState::Cancelled)),
            _ => (Outcome::Failed, Next::Again { due: now.after(self.wait(50)), spent: task.spent + 1 }),
        };
        let out = match outcome {
            Outcome::Succeeded => Bytes::from_static(b"[1,2]"),
            Outcome::TimedOut => Bytes::from_static(b"no JSON"),
            _ => Bytes::from_static(b"{\"message\":\"broken\",\"detail\":{}}"),
        };
        Finish { task: task.task, n: task.n, started: now, ended: now, outcome, out, next }
    }

    fn rule(&self) -> Rule {
        let rule: Rule = match self.below(5) {
            0 => Every::new(Duration::from_secs(60)).anchor(START).into(),
            1 => Every::new(Duration::from_secs(7)).into(),
            2 => Rule::from(Cron::parse("*/5 * * * *").unwrap()).zone("Europe/London"),
            // The clocks go forward on the sixth day of the history.
            3 => Rule::from(Cron::parse("0,30 1,2,3 * * *").unwrap()).zone("America/New_York").gap(Gap::Skip),
            _ => Every::new(Duration::from_secs(1_000)).anchor(START).into(),
        };
        match self.below(6) {
            0 => rule.until(START.after(self.wait(86_400))),
            1 => rule.max_occurrences(1 + self.entropy.below(40)),
            _ => rule,
        }
    }

    fn spec(&self) -> ScheduleSpec {
        let missed = match self.below(6) {
            0 => Missed::Skip,
            1 => Missed::Earliest,
            2 => Missed::Latest { max_age: self.wait(20_000) },
            3 => Missed::All { max_count: 20, max_age: self.wait(20_000), overflow: Overflow::Halt },
            4 => Missed::All { max_count: 9, max_age: self.wait(20_000), overflow: Overflow::SkipOldest },
            _ => {
                Missed::All { max_count: 10_000, max_age: Duration::from_secs(1 << 40), overflow: Overflow::SkipOldest }
            }
        };
        ScheduleSpec {
            queue: self.pick(&QUEUES).to_owned(),
            level: u8::try_from(self.below(4)).unwrap(),
            schema: self.entropy.next_u64(),
            missed,
            overlap: self.pick(&[Overlap::Wait, Overlap::Wait, Overlap::Skip, Overlap::Cancel, Overlap::Allow]),
            max_pending: 1 + u32::try_from(self.below(6)).unwrap(),
            late_after: self.wait(10),
            ..ScheduleSpec::new(self.pick(&SCHEDULES), self.rule(), self.pick(&METHODS), "[]".into())
        }
    }

    fn command(&mut self, now: Timestamp) -> ScheduleCommand {
        match self.below(29) {
            0..4 => ScheduleCommand::Pause { note: format!("note {}", self.below(2)) },
            4..10 => ScheduleCommand::Resume(match self.below(4) {
                0 => Resume::ByPolicy,
                1 => Resume::FromNow,
                2 => Resume::Last(u32::try_from(self.below(30)).unwrap()),
                _ => Resume::All,
            }),
            10..15 => {
                self.next_id += OWN_STEP;
                let fresh = TaskId(self.next_id);
                let id = if self.chance(90) || self.tasks.is_empty() { fresh } else { self.pick(&self.tasks) };
                self.tasks.push(id);
                ScheduleCommand::Trigger { id, force: self.chance(50) }
            }
            15..19 => {
                let mut spec = self.spec();
                let at = self.below(SCHEDULES.len());
                spec.name = SCHEDULES[at].to_owned();
                let version = if self.chance(90) { self.versions[at] } else { 0 };
                let (decide_first, drop_pending) = (self.chance(20), self.chance(20));
                ScheduleCommand::Edit { spec: Box::new(spec), version, decide_first, drop_pending }
            }
            19..24 => self.backfill(now),
            24 => ScheduleCommand::StopBackfill,
            25 => ScheduleCommand::CheckZone,
            26 | 27 => ScheduleCommand::NewSeries { spec: Box::new(self.spec()) },
            _ if now > START.after(Duration::from_secs(6 * 3_600)) => ScheduleCommand::Cancel,
            _ => ScheduleCommand::Pause { note: String::new() },
        }
    }

    fn backfill(&self, now: Timestamp) -> ScheduleCommand {
        let from = now.before(self.wait(8_000));
        let request = BackfillRequest {
            max_pending: u32::try_from(self.below(6)).unwrap(),
            limit: self.chance(30).then(|| self.entropy.below(12)),
            rerun: self.chance(30),
            ..BackfillRequest::new(u32::try_from(self.below(4)).unwrap(), from, from.after(self.wait(9_000)))
        };
        if self.chance(25) { ScheduleCommand::PreviewBackfill(request) } else { ScheduleCommand::Backfill(request) }
    }

    fn filter(&self) -> TaskFilter {
        const STATES: [TaskState; 6] = [
            TaskState::Waiting,
            TaskState::Running,
            TaskState::Succeeded,
            TaskState::Failed,
            TaskState::Cancelled,
            TaskState::Expired,
        ];
        TaskFilter {
            state: self.chance(50).then(|| self.pick(&STATES)),
            queue: self.chance(30).then(|| self.pick(&QUEUES).to_owned()),
            method: self.chance(30).then(|| self.pick(&METHODS).to_owned()),
            schedule: self.chance(30).then(|| self.pick(&SCHEDULES).to_owned()),
        }
    }
}

/// Keeps the newest.
fn forget<T>(memory: &mut Vec<T>) {
    let excess = memory.len().saturating_sub(REMEMBERED_MAX);
    memory.drain(..excess);
}
