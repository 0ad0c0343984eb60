//! One task from its enqueue to its end.

use crate::calls::{Oops, Step, Thing, on};
use crate::world::{Ledger, SECOND, START, World, pass};
use bytes::Bytes;
use punctual_clock::Clock;
use punctual_context::{CancelReason, Context};
use punctual_engine::{ErrorKind, TaskEnd, TaskError, Verdict};
use punctual_task::{Outcome, Store, TaskState};
use std::sync::Arc;
use std::time::Duration;

/// A result is kept, reads back with its type, and is there for whoever asks later.
#[tokio::test(start_paused = true)]
async fn a_result_is_kept() {
    let world = World::new();
    let engine = world.builder().serve(on(|step: Step| async move { Ok(step.n * 2) })).start().await.unwrap();
    let task = engine.enqueue(Step { n: 21 }).await.unwrap();
    assert!(task.inserted);
    assert_eq!(engine.wait(&task).await.unwrap(), TaskEnd::Succeeded(42));
    assert_eq!(engine.outcome::<Step>(task.id).await.unwrap(), Some(TaskEnd::Succeeded(42)));
    assert_eq!(engine.wait_json(task.id).await.unwrap(), TaskEnd::Succeeded(serde_json::json!(42)));
    let detail = world.detail(task.id).await;
    assert_eq!((detail.view.state, detail.attempts.len()), (TaskState::Succeeded, 1));
    assert_eq!(world.seconds(), 0, "an idle engine picks a task up without waiting for a poll");
}

/// A failing task is tried as often as its policy says, each time after its backoff by the store's clock, and its last
/// error reads back with its type.
#[tokio::test(start_paused = true)]
async fn failures_are_retried_after_their_backoff() {
    let world = World::new();
    let ledger = Arc::new(Ledger::default());
    let (clock, tried) = (Arc::clone(&world.clock), Arc::clone(&ledger));
    let handler = on(move |_: Step| {
        tried.add(clock.timestamp().since(START).as_secs());
        async { Err(Oops::new(7)) }
    });
    let engine = world.builder().serve(handler).start().await.unwrap();
    let task = engine.enqueue(Step { n: 1 }).await.unwrap();
    let end = engine.wait(&task).await.unwrap();
    let error = TaskError { outcome: Outcome::Failed, message: "oops 7".to_owned(), error: Some(Oops::new(7)) };
    assert_eq!(end, TaskEnd::Failed(error));
    assert_eq!(ledger.entries(), [0, 10, 20]);
    let outcomes: Vec<_> = world.detail(task.id).await.attempts.iter().map(|a| (a.n, a.outcome)).collect();
    assert_eq!(outcomes, [(1, Outcome::Failed), (2, Outcome::Failed), (3, Outcome::Failed)]);
    let stats = engine.stats();
    assert_eq!((stats.retried, stats.failed, stats.succeeded), (2, 1, 0));
}

/// Each verdict does what it says: retry after a time, snooze without spending, dead letter, cancel.
#[tokio::test(start_paused = true)]
async fn errors_choose_what_follows() {
    let world = World::new();
    let ledger = Arc::new(Ledger::default());
    let (clock, tried) = (Arc::clone(&world.clock), Arc::clone(&ledger));
    let handler = on(move |step: Step| {
        let second = clock.timestamp().since(START).as_secs();
        tried.add(step.n * 1_000 + second);
        async move {
            match step.n {
                1 if second == 0 => Err(Oops::with(1, Verdict::RetryAfter(SECOND * 3))),
                2 if second < 12 => Err(Oops::with(2, Verdict::Snooze(SECOND * 4))),
                3 => Err(Oops::with(3, Verdict::DeadLetter)),
                4 => Err(Oops::with(4, Verdict::Cancel)),
                n => Ok(n),
            }
        }
    });
    let engine = world.builder().serve(handler).start().await.unwrap();
    let tasks = engine.enqueue_many((1..=4).map(|n| Step { n })).await.unwrap();
    let mut ends = Vec::new();
    for task in &tasks {
        ends.push(engine.wait(task).await.unwrap());
    }
    assert_eq!(ends[0], TaskEnd::Succeeded(1));
    assert_eq!(ends[1], TaskEnd::Succeeded(2), "four attempts of three: snoozes are not spent");
    assert!(matches!(&ends[2], TaskEnd::Failed(error) if error.error == Some(Oops::new(3))));
    assert_eq!(ends[3], TaskEnd::Cancelled);
    let mut entries = ledger.entries();
    entries.sort_unstable();
    assert_eq!(entries, [1_000, 1_003, 2_000, 2_004, 2_008, 2_012, 3_000, 4_000]);
    assert_eq!(engine.stats().snoozed, 3);
}

