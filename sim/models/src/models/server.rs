//! Models of the server: its permits for running calls, the hint of a full queue, and the flag of a stop.

use super::check;
use crate::server::congestion::Congestion;
use crate::server::draining::Draining;
use crate::server::permits::Permits;
use crate::sync::Mutex;
use loom::sync::Notify;
use loom::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Permits that are out are never more than there are, and none is lost.
pub fn permits_are_never_overdrawn() {
    const COUNT: usize = 4;
    check(|| {
        // Handfuls of two.
        let permits = Arc::new((Permits::new(COUNT, 1), AtomicUsize::new(0)));
        let run = |permits: &(Permits, AtomicUsize), wanted: usize| {
            let taken = permits.0.take(wanted);
            let out = permits.1.fetch_add(taken, Ordering::SeqCst) + taken;
            assert!(out <= COUNT, "{out} of {COUNT} are out");
            permits.1.fetch_sub(taken, Ordering::SeqCst);
            permits.0.give(taken);
        };
        let others: Vec<_> = [1, 3]
            .map(|wanted| {
                let permits = Arc::clone(&permits);
                thread::spawn(move || run(&permits, wanted))
            })
            .into();
        run(&permits, 2);
        for other in others {
            other.join().expect("a thread of the model panicked");
        }
        assert_eq!(permits.0.take(COUNT), COUNT, "all came back");
    });
}

/// The queue of a connection, as far as the hint goes.
#[derive(Default)]
struct Queue {
    results: usize,
    /// Those who wait for room.
    waiting: usize,
}

impl Queue {
    const MAX: usize = 1;

    fn append(&mut self) -> bool {
        let fits = self.results < Self::MAX;
        self.results += usize::from(fits);
        fits
    }
}

/// Whatever the hint says at whatever moment: whoever has a result appends it, or waits for room that the driver will make.
pub fn nobody_waits_beside_room() {
    check(|| {
        let shared = Arc::new((Congestion::none(), Mutex::new(Queue::default())));
        let answer = |shared: &(Congestion, Mutex<Queue>)| {
            let (congestion, queue) = shared;
            if congestion.is_likely() {
                let mut queue = queue.lock().expect("no panic");
                if queue.results > Queue::MAX / 2 {
                    queue.waiting += 1;
                    return false;
                }
                congestion.end();
            }
            if queue.lock().expect("no panic").append() {
                return true;
            }
            congestion.begin();
            let mut queue = queue.lock().expect("no panic");
            let appended = queue.append();
            queue.waiting += usize::from(!appended);
            appended
        };
        let handlers: Vec<_> = (0..2)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || answer(&shared))
            })
            .collect();
        let drain = |shared: &(Congestion, Mutex<Queue>)| {
            let mut queue = shared.1.lock().expect("no panic");
            queue.results = 0;
            std::mem::take(&mut queue.waiting)
        };
        let mut woken = drain(&shared);
        let answered = handlers.into_iter().filter_map(|handler| handler.join().ok()).filter(|done| *done).count();
        {
            let queue = shared.1.lock().expect("no panic");
            assert!(queue.waiting == 0 || queue.results > 0, "one waits beside room");
        }
        woken += drain(&shared);
        assert_eq!(answered + woken, 2, "each has appended its result, or was woken");
        // Those who were woken go on, whatever the hint says by now.
        for _ in 0..woken {
            while !answer(&shared) {
                drain(&shared);
            }
            drain(&shared);
        }
    });
}

/// A stop that waits for the last pong is told of it, whichever way the flag and the pong fall.
pub fn a_stop_hears_of_the_last_pong() {
    #[derive(Default)]
    struct Session {
        awaits_pong: bool,
    }
    check(|| {
        let shared = Arc::new((Draining::not_yet(), Mutex::new(Session::default()), Notify::new()));
        let driver = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                // It takes turns until it has had the pong of the stop.
                loop {
                    let mut session = shared.1.lock().expect("no panic");
                    let was_asked = std::mem::take(&mut session.awaits_pong);
                    if shared.0.has_begun() && !session.awaits_pong {
                        shared.2.notify();
                    }
                    drop(session);
                    if was_asked {
                        return;
                    }
                    thread::yield_now();
                }
            })
        };
        shared.0.begin();
        shared.1.lock().expect("no panic").awaits_pong = true;
        // The model checker finds a stop that is never told as a deadlock.
        while shared.1.lock().expect("no panic").awaits_pong {
            shared.2.wait();
        }
        driver.join().expect("a thread of the model panicked");
    });
}
