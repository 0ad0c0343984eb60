//! Who waits for what, is woken when it may have come, and leaves nothing behind.

use crate::codec::Codec;
use crate::frame::{CallId, GoAway, GoAwayReason, Outcome, Ping, ResponseHead};
use crate::session::tests::world::{BODIES, Counted, World, agreement, body_of};
use crate::session::*;
use crate::status::Status;
use punctual_clock::Instant;
use punctual_context::CancelReason;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Wake, Waker};

const OK: ResponseHead<'static> = ResponseHead {
    outcome: Outcome::Ok,
    codec: Codec::Raw,
    metadata: &[],
    streamed: false,
    total: None,
    plain: None,
    body: &[],
};

fn counted() -> (Arc<Counted>, Option<Waker>) {
    let counted = Arc::new(Counted::default());
    (Arc::clone(&counted), Some(Waker::from(counted)))
}

fn woken(counted: &Counted) -> usize {
    counted.0.load(Ordering::SeqCst)
}

/// A world in which more replies can be under way than the ring of big messages holds.
fn many(queue_bytes: u32) -> World {
    let mut agreement = agreement();
    agreement.limits.running_calls_max = 32;
    agreement.limits.pending_calls_max = 32;
    agreement.limits.send_queue_bytes_max = queue_bytes;
    World::under(agreement)
}

/// Handlers that run, and a ring of replies that is full.
fn full_ring() -> World {
    let mut world = many(4 << 20);
    for _ in 0..12 {
        world.call(0, BODIES[0]);
    }
    world.client_writes(usize::MAX);
    world.server_reads(usize::MAX, usize::MAX);
    assert_eq!(world.handlers.len(), 12);
    for _ in 0..ASSEMBLED_MESSAGES_MAX {
        let (key, _) = world.handlers.remove(0);
        let finished = world.server.finish(key, OK, &mut Body::shared(body_of(140_000, 0)), &mut None);
        assert!(matches!(finished, Finished::Done { .. }));
    }
    world
}

/// A reply that found the ring full waits for the ring: a write that leaves it full wakes nobody, although the queue has
/// room, and the end of a message in it does.
#[test]
fn a_reply_waits_for_the_ring_that_refused_it() {
    let mut world = full_ring();
    let (key, _) = world.handlers[0];
    let (waiter, mut waker) = counted();
    let mut body = Body::shared(body_of(200_000, 0));
    assert!(matches!(world.server.finish(key, OK, &mut body, &mut waker), Finished::NoRoom));
    assert!(waker.is_none(), "it is parked");
    world.server_writes(1);
    let Effects { wakers, .. } = &mut world.effects;
    wakers.drain(..).for_each(Waker::wake);
    assert_eq!(woken(&waiter), 0, "a byte left the queue, and no message the ring");
    for _ in 0..6 {
        world.server_writes(usize::MAX);
    }
    world.effects.run();
    assert_eq!(woken(&waiter), 1);
    assert!(matches!(world.server.finish(key, OK, &mut body, &mut None), Finished::Done { .. }));
}

/// A client that drains its connection wakes who waits in line for the server: nothing that is under way need ever end.
#[test]
fn draining_wakes_who_waits_in_line() {
    let mut world = many(4 << 20);
    for _ in 0..32 {
        world.call(0, BODIES[0]);
    }
    assert!(!world.client.has_place());
    let (waiter, mut waker) = counted();
    let mut effects = Effects::default();
    let ticket = world.client.enter_line(waker.take().unwrap(), &mut effects);
    effects.run();
    assert_eq!(woken(&waiter), 0);
    world.client.drain(&mut effects);
    effects.run();
    assert_eq!(woken(&waiter), 1);
    let (_, mut other) = counted();
    assert!(world.client.poll_line(ticket, other.as_mut().unwrap()), "it is told to go elsewhere");
    assert!(!world.client.has_place());
}

/// However often a call asks for room it is parked once, and its end takes it away.
#[test]
fn a_waiter_is_parked_once_and_leaves_with_its_call() {
    let mut world = full_ring();
    let (key, _) = world.handlers[0];
    let (waiter, _) = counted();
    for _ in 0..100 {
        let mut waker = Some(Waker::from(Arc::clone(&waiter)));
        let mut body = Body::shared(body_of(70_000, 0));
        assert!(matches!(world.server.finish(key, OK, &mut body, &mut waker), Finished::NoRoom));
    }
    // The test's own, and the one that is parked.
    assert_eq!(Arc::strong_count(&waiter), 2);
    drop(world.server.release(key));
    assert_eq!(Arc::strong_count(&waiter), 1, "nothing stays parked for a call that is over");
    world.server_writes(usize::MAX);
    world.server_writes(usize::MAX);
    world.effects.run();
    assert_eq!(woken(&waiter), 0);
}

