//! Calls that wait in order for a permit.

use std::collections::VecDeque;
use std::task::Waker;

/// A place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket(u64);

/// A queue of tickets. The front one is granted a permit when one is free; a permit that was granted and not used goes
/// on to the next.
#[derive(Debug, Default)]
pub(crate) struct Turnstile {
    issued: u64,
    waiting: VecDeque<(Ticket, Waker)>,
    granted: Vec<Ticket>,
}

impl Turnstile {
    /// Whether somebody waits or holds an unused permit, so that a newcomer would overtake.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        !self.waiting.is_empty() || !self.granted.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.granted.len()
    }

    /// Permits that were granted and are not used yet.
    pub(crate) fn granted(&self) -> usize {
        self.granted.len()
    }

    pub(crate) fn enter(&mut self, waker: Waker) -> Ticket {
        self.issued += 1;
        let ticket = Ticket(self.issued);
        self.waiting.push_back((ticket, waker));
        ticket
    }

    /// Whether the ticket was granted; the waker is exchanged where it was not.
    pub(crate) fn poll(&mut self, ticket: Ticket, waker: &mut Waker) -> bool {
        if self.granted.contains(&ticket) {
            return true;
        }
        if let Some((_, parked)) = self.waiting.iter_mut().find(|(waiting, _)| *waiting == ticket) {
            std::mem::swap(parked, waker);
        }
        false
    }

    /// Uses a granted ticket up.
    pub(crate) fn redeem(&mut self, ticket: Ticket) -> bool {
        match self.granted.iter().position(|granted| *granted == ticket) {
            Some(at) => {
                self.granted.swap_remove(at);
                true
            }
            None => false,
        }
    }

    /// Leaves the queue, with or without a permit. The parked waker is returned.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> Option<Waker> {
        self.redeem(ticket);
        let at = self.waiting.iter().position(|(waiting, _)| *waiting == ticket)?;
        self.waiting.remove(at).map(|(_, waker)| waker)
    }

    /// Grants up to `permits` tickets from the front.
    pub(crate) fn grant(&mut self, permits: usize, wakers: &mut Vec<Waker>) {
        for _ in 0..permits.saturating_sub(self.granted.len()) {
            let Some((ticket, waker)) = self.waiting.pop_front() else { break };
            self.granted.push(ticket);
            wakers.push(waker);
        }
    }

    /// Wakes everybody: the connection is over, and each finds that out by itself.
    pub(crate) fn clear(&mut self, wakers: &mut Vec<Waker>) {
        wakers.extend(self.waiting.drain(..).map(|(_, waker)| waker));
        self.granted.clear();
    }
}
