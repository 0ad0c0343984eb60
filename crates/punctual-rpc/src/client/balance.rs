//! Which endpoint a call goes to, of those that are alive.

#[cfg(test)]
mod tests;

use punctual_clock::Entropy;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Draws that look for living endpoints before all are looked at.
const DRAWS: usize = 8;

/// How a call's endpoint is chosen, where there are several alive.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Balance {
    /// Of two that are drawn by chance the one with fewer calls under way (Mitzenmacher, "The power of two choices in
    /// randomized load balancing", 2001). It needs no look at all of them and leaves no herd behind.
    #[default]
    PowerOfTwo,
    /// One after the other.
    RoundRobin,
    /// By chance.
    Random,
    /// The one with the fewest calls under way; of several the first behind the last choice.
    LeastPending,
    /// As your own code says.
    Custom(Arc<dyn Select>),
}

/// A choice of your own.
pub trait Select: fmt::Debug + Send + Sync + 'static {
    /// The index of the endpoint that the call goes to. `candidates` holds those that are alive, at least one; an index
    /// outside means the first. It runs at the start of each call and must not block.
    fn select(&self, candidates: &[Candidate<'_>], entropy: &dyn Entropy) -> usize;
}

/// An endpoint that is alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate<'a> {
    /// Its address.
    pub address: &'a str,
    /// This client's calls that wait for a reply from it.
    pub pending: usize,
}

/// What a choice is made of.
pub(crate) trait Field {
    fn len(&self) -> usize;
    fn is_alive(&self, at: usize) -> bool;
    fn pending(&self, at: usize) -> usize;
    fn address(&self, at: usize) -> &str;
}

impl Balance {
    /// The index of a living one, or none where none is alive.
    pub(crate) fn choose(&self, field: &impl Field, turn: &AtomicUsize, entropy: &dyn Entropy) -> Option<usize> {
        let len = field.len();
        let begin = |turn: usize| if len == 0 { 0 } else { turn % len };
        match self {
            Balance::PowerOfTwo => {
                let first = draw(field, None, entropy)?;
                let Some(second) = draw(field, Some(first), entropy) else { return Some(first) };
                // Of equals the first, which was drawn by chance as well.
                Some(if field.pending(second) < field.pending(first) { second } else { first })
            }
            Balance::Random => draw(field, None, entropy),
            Balance::RoundRobin => {
                let from = begin(turn.fetch_add(1, Ordering::Relaxed));
                let at = around(len, from).find(|at| field.is_alive(*at))?;
                // Those that were passed over have had their turn: else their share would go to the next one.
                let passed = (at + len - from) % len;
                if passed > 0 {
                    turn.fetch_add(passed, Ordering::Relaxed);
                }
                Some(at)
            }
            Balance::LeastPending => {
                let from = begin(turn.fetch_add(1, Ordering::Relaxed));
                around(len, from).filter(|at| field.is_alive(*at)).min_by_key(|at| field.pending(*at))
            }
            Balance::Custom(select) => {
                let alive: Vec<usize> = (0..len).filter(|at| field.is_alive(*at)).collect();
                let candidates: Vec<_> = alive
                    .iter()
                    .map(|at| Candidate { address: field.address(*at), pending: field.pending(*at) })
                    .collect();
                if candidates.is_empty() {
                    return None;
                }
                alive.get(select.select(&candidates, entropy)).or(alive.first()).copied()
            }
        }
    }
}

/// All indices once, from `from` on.
fn around(len: usize, from: usize) -> impl Iterator<Item = usize> {
    (from..len).chain(0..from.min(len))
}

/// A living one by chance, other than `not`.
fn draw(field: &impl Field, not: Option<usize>, entropy: &dyn Entropy) -> Option<usize> {
    let len = field.len();
    let any = || usize::try_from(entropy.below(len as u64)).unwrap_or(0);
    let fits = |at: &usize| Some(*at) != not && field.is_alive(*at);
    if len > 2 {
        for _ in 0..DRAWS {
            let at = any();
            if fits(&at) {
                return Some(at);
            }
        }
    }
    // Few are alive: each of them is as likely as the others.
    let alive = (0..len).filter(fits).count();
    let skip = usize::try_from(entropy.below(alive as u64)).unwrap_or(0);
    (0..len).filter(fits).nth(skip)
}

impl fmt::Debug for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Balance::PowerOfTwo => f.write_str("PowerOfTwo"),
            Balance::RoundRobin => f.write_str("RoundRobin"),
            Balance::Random => f.write_str("Random"),
            Balance::LeastPending => f.write_str("LeastPending"),
            Balance::Custom(select) => select.fmt(f),
        }
    }
}
