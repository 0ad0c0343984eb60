//! Waiting for a place on the server, and for the ring of big messages.

use crate::client::connection::Connection;
use crate::client::timer::sleep_until;
use punctual_clock::{Clock, Instant};
use punctual_proto::session::{Effects, Ticket};
use punctual_proto::status::Status;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

/// A place in the line. Dropping it gives it to the next.
pub(crate) struct Place {
    connection: Arc<Connection>,
    ticket: Ticket,
    used: bool,
}

impl Place {
    pub(crate) fn enter(connection: Arc<Connection>) -> Self {
        // Nobody is woken through this waker: the first poll exchanges it.
        let mut effects = Effects::default();
        let ticket = connection.session().enter_line(std::task::Waker::noop().clone(), &mut effects);
        effects.run();
        Place { connection, ticket, used: false }
    }

    pub(crate) fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// The gate took the ticket.
    pub(crate) fn used(mut self) {
        self.used = true;
    }

    /// Waits until the place is granted, or the connection takes no calls any more.
    pub(crate) async fn granted(&self, clock: &dyn Clock, deadline: Instant) -> Result<(), Status> {
        let granted = poll_fn(|cx| {
            let mut waker = cx.waker().clone();
            let granted = self.connection.session().poll_line(self.ticket, &mut waker);
            if granted { Poll::Ready(()) } else { Poll::Pending }
        });
        tokio::select! {
            biased;
            () = granted => Ok(()),
            () = sleep_until(clock, deadline) => Err(Status::deadline_exceeded(
                "the deadline passed while the call waited for the server to have a place for it; nothing was sent",
            )),
        }
    }

    /// Waits until the ring of big messages has a place for a body of `bytes`, or the connection takes no calls any more.
    pub(crate) async fn bulk(
        connection: &Connection,
        bytes: usize,
        clock: &dyn Clock,
        deadline: Instant,
    ) -> Result<(), Status> {
        let mut waiting = BulkWait { connection, waiter: None };
        let moved = poll_fn(|cx| {
            let mut waker = Some(cx.waker().clone());
            let fits = connection.session().poll_bulk(bytes, &mut waiting.waiter, &mut waker);
            if fits { Poll::Ready(()) } else { Poll::Pending }
        });
        tokio::select! {
            biased;
            () = moved => Ok(()),
            () = sleep_until(clock, deadline) => Err(Status::deadline_exceeded(
                "the deadline passed while the call waited behind other big messages; nothing was sent",
            )),
        }
    }
}

impl Place {
    /// Waits until half of the send queue is free, or the connection takes no calls any more.
    pub(crate) async fn room(connection: &Connection, clock: &dyn Clock, deadline: Instant) -> Result<(), Status> {
        let mut waiting = BulkWait { connection, waiter: None };
        let moved = poll_fn(|cx| {
            let mut waker = Some(cx.waker().clone());
            let free = connection.session().poll_room(&mut waiting.waiter, &mut waker);
            if free { Poll::Ready(()) } else { Poll::Pending }
        });
        tokio::select! {
            biased;
            () = moved => Ok(()),
            () = sleep_until(clock, deadline) => Err(Status::deadline_exceeded(
                "the deadline passed while the call waited for room in the send queue; nothing was sent",
            )),
        }
    }
}

/// A caller that waits for the ring of big messages, and leaves nothing parked when it gives up.
struct BulkWait<'a> {
    connection: &'a Connection,
    waiter: Option<u64>,
}

impl Drop for BulkWait<'_> {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter {
            let stale = self.connection.session().leave_bulk(waiter);
            drop(stale);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.used {
            let mut effects = Effects::default();
            self.connection.session().leave_line(self.ticket, &mut effects);
            effects.run();
        }
    }
}
