//! Single promises, step by step.

use crate::frame::{CallId, Cancel, CancelCause, GoAway, GoAwayReason, HEADER_BYTES, NO_NEW_CALLS, Ping};
use crate::session::tests::world::{BODIES, Counted, MILLI, World, body_of};
use crate::session::*;
use crate::status::Status;
use punctual_clock::Instant;
use punctual_context::CancelReason;
use std::sync::atomic::Ordering;
use std::task::Waker;

/// A final go-away counts heads in wire order on both sides, one-way calls and big ones included.
#[test]
fn both_sides_count_the_same_heads() {
    let mut world = World::new();
    world.call(0, BODIES[4]);
    world.oneway(0, BODIES[0]);
    world.call(0, BODIES[0]);
    world.client_writes(usize::MAX);
    world.server_reads(usize::MAX, 2);
    let _ = world.server.end_drain(GoAwayReason::Shutdown, "");
    world.drained = true;
    world.server_reads(usize::MAX, usize::MAX);
    assert_eq!(world.server.counters().accepted, 2, "the third head came behind the count");
    world.server_writes(usize::MAX);
    world.client_reads(usize::MAX, usize::MAX);
    world.effects.run();
    let (first, third) = (world.callers[0].woken.clone(), world.callers[1].woken.clone());
    let woken = |caller: &Counted| caller.0.load(Ordering::SeqCst);
    assert_eq!((woken(&first), woken(&third)), (0, 1), "the client knows which of its calls that is");
    world.quiesce();
}

/// The bytes of a cancel are reserved when its request is admitted: a full queue cannot keep it back.
#[test]
fn a_cancel_fits_a_full_queue() {
    let mut world = World::new();
    world.call(0, BODIES[0]);
    while world.client.send_oneway(world.head(Instant::FAR, true), &mut Body::shared(body_of(60_000, 0))).is_ok() {
        world.published += 1;
    }
    while world.client.send_oneway(world.head(Instant::FAR, true), &mut Body::copied(&[0; 8])).is_ok() {
        world.published += 1;
    }
    let before = world.client.outbox().queued_bytes();
    world.drop_call(0);
    let after = world.client.outbox().queued_bytes();
    assert_eq!(after - before, Cancel::FRAME_BYTES_MAX);
    assert!(after <= world.client.outbox().queue_bytes_max());
    world.quiesce();
}

/// A reply at or behind the deadline counts as late even if nothing noticed the deadline before.
#[test]
fn a_reply_behind_the_deadline_is_late() {
    let mut world = World::new();
    world.call(5, BODIES[0]);
    world.client_writes(usize::MAX);
    world.server_reads(usize::MAX, usize::MAX);
    world.finish(0);
    world.server_writes(usize::MAX);
    world.now = world.now.after(MILLI * 5);
    world.client_reads(usize::MAX, usize::MAX);
    world.effects.run();
    assert_eq!(world.client.counters().late_replies, 1);
    world.poll_all();
    assert!(world.callers.is_empty());
    world.quiesce();
}

/// A cancelled big request sends no further pieces, and the receiver forgets those that came.
#[test]
fn a_cancel_replaces_the_rest_of_a_big_request() {
    let mut world = World::new();
    world.call(0, BODIES[5]);
    world.client_writes(70_000);
    world.server_reads(usize::MAX, 1);
    assert_eq!(world.server.assembling(), 1);
    world.drop_call(0);
    world.client_writes(usize::MAX);
    world.client_writes(usize::MAX);
    world.server_reads(usize::MAX, usize::MAX);
    assert_eq!((world.server.assembling(), world.server_reader.assembling_bytes()), (0, 0));
    assert!(world.handlers.is_empty());
    world.quiesce();
}

/// Small calls pass a big one: between two of its pieces whatever else is queued goes out.
#[test]
fn small_calls_are_not_delayed_by_a_big_one() {
    let mut world = World::new();
    world.call(0, BODIES[5]);
    world.client_writes(70_000);
    world.call(0, BODIES[0]);
    // The rest of the batch that was taken before, and the next one, which begins with the small call.
    world.client_writes(140_000);
    world.client_writes(100);
    world.server_reads(usize::MAX, usize::MAX);
    assert_eq!(world.handlers.len(), 1, "the small one is there, the big one is not");
    world.quiesce();
}