/// A panic is one failed attempt, with its message kept; the engine and its other tasks go on.
#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failed_attempt() {
    let world = World::new();
    let handler = on(|step: Step| async move {
        match step.n {
            1 => panic!("no such thing"),
            n => Ok(n),
        }
    });
    let engine = world.builder().serve(handler).start().await.unwrap();
    let bad = engine.enqueue(Step { n: 1 }).attempts(2).await.unwrap();
    let good = engine.enqueue(Step { n: 2 }).await.unwrap();
    assert_eq!(engine.wait(&good).await.unwrap(), TaskEnd::Succeeded(2));
    let error = engine.wait(&bad).await.unwrap().failed().unwrap();
    assert_eq!(error.outcome, Outcome::Panicked);
    assert!(error.message.contains("no such thing"), "{error}");
    assert_eq!(engine.stats().panicked, 2);
}

/// A handler that does not even begin, since it panics before its first await, is a failed attempt too.
#[tokio::test(start_paused = true)]
async fn a_panic_before_the_first_await_is_caught() {
    let world = World::new();
    let handler = on(|step: Step| {
        assert!(step.n != 1, "refused at once");
        async move { Ok(step.n) }
    });
    let engine = world.builder_with(|config| config.slots = 1).serve(handler).start().await.unwrap();
    let bad = engine.enqueue(Step { n: 1 }).attempts(1).await.unwrap();
    let good = engine.enqueue(Step { n: 2 }).await.unwrap();
    assert_eq!(engine.wait(&bad).await.unwrap().failed().unwrap().outcome, Outcome::Panicked);
    assert_eq!(engine.wait(&good).await.unwrap(), TaskEnd::Succeeded(2));
}

/// The budget is the handler's deadline; when it ends the token fires, and a handler that ignores it is dropped after the
/// grace, which spends an attempt.
#[tokio::test(start_paused = true)]
async fn a_handler_that_ignores_its_budget_is_dropped() {
    struct Dropped(Arc<Ledger>, Arc<punctual_testkit::TokioClock>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.add(self.1.timestamp().since(START).as_secs());
        }
    }
    let world = World::new();
    let ledger = Arc::new(Ledger::default());
    let (clock, dropped) = (Arc::clone(&world.clock), Arc::clone(&ledger));
    let handler = on(move |_: Step| {
        let guard = Dropped(Arc::clone(&dropped), Arc::clone(&clock));
        async move {
            let context = Context::current().expect("a handler has a context");
            assert_eq!(context.remaining(), Some(SECOND * 5));
            std::future::pending::<()>().await;
            drop(guard);
            Ok(0)
        }
    });
    let engine = world.builder().serve(handler).start().await.unwrap();
    let task = engine.enqueue(Step { n: 1 }).timeout(SECOND * 5).attempts(2).await.unwrap();
    let error = engine.wait(&task).await.unwrap().failed().unwrap();
    assert_eq!(error.outcome, Outcome::TimedOut);
    assert!(error.message.contains("5s"), "it names the timeout: {error}");
    assert_eq!(ledger.entries(), [7, 24], "5 s budget, 2 s grace, 10 s backoff, 5 s budget, 2 s grace");
    assert_eq!(engine.stats().timed_out, 2);
}

