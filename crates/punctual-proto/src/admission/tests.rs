//! Tests of `admission`.

use super::*;
use proptest::prelude::*;

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn limits() -> AdmissionLimits {
    AdmissionLimits { queue_calls_max: 3, queue_bytes_max: 100, ..AdmissionLimits::default() }
}

fn arrival(route: Route) -> Arrival<'static> {
    Arrival { route, partition: None, bytes: 10, deadline: Instant::FAR }
}

fn admitted(entered: Entered) -> Permit {
    match entered {
        Entered::Admitted(permit) => permit,
        other => panic!("{other:?}"),
    }
}

fn waits(entered: Entered) -> Ticket {
    match entered {
        Entered::Waits(ticket, _) => ticket,
        other => panic!("{other:?}"),
    }
}

fn refused(entered: Entered) -> Refusal {
    match entered {
        Entered::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

/// Parks `name` as who waits.
fn park(admission: &mut Admission<&'static str>, ticket: Ticket, name: &'static str, now: Instant) -> Waited {
    admission.poll(ticket, &mut Some(name), now, &mut Vec::new())
}

/// What has room goes; the rest waits in order and is woken in order, each once for one that left.
#[test]
fn the_line_moves_in_order() {
    let mut admission = Admission::new(AdmissionLimits { server: ScopeLimits::running(1), ..limits() });
    let mut woken = Vec::new();
    let route = Route::default();
    let running = admitted(admission.enter(arrival(route), at(0), &mut woken));
    let first = waits(admission.enter(arrival(route), at(0), &mut woken));
    let second = waits(admission.enter(arrival(route), at(0), &mut woken));
    assert!(matches!(park(&mut admission, second, "second", at(0)), Waited::Waits(until) if until == at(1_000)));
    assert!(matches!(park(&mut admission, first, "first", at(0)), Waited::Waits(_)));
    admission.leave(running, at(1), &mut woken);
    assert_eq!((woken.as_slice(), admission.running(), admission.waiting()), (&["first"][..], 1, 1));
    let Waited::Admitted(permit) = park(&mut admission, first, "first", at(1)) else { panic!("let in") };
    admission.leave(permit, at(2), &mut woken);
    assert_eq!(woken, ["first", "second"]);
    let Waited::Admitted(permit) = park(&mut admission, second, "second", at(2)) else { panic!("let in") };
    admission.leave(permit, at(3), &mut woken);
    assert_eq!((admission.running(), admission.waiting(), admission.queued_bytes), (0, 0, 0));
}

/// A full scope holds back those that want it and nobody else, and the refusal names it.
#[test]
fn a_full_scope_holds_nobody_else_back() {
    let methods = BTreeMap::from([("A/slow".to_owned(), ScopeLimits::running(1))]);
    let services = BTreeMap::from([("A".to_owned(), ScopeLimits::running(3))]);
    let mut admission: Admission<()> =
        Admission::new(AdmissionLimits { methods, services, queue_calls_max: 1, ..limits() });
    let (slow, fast) = (admission.route("A", "A/slow"), admission.route("A", "A/fast"));
    assert_eq!(admission.route("B", "B/slow"), Route::default());
    let mut woken = Vec::new();
    let _running = admitted(admission.enter(arrival(slow), at(0), &mut woken));
    let _waits = waits(admission.enter(arrival(slow), at(0), &mut woken));
    let _beside = admitted(admission.enter(arrival(fast), at(0), &mut woken));
    let full = refused(admission.enter(arrival(slow), at(0), &mut woken));
    assert_eq!((full.limit, full.value), ("admission_queue_calls_max", 1));
    let _third = admitted(admission.enter(arrival(fast), at(0), &mut woken));
    let mut none = Admission::<()>::new(AdmissionLimits { queue_calls_max: 0, ..admission.limits.clone() });
    let _running = admitted(none.enter(arrival(slow), at(0), &mut woken));
    let full = refused(none.enter(arrival(slow), at(0), &mut woken));
    assert_eq!((full.limit, full.value), ("method_running_max", 1));
    assert_eq!(full.retry_after, Duration::from_millis(100));
}

/// A rate lets a burst in and then one at each interval; who would wait too long is told at once, and exactly when to come.
#[test]
fn a_rate_is_a_burst_and_then_a_pace() {
    let rate = Rate::per_second(10).burst(2);
    let mut admission: Admission<()> =
        Admission::new(AdmissionLimits { server: ScopeLimits::NONE.rate(rate), ..limits() });
    let (mut woken, route) = (Vec::new(), Route::default());
    let now = at(5_000);
    for _ in 0..2 {
        let permit = admitted(admission.enter(arrival(route), now, &mut woken));
        admission.leave(permit, now, &mut woken);
    }
    let Entered::Waits(ticket, look) = admission.enter(arrival(route), now, &mut woken) else { panic!("it waits") };
    assert_eq!(look, at(5_100));
    let soon = Arrival { deadline: at(5_050), ..arrival(route) };
    let refusal = refused(admission.enter(soon, now, &mut woken));
    assert_eq!((refusal.limit, refusal.value), ("server_rate_max", 10));
    assert_eq!(refusal.retry_after, Duration::from_millis(100));
    assert!(matches!(admission.poll(ticket, &mut None, at(5_099), &mut woken), Waited::Waits(at) if at == look));
    let Waited::Admitted(permit) = admission.poll(ticket, &mut None, look, &mut woken) else { panic!("let in") };
    admission.leave(permit, look, &mut woken);
    // Rested, there is a burst again, and no more than that.
    for _ in 0..2 {
        let permit = admitted(admission.enter(arrival(route), at(60_000), &mut woken));
        admission.leave(permit, at(60_000), &mut woken);
    }
    assert!(matches!(admission.enter(arrival(route), at(60_000), &mut woken), Entered::Waits(..)));
}

/// The line is bounded by bytes and time, too, and whoever waited in vain is told what for.
#[test]
fn the_line_is_bounded() {
    let mut admission: Admission<()> = Admission::new(AdmissionLimits { server: ScopeLimits::running(1), ..limits() });
    let (mut woken, route) = (Vec::new(), Route::default());
    let _running = admitted(admission.enter(arrival(route), at(0), &mut woken));
    let ticket = waits(admission.enter(Arrival { bytes: 95, ..arrival(route) }, at(0), &mut woken));
    let full = refused(admission.enter(arrival(route), at(0), &mut woken));
    assert_eq!((full.limit, full.value), ("admission_queue_bytes_max", 100));
    let Waited::Refused(refusal) = admission.poll(ticket, &mut None, at(1_000), &mut woken) else { panic!("too long") };
    assert_eq!((refusal.limit, refusal.value), ("server_running_max", 1));
    assert_eq!((admission.waiting(), admission.queued_bytes), (0, 0));
    let _fits = waits(admission.enter(arrival(route), at(1_000), &mut woken));
}

/// Whoever gives up leaves the line, and gives back what it was given meanwhile: the next one has it.
#[test]
fn giving_up_gives_back() {
    let mut admission = Admission::new(AdmissionLimits { server: ScopeLimits::running(1), ..limits() });
    let (mut woken, route) = (Vec::new(), Route::default());
    let running = admitted(admission.enter(arrival(route), at(0), &mut woken));
    let tickets = [(); 3].map(|()| waits(admission.enter(arrival(route), at(0), &mut woken)));
    for (ticket, name) in tickets.into_iter().zip(["a", "b", "c"]) {
        let _ = park(&mut admission, ticket, name, at(0));
    }
    assert_eq!(admission.give_up(tickets[1], at(0), &mut woken), Some("b"));
    admission.leave(running, at(1), &mut woken);
    assert_eq!(woken, ["a"]);
    assert_eq!(admission.give_up(tickets[0], at(1), &mut woken), None);
    assert_eq!((woken.as_slice(), admission.running()), (&["a", "c"][..], 1));
    assert_eq!(admission.give_up(tickets[0], at(1), &mut woken), None, "once");
}

/// Partitions are told apart up to their number; the rest share one, and a place that nobody needs goes to the next.
#[test]
fn partitions_are_bounded() {
    let mut admission: Admission<()> = Admission::new(AdmissionLimits {
        partition: ScopeLimits::running(1),
        partitions_max: 2,
        queue_calls_max: 0,
        ..limits()
    });
    let mut woken = Vec::new();
    let mut enter = |admission: &mut Admission<()>, name: &'static str| {
        let arrival = Arrival { partition: Some(name), ..arrival(Route::default()) };
        admission.enter(arrival, at(0), &mut woken)
    };
    let first = admitted(enter(&mut admission, "a"));
    let _second = admitted(enter(&mut admission, "b"));
    let full = refused(enter(&mut admission, "a"));
    assert_eq!((full.limit, full.value), ("partition_running_max", 1));
    let _shared = admitted(enter(&mut admission, "c"));
    assert_eq!(refused(enter(&mut admission, "d")).limit, "partition_running_max", "those beyond share one");
    assert_eq!(admission.partitions(), 2);
    admission.leave(first, at(0), &mut Vec::new());
    let _own = admitted(enter(&mut admission, "d"));
    for name in 0..1_000 {
        let name = format!("made up {name}");
        let arrival = Arrival { partition: Some(&name), ..arrival(Route::default()) };
        let _ = admission.enter(arrival, at(0), &mut Vec::new());
    }
    assert_eq!((admission.partitions(), admission.partitions.len()), (2, 3));
}

/// Settings that let nothing in are refused.
#[test]
fn senseless_limits_are_refused() {
    assert_eq!(AdmissionLimits::default().validate(), Ok(()));
    assert!(!AdmissionLimits::default().is_on());
    let none = AdmissionLimits { server: ScopeLimits::running(0), ..limits() };
    assert!(none.is_on() && none.validate().unwrap_err().contains("the server is 0"));
    let rate = AdmissionLimits { partition: ScopeLimits::NONE.rate(Rate::per_second(0)), ..limits() };
    assert!(rate.validate().is_err());
}

#[derive(Debug, Clone)]
enum Step {
    Enter { method: usize, partition: u8, bytes: usize, budget: u64 },
    Leave(usize),
    Poll(usize),
    GiveUp(usize),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0usize..3, 0u8..6, 0usize..40, 1u64..3_000)
            .prop_map(|(method, partition, bytes, budget)| Step::Enter { method, partition, bytes, budget }),
        3 => any::<usize>().prop_map(Step::Leave),
        3 => any::<usize>().prop_map(Step::Poll),
        1 => any::<usize>().prop_map(Step::GiveUp),
        2 => (0u64..400).prop_map(Step::Pass),
    ];
    proptest::collection::vec(step, 1..120)
}

