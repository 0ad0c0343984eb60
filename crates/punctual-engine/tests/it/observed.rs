//! Who observes attempts hears of each that was recorded, once, and cannot disturb the engine.

use crate::calls::{Oops, Step, on};
use crate::world::World;
use punctual_engine::{AttemptEnd, ObserveAttempts, TaskEnd, Verdict};
use punctual_task::{Next, Outcome, TaskId, TaskState};
use std::sync::{Arc, Mutex};

/// A task, its attempt, how that ended, and the task's last state if it was the last.
type Told = (TaskId, u32, Outcome, Option<TaskState>);

#[derive(Debug, Default)]
struct Heard(Mutex<Vec<Told>>);

impl ObserveAttempts for Heard {
    fn ended(&self, end: &AttemptEnd<'_>) {
        let last = match end.next {
            Next::Final(state) => Some(state),
            Next::Again { .. } => None,
        };
        assert_eq!((end.schedule, end.queue.is_empty()), (None, false));
        self.0.lock().unwrap().push((end.task, end.n, end.outcome, last));
    }
}

/// Attempts that are followed by another, and ends of both kinds, are told with the task and in order; none is told twice.
#[tokio::test(start_paused = true)]
async fn each_recorded_attempt_is_told_once() {
    let world = World::new();
    let heard = Arc::new(Heard::default());
    let handler = on(|step: Step| async move { if step.n == 1 { Ok(1) } else { Err(Oops::new(7)) } });
    let engine = world.builder().observer(Arc::<Heard>::clone(&heard)).serve(handler).start().await.unwrap();
    let good = engine.enqueue(Step { n: 1 }).await.unwrap();
    let bad = engine.enqueue(Step { n: 2 }).attempts(2).await.unwrap();
    assert_eq!(engine.wait(&good).await.unwrap(), TaskEnd::Succeeded(1));
    assert!(matches!(engine.wait(&bad).await.unwrap(), TaskEnd::Failed(_)));
    let mut told = heard.0.lock().unwrap().clone();
    told.sort_by_key(|(task, n, ..)| (*task, *n));
    assert_eq!(
        told,
        [
            (good.id, 1, Outcome::Succeeded, Some(TaskState::Succeeded)),
            (bad.id, 1, Outcome::Failed, None),
            (bad.id, 2, Outcome::Failed, Some(TaskState::Failed)),
        ]
    );
}

#[derive(Debug)]
struct Panics;

impl ObserveAttempts for Panics {
    fn ended(&self, _: &AttemptEnd<'_>) {
        panic!("an observer that does not do");
    }
}

/// What an observer panics with ends neither the recording nor the task.
#[tokio::test(start_paused = true)]
async fn a_panic_of_an_observer_is_caught() {
    let world = World::new();
    let handler =
        on(|step: Step| async move { if step.n < 9 { Ok(step.n) } else { Err(Oops::with(1, Verdict::DeadLetter)) } });
    let engine = world.builder().observer(Arc::new(Panics)).serve(handler).start().await.unwrap();
    let tasks = engine.enqueue_many((1..=3).map(|n| Step { n })).await.unwrap();
    for (task, n) in tasks.iter().zip(1..) {
        assert_eq!(engine.wait(task).await.unwrap(), TaskEnd::Succeeded(n));
    }
    assert_eq!(engine.stats().finished, 3);
}
