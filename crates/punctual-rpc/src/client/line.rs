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
        let ticket = connection.session().enter_line(std::task::Waker::noop().clone());
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

    /// Waits until the ring of big messages, or the queue, has moved on.
    pub(crate) async fn bulk(connection: &Connection, clock: &dyn Clock, deadline: Instant) -> Result<(), Status> {
        let mut parked = false;
        let moved = poll_fn(|cx| {
            if parked {
                return Poll::Ready(());
            }
            parked = true;
            let waker = cx.waker().clone();
            connection.session().wait_for_bulk(waker);
            Poll::Pending
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

impl Drop for Place {
    fn drop(&mut self) {
        if !self.used {
            let mut effects = Effects::default();
            self.connection.session().leave_line(self.ticket, &mut effects);
            effects.run();
        }
    }
}