/// The same on the client: a caller that waits for the ring is parked once, and leaves when it gives up.
#[test]
fn a_caller_waits_for_the_ring_once() {
    let mut world = many(1 << 20);
    for _ in 0..ASSEMBLED_MESSAGES_MAX {
        world.call(0, BODIES[4]);
    }
    let (caller, _) = counted();
    let mut waiter = None;
    for _ in 0..100 {
        let mut waker = Some(Waker::from(Arc::clone(&caller)));
        assert!(!world.client.poll_bulk(70_000, &mut waiter, &mut waker));
    }
    assert_eq!(Arc::strong_count(&caller), 2);
    drop(world.client.leave_bulk(waiter.unwrap()));
    assert_eq!(Arc::strong_count(&caller), 1);
    let mut waker = Some(Waker::from(Arc::clone(&caller)));
    assert!(!world.client.poll_bulk(70_000, &mut waiter, &mut waker));
    // A cancel takes a message out of the ring, which is a place like any other.
    world.drop_call(0);
    world.effects.run();
    assert_eq!(woken(&caller), 1);
    assert!(world.client.poll_bulk(70_000, &mut waiter, &mut None));
    world.quiesce();
}

/// Between the gate's "wait in the line" and the line the last running call may end. Who enters then is let in at once.
#[test]
fn the_line_grants_what_became_free_before_it_was_entered() {
    let mut world = World::new();
    for _ in 0..6 {
        world.call(0, BODIES[0]);
    }
    while !world.callers.is_empty() {
        world.drop_call(0);
    }
    let ticket = world.client.enter_line(Waker::noop().clone(), &mut world.effects);
    assert!(world.client.poll_line(ticket, &mut Waker::noop().clone()), "nobody is left to grant it");
    world.client.leave_line(ticket, &mut world.effects);
    world.quiesce();
}

/// A call that is not run is answered even where the queue is full.
#[test]
fn a_refusal_passes_a_full_queue() {
    let mut world = many(1 << 20);
    for _ in 0..32 {
        world.call(0, BODIES[0]);
    }
    world.client_writes(usize::MAX);
    world.server_reads(usize::MAX, usize::MAX);
    let full = loop {
        let (key, _) = world.handlers.remove(0);
        let mut body = Body::shared(body_of(60_000, 0));
        if matches!(world.server.finish(key, OK, &mut body, &mut None), Finished::NoRoom) {
            break key;
        }
    };
    let mut status = Vec::new();
    Status::unimplemented("no such method").encode(&mut status);
    let before = world.server.outbox().queued_bytes();
    assert!(matches!(world.server.refuse_run(full, &status), Finished::Done { .. }));
    assert!(world.server.outbox().queued_bytes() > before + status.len(), "it is queued");
}

/// A goodbye for a violation says nothing of which calls were run: none of them is "never accepted".
#[test]
fn a_violation_promises_nothing_about_calls() {
    let mut world = World::new();
    world.call(0, BODIES[0]);
    GoAway { accepted: 0, reason: GoAwayReason::ProtocolViolation, text: "frame kind 99" }.put_into(&mut world);
    world.client_reads(usize::MAX, usize::MAX);
    drop(world.client.close(Closure::Lost("closed".into()), &mut world.effects));
    let caller = &world.callers[0];
    let polled = world.client.poll_reply(caller.key, Waker::noop(), &mut None, &mut Vec::new());
    let ReplyPoll::Ready(Reply::Failed(Ending::Closed(closure))) = polled else { panic!("{polled:?}") };
    assert!(matches!(closure, Closure::GoAway(GoAwayReason::ProtocolViolation, _)), "{closure:?}");
}

trait PutInto {
    fn put_into(&self, world: &mut World);
}

impl PutInto for GoAway<'_> {
    fn put_into(&self, world: &mut World) {
        let mut out = Vec::new();
        self.put(&mut out);
        world.to_client.bytes.extend_from_slice(&out);
    }
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a defect of one task");
    }
}

/// A waker that panics keeps nobody else asleep.
#[test]
fn a_waker_that_panics_hangs_nobody() {
    let (first, first_waker) = counted();
    let (last, last_waker) = counted();
    let mut effects = Effects::default();
    effects.wakers.extend(first_waker);
    effects.wakers.push(Waker::from(Arc::new(Panics)));
    effects.wakers.extend(last_waker);
    let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| effects.run()));
    assert!(run.is_err(), "the defect is not hidden");
    assert_eq!((woken(&first), woken(&last)), (1, 1));
    assert!(effects.is_empty());
}