/// Within the grace a handler may still end by itself: its success is kept, its error is a timeout.
#[tokio::test(start_paused = true)]
async fn a_handler_may_heed_its_token() {
    let world = World::new();
    let handler = on(|step: Step| async move {
        let context = Context::current().expect("a handler has a context");
        assert_eq!(context.cancelled().await, CancelReason::Deadline);
        if step.n == 1 { Ok(1) } else { Err(Oops::with(2, Verdict::DeadLetter)) }
    });
    let engine = world.builder().serve(handler).start().await.unwrap();
    let good = engine.enqueue(Step { n: 1 }).await.unwrap();
    let bad = engine.enqueue(Step { n: 2 }).attempts(1).await.unwrap();
    assert_eq!(engine.wait(&good).await.unwrap(), TaskEnd::Succeeded(1));
    let error = engine.wait(&bad).await.unwrap().failed().unwrap();
    assert_eq!((error.outcome, error.error), (Outcome::TimedOut, Some(Oops::new(2))));
    assert_eq!(world.seconds(), 60);
}

/// A handler that blocks its thread cannot be dropped: it is given up after the bound, its attempt ends as timed out, and
/// its slot goes on with other tasks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocking_handler_is_given_up() {
    use punctual_clock::SystemClock;
    use punctual_engine::{Engine, EngineConfig};
    use punctual_task::MemStore;
    use punctual_testkit::SteppedClock;

    let clock = Arc::new(SteppedClock::starting_at(START));
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let (entered, has_entered) = tokio::sync::oneshot::channel::<()>();
    let once = std::sync::Mutex::new(Some((entered, blocked)));
    let handler = on(move |step: Step| {
        let first = if step.n == 1 { once.lock().unwrap().take() } else { None };
        if let Some((entered, blocked)) = first {
            entered.send(()).unwrap();
            // Until the test ends: no token reaches a thread that waits like this.
            let _ = blocked.recv();
        }
        async move { Ok(step.n) }
    });
    let mut config = EngineConfig::default();
    config.slots = 1;
    config.renewal = Duration::from_millis(5);
    config.lease = SECOND * 7_200;
    config.stop_after = SECOND * 7_000;
    let store = Arc::new(MemStore::new(Arc::new(SystemClock)));
    let engine = Engine::builder(store)
        .clock(Arc::<SteppedClock>::clone(&clock))
        .config(config)
        .serve(handler)
        .start()
        .await
        .unwrap();
    let stuck = engine.enqueue(Step { n: 1 }).attempts(1).await.unwrap();
    let next = engine.enqueue(Step { n: 2 }).await.unwrap();
    has_entered.await.unwrap();
    // Its budget and the bound, and then the time between two looks.
    clock.advance(SECOND * (60 + 301));
    while engine.stats().abandoned == 0 {
        clock.advance(SECOND);
        tokio::task::yield_now().await;
    }
    assert_eq!(engine.wait(&stuck).await.unwrap().failed().unwrap().outcome, Outcome::TimedOut);
    assert_eq!(engine.wait(&next).await.unwrap(), TaskEnd::Succeeded(2));
    assert_eq!(engine.stats().abandoned, 1);
    release.send(()).unwrap();
}

/// A delayed task begins at its instant, by the store's clock, and one for the past at once.
#[tokio::test(start_paused = true)]
async fn delays_are_kept() {
    let world = World::new();
    let ledger = Arc::new(Ledger::default());
    let (clock, ran) = (Arc::clone(&world.clock), Arc::clone(&ledger));
    let handler = on(move |step: Step| {
        let late = clock.timestamp().since(START.after(SECOND * u32::try_from(step.n).unwrap()));
        assert!(late < Duration::from_millis(5), "{} s was {late:?} late", step.n);
        ran.add(step.n);
        async { Ok(0) }
    });
    let engine = world.builder().serve(handler).start().await.unwrap();
    let last = engine.enqueue(Step { n: 90 }).delay(SECOND * 90).await.unwrap();
    engine.enqueue(Step { n: 30 }).at(START.after(SECOND * 30)).await.unwrap();
    engine.enqueue(Step { n: 0 }).at(START.before(SECOND * 30)).await.unwrap();
    engine.wait(&last).await.unwrap();
    assert_eq!(ledger.entries(), [0, 30, 90]);
}