proptest! {
    /// Whatever comes in whatever order: no scope runs more than it allows, everybody who waits is in the line once, and when
    /// all have left, everything is as it was before.
    #[test]
    fn permits_come_back_exactly_once(steps in steps()) {
        let names = ["A/one", "A/two", "B/one"];
        let mut admission: Admission<()> = Admission::new(AdmissionLimits {
            server: ScopeLimits::running(4).rate(Rate::per_second(50).burst(5)),
            services: BTreeMap::from([("A".to_owned(), ScopeLimits::running(3))]),
            methods: BTreeMap::from([("A/one".to_owned(), ScopeLimits::running(2))]),
            partition: ScopeLimits::running(2),
            partitions_max: 3,
            queue_calls_max: 6,
            ..limits()
        });
        let routes = names.map(|name| admission.route(&name[..1], name));
        let (mut now, mut running, mut line, mut woken) = (at(0), Vec::new(), Vec::new(), Vec::new());
        for step in steps {
            match step {
                Step::Enter { method, partition, bytes, budget } => {
                    let name = format!("p{partition}");
                    let deadline = now.after(Duration::from_millis(budget));
                    let arrival = Arrival { route: routes[method], partition: Some(&name), bytes, deadline };
                    match admission.enter(arrival, now, &mut woken) {
                        Entered::Admitted(permit) => running.push((method, permit)),
                        Entered::Waits(ticket, look) => {
                            prop_assert!(look > now && look <= now.after(Duration::from_secs(1)));
                            line.push((method, ticket));
                        }
                        Entered::Refused(refusal) => prop_assert!(!refusal.limit.is_empty() && !refusal.retry_after.is_zero()),
                    }
                }
                Step::Leave(at) if !running.is_empty() => {
                    let (_, permit) = running.swap_remove(at % running.len());
                    admission.leave(permit, now, &mut woken);
                }
                Step::Poll(at) if !line.is_empty() => {
                    let at = at % line.len();
                    let (method, ticket) = line[at];
                    match admission.poll(ticket, &mut None, now, &mut woken) {
                        Waited::Waits(look) => prop_assert!(look > now),
                        Waited::Admitted(permit) => {
                            line.swap_remove(at);
                            running.push((method, permit));
                        }
                        Waited::Refused(refusal) => {
                            prop_assert!(!refusal.limit.is_empty());
                            line.swap_remove(at);
                        }
                    }
                }
                Step::GiveUp(at) if !line.is_empty() => {
                    let (_, ticket) = line.swap_remove(at % line.len());
                    admission.give_up(ticket, now, &mut woken);
                }
                Step::Pass(millis) => now = now.after(Duration::from_millis(millis)),
                _ => {}
            }
            prop_assert!(admission.running() <= 4);
            prop_assert!(running.iter().filter(|(method, _)| *method < 2).count() <= 3);
            prop_assert!(running.iter().filter(|(method, _)| *method == 0).count() <= 2);
            prop_assert!(admission.line.len() == line.len() && admission.waiting() <= 6);
            prop_assert!(admission.running() + admission.waiting() == running.len() + line.len());
            prop_assert!(admission.queued_bytes <= 100);
        }
        for (_, ticket) in line {
            admission.give_up(ticket, now, &mut woken);
        }
        for (_, permit) in running {
            admission.leave(permit, now, &mut woken);
        }
        let later = now.after(Duration::from_secs(60));
        prop_assert_eq!((admission.running(), admission.waiting(), admission.queued_bytes), (0, 0, 0));
        prop_assert!(admission.named.iter().chain(&admission.partitions).all(|scope| scope.is_idle(later)));
    }
}