/// A stop tells callers and handlers, and the places are free when the handlers are gone.
#[test]
fn cancel_all_answers_and_tells() {
    let mut world = World::new();
    world.call(0, BODIES[0]);
    world.oneway(0, BODIES[0]);
    world.client_writes(usize::MAX);
    world.server_reads(usize::MAX, usize::MAX);
    let status = Status::unavailable("stopping");
    world.server.cancel_all(CancelReason::Shutdown, &status, &mut world.effects);
    assert_eq!(world.server.running(), 2);
    assert_eq!(world.server.cancel_reason(world.handlers[1].0.call()), Some(CancelReason::Shutdown));
    world.look(0);
    world.look(0);
    assert_eq!(world.server.running(), 0);
    world.server_writes(usize::MAX);
    world.client_reads(usize::MAX, usize::MAX);
    world.effects.run();
    world.poll_all();
    assert!(world.callers.is_empty());
    world.quiesce();
}

/// "No new calls" comes first, then the count; what the client sent before it heard is still served.
#[test]
fn a_graceful_pair_of_go_aways() {
    let mut world = World::new();
    let _ = world.server.begin_drain(GoAwayReason::Shutdown, "bye", Ping(7));
    assert!(world.server.awaits_pong());
    world.call(0, BODIES[0]);
    world.client_writes(usize::MAX);
    world.server_writes(usize::MAX);
    let go_away = GoAway::decode(&world.to_client.bytes[HEADER_BYTES..HEADER_BYTES + 12]).unwrap();
    assert_eq!((go_away.accepted, go_away.text), (NO_NEW_CALLS, "bye"));
    world.client_reads(usize::MAX, usize::MAX);
    assert!(!world.client.is_open());
    world.client_writes(usize::MAX);
    world.server_reads(usize::MAX, usize::MAX);
    assert!(!world.server.awaits_pong(), "the pong came behind the call");
    assert_eq!(world.handlers.len(), 1);
    let _ = world.server.end_drain(GoAwayReason::Shutdown, "bye");
    world.drained = true;
    world.finish(0);
    world.quiesce();
}

/// Eight messages and no more are under way at once, so that the receiver's bound is never exceeded.
#[test]
fn the_ring_of_big_messages_is_bounded() {
    let mut world = World::new();
    let mut sent = 0;
    while world.client.send_oneway(world.head(Instant::FAR, true), &mut Body::shared(body_of(70_000, 0))).is_ok() {
        sent += 1;
    }
    assert_eq!(sent, ASSEMBLED_MESSAGES_MAX);
    world.published += sent as u64;
    world.quiesce();
}

/// Calls that wait for a place are let in in order, a permit that is not used goes on, and newcomers do not overtake.
#[test]
fn the_line_is_served_in_order() {
    let mut world = World::new();
    for _ in 0..6 {
        world.call(0, BODIES[0]);
    }
    assert_eq!(world.callers.len(), 6);
    world.call(0, BODIES[0]);
    assert_eq!(world.callers.len(), 6, "six run, the seventh waits");
    let tickets: Vec<Ticket> =
        (0..3).map(|_| world.client.enter_line(Waker::noop().clone(), &mut world.effects)).collect();
    let granted = |world: &mut World| {
        let mut waker = Waker::noop().clone();
        tickets.iter().map(|ticket| world.client.poll_line(*ticket, &mut waker)).collect::<Vec<_>>()
    };
    assert_eq!(granted(&mut world), [false, false, false]);
    world.drop_call(0);
    assert_eq!(granted(&mut world), [true, false, false]);
    world.call(0, BODIES[0]);
    assert_eq!(world.callers.len(), 5, "the free place is granted already");
    world.client.leave_line(tickets[0], &mut world.effects);
    assert_eq!(granted(&mut world), [false, true, false]);
    let mut body = Body::copied(&[1]);
    let opening = Opening {
        head: world.head(Instant::FAR, false),
        body: &mut body,
        deadline: Instant::FAR,
        now: world.now,
        ticket: Some(tickets[1]),
    };
    let opened = world.client.open_call(opening, &mut Some(Waker::noop().clone())).unwrap();
    world.published += 1;
    world.client.leave_line(tickets[2], &mut world.effects);
    world.client.abandon(opened.key, CancelCause::User, &mut world.effects);
    world.quiesce();
}

/// A call id of another slot's call is never confused with it.
#[test]
fn ids_carry_slot_and_generation() {
    let mut world = World::new();
    world.call(0, BODIES[0]);
    let first = world.callers[0].key;
    world.drop_call(0);
    world.call(0, BODIES[0]);
    let second = world.callers[0].key;
    assert_ne!(first, second);
    let (one, other) = (CallId::pending(0, 0), CallId::pending(0, 1));
    assert_ne!(one, other);
    // The old handle does nothing to the new call.
    world.client.abandon(first, CancelCause::User, &mut world.effects);
    assert_eq!(world.client.load(), 1);
    world.quiesce();
}
