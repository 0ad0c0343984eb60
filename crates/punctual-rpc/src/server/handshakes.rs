//! The handshakes under way. A new one never waits: where there are too many, the oldest one gives way, since a peer that
//! means well is through in a moment and one that is silent is not.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use tokio::sync::oneshot;

pub(crate) struct Handshakes {
    max: usize,
    under_way: Mutex<UnderWay>,
}

#[derive(Default)]
struct UnderWay {
    begun: u64,
    /// The oldest first. Dropping the sender tells the handshake to give way.
    queue: VecDeque<(u64, oneshot::Sender<()>)>,
}

/// A handshake that is under way.
pub(crate) struct Handshake<'a> {
    all: &'a Handshakes,
    id: u64,
    evicted: oneshot::Receiver<()>,
}

impl Handshakes {
    pub(crate) fn new(max: usize) -> Self {
        Handshakes { max, under_way: Mutex::default() }
    }

    pub(crate) fn begin(&self) -> Handshake<'_> {
        let (sender, evicted) = oneshot::channel();
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.begun += 1;
        let id = under_way.begun;
        if under_way.queue.len() >= self.max {
            under_way.queue.pop_front();
        }
        under_way.queue.push_back((id, sender));
        drop(under_way);
        Handshake { all: self, id, evicted }
    }
}

impl Handshake<'_> {
    /// Returns where a newer handshake took this one's place.
    pub(crate) async fn evicted(&mut self) {
        // The sender never sends: it is dropped.
        let _ = (&mut self.evicted).await;
    }
}

impl Drop for Handshake<'_> {
    fn drop(&mut self) {
        let mut under_way = self.all.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.queue.retain(|(id, _)| *id != self.id);
    }
}
