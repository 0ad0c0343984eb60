//! The machine alone, step by step and against a plain description of it.

use super::*;
use punctual_clock::{Entropy, SeededEntropy};

fn at(millis: u64) -> Instant {
    Instant::from_nanos(1_000_000_000).after(Duration::from_millis(millis))
}

fn policy() -> BreakerPolicy {
    BreakerPolicy { window: 4, probes: 2, ..BreakerPolicy::default() }
}

/// One call that ends at once.
fn call(breaker: &mut Breaker, end: End, now: Instant) {
    let permit = breaker.admit(now).unwrap();
    breaker.record(&policy(), permit, end, now);
}

/// It opens when half of a full window failed, lets probes through one at a time after the wait, and closes when enough
/// of them succeeded; a probe that fails doubles the wait, up to the longest.
#[test]
fn it_opens_probes_and_closes() {
    let mut breaker = Breaker::default();
    for end in [End::Failure, End::Success, End::Success] {
        call(&mut breaker, end, at(0));
    }
    assert!(breaker.is_closed(), "the window is not full");
    call(&mut breaker, End::Failure, at(0));
    assert_eq!(breaker.check(at(0)), Err(at(5_000)));
    assert_eq!(breaker.check(at(4_999)), Err(at(5_000)));
    let mut now = 5_000;
    for wait in [10_000, 20_000, 40_000, 60_000, 60_000] {
        let probe = breaker.admit(at(now)).unwrap();
        assert_eq!(breaker.admit(at(now)), Err(Instant::FAR), "one at a time");
        assert!(breaker.record(&policy(), probe, End::Failure, at(now)));
        assert_eq!(breaker.check(at(now)), Err(at(now + wait)));
        now += wait;
    }
    call(&mut breaker, End::Success, at(now));
    assert!(!breaker.is_closed());
    call(&mut breaker, End::Success, at(now));
    assert!(breaker.is_closed());
    for _ in 0..3 {
        call(&mut breaker, End::Failure, at(now));
    }
    assert!(breaker.is_closed(), "it begins with an empty window");
    call(&mut breaker, End::Failure, at(now));
    assert_eq!(breaker.check(at(now)), Err(at(now + 5_000)), "and with the first wait");
}

/// A probe that was dropped says nothing, and leaves its place to the next.
#[test]
fn a_dropped_probe_leaves_its_place() {
    let mut breaker = Breaker::default();
    (0..4).for_each(|_| call(&mut breaker, End::Failure, at(0)));
    let probe = breaker.admit(at(5_000)).unwrap();
    assert!(breaker.record(&policy(), probe, End::Unknown, at(5_000)));
    assert!(breaker.admit(at(5_000)).is_ok());
}

/// What ends from before a change of state counts no more, neither way.
#[test]
fn late_ends_do_not_count() {
    let mut breaker = Breaker::default();
    let early: Vec<_> = (0..10).map(|_| breaker.admit(at(0)).unwrap()).collect();
    (0..4).for_each(|_| call(&mut breaker, End::Failure, at(0)));
    for permit in &early {
        assert!(!breaker.record(&policy(), *permit, End::Success, at(1)));
    }
    let _probe = breaker.admit(at(5_000)).unwrap();
    for permit in early {
        assert!(!breaker.record(&policy(), permit, End::Failure, at(5_000)));
    }
    assert_eq!(breaker.admit(at(5_000)), Err(Instant::FAR), "the probe is still under way");
}

/// Random ends at random times: what is remembered is bounded, never more than one probe is under way, it never opens
/// without a failure in the last full window, and whatever happened it comes back when the endpoint does.
#[test]
fn random_histories_keep_the_rules() {
    for seed in 0..300 {
        let chance = SeededEntropy::new(seed);
        let policy = policy();
        let (mut breaker, mut now) = (Breaker::default(), 0u64);
        let mut under_way: Vec<(Permit, bool)> = Vec::new();
        let mut recent = VecDeque::from(vec![false; 4]);
        for _ in 0..400 {
            now += chance.below(3_000);
            let was_closed = breaker.is_closed();
            if chance.below(2) == 0 {
                if let Ok(permit) = breaker.admit(at(now)) {
                    under_way.push((permit, !breaker.is_closed()));
                }
            } else if !under_way.is_empty() {
                let (permit, _) = under_way.swap_remove(usize::try_from(chance.below(under_way.len() as u64)).unwrap());
                let end = [End::Success, End::Failure, End::Unknown][usize::try_from(chance.below(3)).unwrap()];
                recent.push_back(end == End::Failure);
                breaker.record(&policy, permit, end, at(now));
                if was_closed && !breaker.is_closed() {
                    assert!(end == End::Failure, "{seed}");
                }
            }
            let probes = under_way.iter().filter(|(permit, probe)| *probe && permit.0 == breaker.epoch).count();
            assert!(probes <= 1, "{seed}");
            if let State::Closed { ends, failures } = &breaker.state {
                assert!(ends.len() <= 4 && *failures as usize == ends.iter().filter(|failed| **failed).count());
            }
        }
        for (permit, _) in under_way {
            breaker.record(&policy, permit, End::Unknown, at(now));
        }
        now += 120_000;
        (0..2).for_each(|_| call(&mut breaker, End::Success, at(now)));
        assert!(breaker.is_closed(), "{seed}");
    }
}

/// Each code counts as the policy says, and what nobody classified as a success.
#[test]
fn ends_count_by_their_code() {
    let policy = BreakerPolicy::default();
    for code in Code::ALL {
        let expected = match code {
            Code::Unavailable | Code::ConnectionClosed | Code::HeartbeatLost | Code::DeadlineExceeded => End::Failure,
            Code::Cancelled => End::Unknown,
            _ => End::Success,
        };
        assert_eq!(policy.judge(Some(&Status::new(code, ""))), expected, "{code}");
    }
    assert_eq!(policy.judge(None), End::Success);
}

/// Settings outside their ranges are refused with what to set.
#[test]
fn senseless_settings_are_refused() {
    for (broken, why) in [
        (BreakerPolicy { window: 0, ..policy() }, "window is 0; set 1 to 1024"),
        (BreakerPolicy { failure_percent: 101, ..policy() }, "1 to 100"),
        (BreakerPolicy { probes: 0, ..policy() }, "probes"),
        (BreakerPolicy { open_first: Duration::ZERO, ..policy() }, "at least 1 ms"),
        (BreakerPolicy { open_max: Duration::from_secs(1), ..policy() }, "open_max"),
    ] {
        let error = broken.validate().unwrap_err();
        assert!(error.message().contains(why), "{error}");
    }
    assert!(BreakerPolicy::default().validate().is_ok());
}
