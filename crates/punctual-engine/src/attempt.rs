//! One attempt on one lane: the handler's future, polled with its context, until it ends or is dropped.
//!
//! ```text
//!              ready ──────────────▶ Returned
//!  polling ──┬ panics ─────────────▶ Panicked
//!            │ token fires (deadline, cancel, lease, shutdown)
//!            └──▶ grace ─┬ ready ──▶ Returned, with the reason
//!                        └ passes ─▶ Dropped, with the reason
//! ```
//! A handler that is ready at its first poll costs no timer. A handler that blocks inside a poll cannot be dropped;
//! the keeper gives it up (`Lane::abandon`), and this future then ends as `Abandoned`.

use crate::lane::{Lane, Orders};
use crate::{Failure, HandlerFuture};
use bytes::Bytes;
use punctual_clock::{Clock, Instant};
use punctual_context::{CancelReason, Context};
use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{self, Poll};
use std::time::Duration;

/// A timer is set for at most this long and then set again: the deadline may be years away.
const TIMER_MAX: Duration = Duration::from_secs(3600);

/// How a handler ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// It returned.
    Returned(Result<Bytes, Failure>),
    /// It panicked with this message.
    Panicked(String),
    /// It was dropped, since it did not heed this in time.
    Dropped(CancelReason),
    /// It was given up before; nothing more is to be said of it.
    Abandoned,
}

/// A lane's timer, kept from one attempt to the next.
#[derive(Debug, Default)]
pub(crate) struct Timer {
    sleep: Option<Pin<Box<tokio::time::Sleep>>>,
    until: Option<Instant>,
}

impl Timer {
    /// Ready once `until` has come, by `clock`.
    fn poll_until(&mut self, until: Instant, clock: &dyn Clock, cx: &mut task::Context<'_>) -> Poll<()> {
        loop {
            if self.until != Some(until) {
                let left = until.since(clock.now());
                if left.is_zero() {
                    return Poll::Ready(());
                }
                // A new timer, since setting one anew needs tokio's own clock. Only handlers that wait pay for it.
                self.sleep = Some(Box::pin(tokio::time::sleep(left.min(TIMER_MAX))));
                self.until = Some(until);
            }
            let Some(sleep) = &mut self.sleep else { return Poll::Ready(()) };
            match sleep.as_mut().poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) => self.until = None,
            }
        }
    }

    fn clear(&mut self) {
        self.until = None;
        self.sleep = None;
    }
}

/// Runs `start`'s future with `context` as the ambient one, under the orders that `lane` is given.
pub(crate) async fn attempt(
    lane: &Lane,
    context: Context,
    clock: &dyn Clock,
    stop_grace: Duration,
    timer: &mut Timer,
    start: impl FnOnce() -> HandlerFuture,
) -> Ended {
    // The handler's synchronous part runs inside the first poll: it may panic, and it may ask for its context.
    let mut handler = pin!(Some(context.scope(async move { start().await })));
    let ended = poll_fn(|cx| {
        let Some(running) = handler.as_mut().as_pin_mut() else { return Poll::Ready(Ended::Abandoned) };
        match catch_unwind(AssertUnwindSafe(|| running.poll(cx))) {
            Ok(Poll::Ready(result)) => return Poll::Ready(Ended::Returned(result)),
            Err(panic) => return Poll::Ready(Ended::Panicked(panic_message(&*panic))),
            Ok(Poll::Pending) => {}
        }
        loop {
            match lane.orders(cx.waker(), stop_grace) {
                Orders::Drop(reason) => return Poll::Ready(Ended::Dropped(reason)),
                Orders::Abandoned => return Poll::Ready(Ended::Abandoned),
                Orders::Wait(until) => {
                    if timer.poll_until(until, clock, cx).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
        }
    })
    .await;
    timer.clear();
    // Dropping a future runs its destructors: a panic there must not take the lane with it.
    match catch_unwind(AssertUnwindSafe(|| handler.set(None))) {
        Ok(()) => ended,
        Err(panic) => Ended::Panicked(panic_message(&*panic)),
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "the handler panicked with a value that is no text".to_owned())
}