/// On a connection that is never done writing what was written counts no more against the reserve of pings.
#[test]
fn a_busy_connection_keeps_its_liveness() {
    let mut world = many(4 << 20);
    for _ in 0..32 {
        world.call(0, BODIES[3]);
    }
    let mut sent = 0;
    while sent < 2 * PROGRESS_BYTES_MAX {
        assert!(world.client.outbox().push_ping(Ping(0)), "refused after {sent} bytes");
        sent += 24;
        assert!(world.client.send_oneway(world.head(Instant::FAR, true), &mut Body::copied(&[0; 64])).is_ok());
        let before = world.client.outbox().queued_bytes();
        if before > 8_000 {
            let mut reached = Vec::new();
            world.client.outbox().note_written(before / 2, &mut reached, &mut Vec::new());
        }
        assert!(!world.client.outbox().is_flushed());
    }
}

/// A peer that pings without reading is still found out.
#[test]
fn pings_that_are_not_written_are_bounded() {
    let mut world = World::new();
    let mut pings = 0;
    while world.client.outbox().push_ping(Ping(0)) {
        pings += 1;
        assert!(pings <= PROGRESS_BYTES_MAX);
    }
}

/// One-way calls count against the permits of the server's pool: above them reading pauses until some have ended.
#[test]
fn oneways_above_the_pool_pause_reading() {
    let mut world = World::new();
    let surplus = world.server.take_permits(2);
    assert_eq!(surplus, 998);
    for _ in 0..3 {
        world.oneway(0, BODIES[0]);
    }
    world.client_writes(usize::MAX);
    world.server_reads(usize::MAX, usize::MAX);
    assert!(world.server.must_pause());
    let (key, _) = world.handlers.remove(0);
    drop(world.server.release(key));
    assert!(!world.server.must_pause());
    world.server.grant_permits(surplus);
    world.quiesce();
}

/// Who watches for a cancel with ever new wakers does not pile them up, and is still told.
#[test]
fn watchers_are_bounded() {
    let mut world = World::new();
    world.call(0, BODIES[0]);
    world.client_writes(usize::MAX);
    world.server_reads(usize::MAX, usize::MAX);
    let call = world.handlers[0].0.call();
    let watchers: Vec<_> = (0..1_000).map(|_| counted()).collect();
    for (_, waker) in &watchers {
        assert_eq!(world.server.watch(call, &mut waker.clone(), &mut world.effects), None);
        world.effects.run();
    }
    let asleep: Vec<_> = watchers.iter().filter(|(counted, _)| woken(counted) == 0).collect();
    assert!(asleep.len() <= 64, "{}", asleep.len());
    world.drop_call(0);
    world.client_writes(usize::MAX);
    world.server_reads(usize::MAX, usize::MAX);
    world.effects.run();
    assert!(watchers.iter().all(|(counted, _)| woken(counted) == 1));
    world.quiesce();
}

/// Whoever asks first after the handler is gone is told how it went, as is whoever waited: nobody waits for ever.
#[test]
fn a_watcher_that_outlives_the_handler_is_told() {
    let mut world = World::new();
    for _ in 0..2 {
        world.call(0, BODIES[0]);
    }
    world.client_writes(usize::MAX);
    world.server_reads(usize::MAX, usize::MAX);
    let calls = [world.handlers[0].0.call(), world.handlers[1].0.call()];
    let (counted, waker) = counted();
    assert_eq!(world.server.watch(calls[1], &mut waker.clone(), &mut world.effects), None);
    world.drop_call(0);
    world.client_writes(usize::MAX);
    world.server_reads(usize::MAX, usize::MAX);
    world.look(0);
    world.finish(0);
    assert_eq!(world.server.watch(calls[0], &mut None, &mut world.effects), Some(CancelReason::User));
    assert_eq!(world.server.watch(calls[1], &mut None, &mut world.effects), Some(CancelReason::Ended));
    assert_eq!(woken(&counted), 1);
    assert_eq!(world.server.cancel_reason(calls[1]), None);
    world.quiesce();
}

/// The id that means the connection itself is no call's.
#[test]
fn no_call_has_the_id_of_the_connection() {
    let mut world = World::new();
    world.call(0, BODIES[0]);
    world.client_writes(usize::MAX);
    assert!(!world.seen.contains_key(&CallId::NONE.as_u64()));
    world.quiesce();
}
