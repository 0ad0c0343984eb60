//! Waiting until an instant of a clock.

use punctual_clock::{Clock, Instant};
use std::time::Duration;

/// The shortest sleep between two looks at the clock: tokio's own tick.
const TICK: Duration = Duration::from_millis(1);

/// Returns once `clock` has reached `deadline`; never for [`Instant::FAR`]. tokio's timer only wakes: the clock decides.
///
/// # Cancel safety
/// Nothing is lost by dropping it.
pub(crate) async fn sleep_until(clock: &dyn Clock, deadline: Instant) {
    if deadline == Instant::FAR {
        return std::future::pending().await;
    }
    loop {
        let now = clock.now();
        if now >= deadline {
            return;
        }
        tokio::time::sleep(deadline.since(now).max(TICK)).await;
    }
}
