//! The policy and the budget as tables and laws.

use super::*;
use punctual_clock::SeededEntropy;
use punctual_proto::status::Code;

fn unavailable() -> Status {
    Status::unavailable("away")
}

/// Waits double from the first to the longest, each within a fifth of its mean, and end with the attempts.
#[test]
fn waits_double_within_their_bounds() {
    let (policy, entropy) = (RetryPolicy::attempts(5), SeededEntropy::new(3));
    for (made, mean) in [(1, 50.0), (2, 100.0), (3, 200.0), (4, 200.0)] {
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..1_000 {
            let wait = policy.wait_after(made, &unavailable(), &entropy).unwrap();
            let millis = wait.as_secs_f64() * 1e3;
            assert!((mean * 0.8..=mean * 1.2).contains(&millis), "after {made}: {millis} of {mean}");
            seen.insert(wait);
        }
        assert!(seen.len() > 900, "the jitter is by chance: {}", seen.len());
    }
    assert_eq!(policy.wait_after(5, &unavailable(), &entropy), None);
}

/// What the failure asks for is waited out, and never shortens the policy's wait.
#[test]
fn a_retry_after_is_honoured() {
    let (policy, entropy) = (RetryPolicy::default(), SeededEntropy::new(3));
    let asked = |millis| unavailable().with_retry_after(Duration::from_millis(millis));
    assert_eq!(policy.wait_after(1, &asked(700), &entropy), Some(Duration::from_millis(700)));
    assert!(policy.wait_after(1, &asked(1), &entropy).unwrap() >= Duration::from_millis(40));
}

/// Only a failure that may pass by itself is worth another attempt, for each code.
#[test]
fn only_what_may_pass_is_tried_again() {
    let (policy, entropy) = (RetryPolicy::default(), SeededEntropy::new(3));
    for code in Code::ALL {
        let again = policy.wait_after(1, &Status::new(code, "x"), &entropy).is_some();
        assert_eq!(again, matches!(code, Code::Unavailable | Code::ConnectionClosed | Code::HeartbeatLost), "{code}");
    }
    let full = Status::resource_exhausted("x").with_retry_after(Duration::from_millis(1));
    assert!(policy.wait_after(1, &full, &entropy).is_some());
}

/// However many calls fail, the attempts beyond the first stay within the bucket and the share of the calls.
#[test]
fn the_budget_bounds_the_amplification() {
    for (tokens, percent) in [(1, 0), (10, 20), (100, 100)] {
        let budget = RetryBudget::new(tokens, percent);
        let bucket = Tokens::full(&budget);
        let mut retries = 0u64;
        const CALLS: u64 = 10_000;
        for _ in 0..CALLS {
            bucket.deposit(&budget);
            for _ in 0..2 {
                retries += u64::from(bucket.withdraw(&budget));
            }
        }
        let bound = u64::from(tokens) + CALLS * u64::from(percent) / 100;
        assert!(retries <= bound, "{tokens}, {percent}: {retries} of {bound}");
        // And it is not meaner than it says: what is let in is at most one token short.
        assert!(retries + u64::from(tokens) + 1 >= bound, "{tokens}, {percent}: {retries} of {bound}");
    }
}

/// A budget that is made smaller binds at once, also where the bucket holds more.
#[test]
fn a_smaller_budget_binds_at_once() {
    let bucket = Tokens::full(&RetryBudget::new(100, 20));
    let small = RetryBudget::new(2, 0);
    assert_eq!((0..10).filter(|_| bucket.withdraw(&small)).count(), 2);
}

/// Settings that make no sense are refused with what to set.
#[test]
fn senseless_settings_are_refused() {
    let mut policy = RetryPolicy::attempts(0);
    assert!(policy.validate().unwrap_err().message().contains("1 to 10"));
    policy = RetryPolicy { backoff_max: Duration::from_millis(10), ..RetryPolicy::default() };
    assert!(policy.validate().unwrap_err().message().contains("not below it"));
    assert!(RetryBudget::new(0, 20).validate().is_err() && RetryBudget::new(1, 101).validate().is_err());
    assert!(RetryPolicy::default().validate().is_ok() && RetryBudget::default().validate().is_ok());
}