/// A task that was not begun by its `start_by` expires without running, and `finish_by` cuts the budget.
#[tokio::test(start_paused = true)]
async fn late_tasks_expire() {
    let world = World::new();
    let ledger = Arc::new(Ledger::default());
    let ran = Arc::clone(&ledger);
    let handler = on(move |step: Step| {
        ran.add(step.n);
        let budget = Context::current().and_then(|context| context.remaining()).unwrap_or_default();
        async move { Ok(budget.as_secs()) }
    });
    let producer = world.builder().start().await.unwrap();
    let late = producer.enqueue(Step { n: 1 }).start_by(START.after(SECOND)).await.unwrap();
    let over = producer.enqueue(Step { n: 2 }).finish_by(START.after(SECOND)).await.unwrap();
    let cut = producer.enqueue(Step { n: 3 }).finish_by(START.after(SECOND * 9)).await.unwrap();
    pass(SECOND * 2).await;
    let engine = world.builder().serve(handler).start().await.unwrap();
    assert_eq!(engine.wait(&late).await.unwrap(), TaskEnd::Expired);
    assert_eq!(engine.wait(&over).await.unwrap(), TaskEnd::Expired);
    assert_eq!(engine.wait(&cut).await.unwrap(), TaskEnd::Succeeded(7));
    assert_eq!(ledger.entries(), [3]);
    assert_eq!(engine.stats().expired, 2);
}

/// A task of a method that no engine serves waits, and runs when one does.
#[tokio::test(start_paused = true)]
async fn an_unknown_method_waits() {
    let world = World::new();
    let first = world.builder().serve(on(|_: Step| async { Ok(1) })).start().await.unwrap();
    let task = first.enqueue(Thing {}).await.unwrap();
    pass(SECOND * 60).await;
    let detail = world.detail(task.id).await;
    assert!(!detail.view.state.is_final() && detail.attempts.is_empty(), "{detail:?}");
    let second = world.builder().serve(on(|_: Thing| async { Ok(2) })).start().await.unwrap();
    assert_eq!(second.wait(&task).await.unwrap(), TaskEnd::Succeeded(2));
}

/// Arguments that the method cannot read are a dead letter with the reason, after one attempt; JSON that is none is
/// refused at the enqueue.
#[tokio::test(start_paused = true)]
async fn bad_arguments_are_a_dead_letter() {
    let world = World::new();
    let engine = world.builder().serve(on(|step: Step| async move { Ok(step.n) })).start().await.unwrap();
    let task = engine.enqueue_json("Test/step", Bytes::from_static(b"{\"n\":\"seven\"}")).await.unwrap();
    let error = engine.wait_json(task.id).await.unwrap().failed().unwrap();
    assert!(error.message.contains("Test/step") && error.message.contains("seven"), "{error}");
    assert_eq!(world.detail(task.id).await.attempts.len(), 1);
    let refused = engine.enqueue_json("Test/step", Bytes::from_static(b"{n}")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Payload);
}

/// A result beyond the store's limit does not crash-loop: the work is done, so the task is a dead letter that says so.
#[tokio::test(start_paused = true)]
async fn a_result_that_cannot_be_kept_is_a_dead_letter() {
    use punctual_engine::{DurableMethod, HandlerFuture, Handlers};
    struct Large;
    impl Handlers for Large {
        fn service(&self) -> &'static str {
            "Test"
        }
        fn methods(&self) -> Vec<DurableMethod> {
            vec![DurableMethod::of::<Step>()]
        }
        fn run(&self, _: &str, args: Bytes) -> HandlerFuture {
            let bytes = if args.ends_with(b"1}") { punctual_task::OUT_BYTES_MAX + 1 } else { 1 };
            Box::pin(async move { Ok(Bytes::from(vec![b'1'; bytes])) })
        }
    }
    let world = World::new();
    let engine = world.builder().serve(Large).start().await.unwrap();
    let tasks = engine.enqueue_many((0..4).map(|n| Step { n })).await.unwrap();
    for (n, task) in tasks.iter().enumerate() {
        match engine.wait(task).await.unwrap() {
            TaskEnd::Failed(error) => assert!(n == 1 && error.message.contains("limit"), "{n}: {error}"),
            end => assert!(n != 1 && end == TaskEnd::Succeeded(1), "{n}: {end:?}"),
        }
    }
}

