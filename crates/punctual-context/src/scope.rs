//! The thread-local that makes a context ambient, and the future that sets it around each poll.

use crate::Context;
use pin_project_lite::pin_project;
use std::cell::RefCell;
use std::pin::Pin;
use std::task::{self, Poll};

thread_local! {
    pub(crate) static CURRENT: RefCell<Option<Context>> = const { RefCell::new(None) };
}

pin_project! {
    /// A future that runs with a [`Context`] as the ambient one. Made by [`Context::scope`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct Scoped<F> {
        #[pin]
        future: F,
        context: Option<Context>,
    }
}

impl<F> Scoped<F> {
    pub(crate) fn new(context: Context, future: F) -> Self {
        Scoped { future, context: Some(context) }
    }
}

/// Puts the two contexts back where they came from, also when the poll panics.
struct Restore<'a>(&'a mut Option<Context>);

impl Restore<'_> {
    fn exchange(slot: &mut Option<Context>) {
        CURRENT.with_borrow_mut(|current| std::mem::swap(current, slot));
    }
}

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        Self::exchange(self.0);
    }
}

impl<F: Future> Future for Scoped<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        Restore::exchange(this.context);
        let restore = Restore(this.context);
        let poll = this.future.poll(cx);
        drop(restore);
        poll
    }
}
