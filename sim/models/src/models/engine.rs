//! The model of the engine's lease, which lanes read without its lock before each attempt.

use super::check;
use crate::engine::lease::{Lease, Standing};
use loom::thread;
use punctual_clock::Instant;
use punctual_task::WorkerId;
use std::sync::Arc;
use std::time::Duration;

/// While an engine is registered anew, no attempt starts under the old registration by the new one's validity, and none of the
/// new one's is doubted by the old one's.
pub fn a_registration_is_judged_by_its_own_validity() {
    let at = |second: u64| Instant::from_nanos(second * 1_000_000_000);
    for forgets in [true, false] {
        check(move || {
            let lease = Arc::new(Lease::new(Duration::from_secs(10)));
            lease.registered(WorkerId(1), at(100));
            let registering = {
                let lease = Arc::clone(&lease);
                thread::spawn(move || {
                    if forgets {
                        lease.forget(WorkerId(1));
                    }
                    lease.registered(WorkerId(2), at(120));
                })
            };
            assert_ne!(lease.standing(WorkerId(1), at(121)), Standing::Good, "it ended at 110");
            assert_ne!(lease.standing(WorkerId(2), at(121)), Standing::Doubtful, "it is good until 130");
            registering.join().expect("a thread of the model panicked");
            assert_eq!(lease.standing(WorkerId(2), at(121)), Standing::Good);
            assert_eq!(lease.standing(WorkerId(1), at(105)), Standing::Lost);
        });
    }
}