/// A handler knows which attempt of which task it serves.
#[tokio::test(start_paused = true)]
async fn a_handler_knows_its_attempt() {
    let world = World::new();
    let handler = on(|_: Step| async {
        let context = Context::current().expect("a handler has a context");
        let task = context.task().expect("of a task").clone();
        assert_eq!((task.attempts_max, task.queue.as_str(), task.created), (3, "Test", START));
        assert!(task.slot.is_none() && context.peer().is_none());
        if task.attempt < 3 { Err(Oops::new(task.attempt)) } else { Ok(task.id) }
    });
    let engine = world.builder().serve(handler).start().await.unwrap();
    let task = engine.enqueue(Step { n: 1 }).await.unwrap();
    assert_eq!(engine.wait(&task).await.unwrap(), TaskEnd::Succeeded(u64::try_from(task.id.0).unwrap()));
}

/// A paused queue gives nothing, and goes on at once when it is resumed; an engine that names its queues leaves others.
#[tokio::test(start_paused = true)]
async fn queues_are_paused_and_chosen() {
    let world = World::new();
    let engine = world
        .builder_with(|config| config.queues = vec!["a".to_owned(), "b".to_owned()])
        .serve(on(|step: Step| async move { Ok(step.n) }))
        .start()
        .await
        .unwrap();
    assert!(engine.pause_queue("b", true).await.unwrap());
    let a = engine.enqueue(Step { n: 1 }).queue("a").await.unwrap();
    let b = engine.enqueue(Step { n: 2 }).queue("b").await.unwrap();
    let other = engine.enqueue(Step { n: 3 }).queue("other").await.unwrap();
    assert_eq!(engine.wait(&a).await.unwrap(), TaskEnd::Succeeded(1));
    pass(SECOND * 10).await;
    assert_eq!(world.state(b.id).await, TaskState::Waiting);
    engine.pause_queue("b", false).await.unwrap();
    assert_eq!(engine.wait(&b).await.unwrap(), TaskEnd::Succeeded(2));
    assert_eq!(world.state(other.id).await, TaskState::Waiting);
}

/// A second enqueue under a held key gives the first task; a task that there is none of says so.
#[tokio::test(start_paused = true)]
async fn keys_and_missing_tasks() {
    let world = World::new();
    let engine = world.builder().start().await.unwrap();
    let first = engine.enqueue(Step { n: 1 }).key("k").await.unwrap();
    let second = engine.enqueue(Step { n: 2 }).key("k").await.unwrap();
    assert_eq!((second.id, second.inserted), (first.id, false));
    assert_eq!(engine.stats().enqueued, 1);
    let missing = engine.outcome::<Step>(punctual_task::TaskId(999_999)).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

/// An engine that serves nothing registers no worker and asks the store for nothing while it is idle.
#[tokio::test(start_paused = true)]
async fn a_producer_is_no_worker() {
    use punctual_testkit::Op;
    let world = World::new();
    let engine = world.builder().start().await.unwrap();
    engine.enqueue(Step { n: 1 }).await.unwrap();
    pass(SECOND * 120).await;
    assert_eq!(engine.worker(), None);
    assert!(world.store.workers().await.unwrap().is_empty());
    for op in [Op::Register, Op::Claim, Op::Renew, Op::Materialise, Op::Rescue, Op::Prune] {
        assert_eq!(world.store.calls(op), 0, "{op:?}");
    }
}
