//! Every policy over fields of any size: only the living are chosen, and each as often as the policy says.

use super::*;
use punctual_clock::SeededEntropy;

struct Plain(Vec<Option<usize>>);

impl Field for Plain {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn is_alive(&self, at: usize) -> bool {
        self.0[at].is_some()
    }

    fn pending(&self, at: usize) -> usize {
        self.0[at].unwrap()
    }

    fn address(&self, at: usize) -> &str {
        ["a", "b", "c", "d", "e", "f", "g", "h", "i"][at]
    }
}

#[derive(Debug)]
struct Last;

impl Select for Last {
    fn select(&self, candidates: &[Candidate<'_>], _: &dyn Entropy) -> usize {
        assert!(candidates.iter().all(|candidate| candidate.address.len() == 1));
        candidates.len() - 1
    }
}

#[derive(Debug)]
struct Nonsense;

impl Select for Nonsense {
    fn select(&self, _: &[Candidate<'_>], _: &dyn Entropy) -> usize {
        usize::MAX
    }
}

fn all() -> Vec<Balance> {
    let custom = |select: Arc<dyn Select>| Balance::Custom(select);
    vec![
        Balance::PowerOfTwo,
        Balance::RoundRobin,
        Balance::Random,
        Balance::LeastPending,
        custom(Arc::new(Last)),
        custom(Arc::new(Nonsense)),
    ]
}

/// Whoever is alive can be found, nobody else is, and nobody alive means nobody chosen: every subset of up to nine.
#[test]
fn only_the_living_are_chosen() {
    let entropy = SeededEntropy::new(1);
    for balance in all() {
        let turn = AtomicUsize::new(usize::MAX - 3);
        for len in 0..=9usize {
            for alive in 0..1u32 << len {
                let field = Plain((0..len).map(|at| (alive & 1 << at != 0).then_some(at)).collect());
                for _ in 0..3 {
                    match balance.choose(&field, &turn, &entropy) {
                        Some(at) => assert!(field.is_alive(at), "{balance:?}"),
                        None => assert_eq!(alive, 0, "{balance:?}"),
                    }
                }
            }
        }
    }
}

fn shares(balance: &Balance, field: &Plain, calls: usize) -> Vec<usize> {
    let (entropy, turn) = (SeededEntropy::new(1), AtomicUsize::new(0));
    let mut shares = vec![0; field.len()];
    for _ in 0..calls {
        shares[balance.choose(field, &turn, &entropy).unwrap()] += 1;
    }
    shares
}

/// Equals get equal shares, also beside the dead.
#[test]
fn equals_get_equal_shares() {
    for balance in [Balance::PowerOfTwo, Balance::RoundRobin, Balance::Random, Balance::LeastPending] {
        let field = Plain(vec![Some(0), None, Some(0), Some(0), Some(0)]);
        let shares = shares(&balance, &field, 40_000);
        if matches!(balance, Balance::LeastPending) {
            // The one behind a dead one is first twice as often.
            assert!(shares.iter().enumerate().all(|(at, share)| at == 1 || *share >= 7_900), "{shares:?}");
            continue;
        }
        for (at, share) in shares.iter().enumerate() {
            let range = if at == 1 { 0..1 } else { 9_600..10_400 };
            assert!(range.contains(share), "{balance:?}: {shares:?}");
        }
    }
}

/// The busiest of a field is never chosen by the power of two choices while two others live, and never at all by the
/// fewest pending.
#[test]
fn the_busy_are_spared() {
    let field = Plain(vec![Some(3), Some(100), Some(5)]);
    assert_eq!(shares(&Balance::PowerOfTwo, &field, 10_000)[1], 0);
    assert_eq!(shares(&Balance::LeastPending, &field, 10_000), [10_000, 0, 0]);
}

/// One after the other means one after the other.
#[test]
fn round_robin_goes_round() {
    let (entropy, turn) = (SeededEntropy::new(1), AtomicUsize::new(0));
    let field = Plain(vec![Some(0), None, Some(0), Some(0)]);
    let chosen: Vec<_> = (0..6).map(|_| Balance::RoundRobin.choose(&field, &turn, &entropy).unwrap()).collect();
    assert_eq!(chosen, [0, 2, 3, 0, 2, 3]);
}
