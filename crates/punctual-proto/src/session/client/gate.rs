//! The publication gate: registration and queueing of a request in one step, or nothing of either.

use crate::frame::{CallId, Cancel, DescribeHead, HEADER_BYTES, HealthFrame, RequestHead};
use crate::session::client::streams::Streams;
use crate::session::client::{Awaits, CallKey, ClientSession, Slot, State};
use crate::session::closure::Closure;
use crate::session::message::Body;
use crate::session::outbox::{YIELD_ABOVE_BYTES, message_size};
use crate::session::turnstile::Ticket;
use punctual_clock::Instant;
use std::task::Waker;

/// A request that is ready to be published: encoded, with its budget sampled.
#[derive(Debug)]
pub struct Opening<'a, 'b> {
    /// The fields in front of the body; [`RequestHead::body`] is not read.
    pub head: RequestHead<'a>,
    /// The body. It is taken only where the gate lets the request through.
    pub body: &'b mut Body<'a>,
    /// When the call ends at the latest, [`Instant::FAR`] for never.
    pub deadline: Instant,
    /// The sample that the budget was computed from.
    pub now: Instant,
    /// A granted place in the line, if the call waited for one.
    pub ticket: Option<Ticket>,
}

/// A request that was published.
#[derive(Debug)]
pub struct Opened {
    /// Its handle.
    pub key: CallKey,
    /// The driver's waker, to be woken outside of the lock.
    pub driver: Option<Waker>,
}

/// Why the gate did not let a request through. Nothing of it was registered or queued.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The connection is closed.
    Closed(Closure),
    /// The connection takes no new calls.
    GoingAway,
    /// The deadline has passed.
    Elapsed,
    /// A bound of this side was hit.
    Full {
        /// The limit's name.
        limit: &'static str,
        /// Its value.
        max: u64,
    },
    /// The server runs as many calls as it allows; wait in the line.
    Line,
    /// The ring of big messages is full; wait for it to move on.
    Bulk {
        /// The length of the body that found no place.
        bytes: usize,
    },
    /// The server does not know streams.
    NoStreams,
}

impl ClientSession {
    /// Publishes a call with a reply. `waker` is parked in its slot; it is left where the gate refuses.
    ///
    /// # Errors
    /// Why nothing was published.
    pub fn open_call(&mut self, opening: Opening<'_, '_>, waker: &mut Option<Waker>) -> Result<Opened, Refusal> {
        if !self.admits_at_once(&opening) {
            self.admit(&opening)?;
        }
        let Opening { head, body, deadline, .. } = opening;
        let key = self.occupy(Awaits::Reply, deadline, waker);
        self.running += 1;
        self.out.push_message(key.0, head, body, None);
        Ok(Opened { key, driver: self.driver_to_wake() })
    }

    /// Whether a call may pass with nothing to wait for: one look at everything that can stand in its way.
    #[inline]
    fn admits_at_once(&self, opening: &Opening<'_, '_>) -> bool {
        let Some(bytes) = opening.body.framed_len() else { return false };
        let queued = self.out.queued_bytes() + bytes + (self.live + 1) * Cancel::FRAME_BYTES_MAX;
        opening.ticket.is_none()
            && self.closed.is_none()
            && !self.going_away
            && opening.now < opening.deadline
            && queued <= self.out.queue_bytes_max()
            && !self.line.is_busy()
            && self.occupied < self.limits.pending_calls_max as usize
            && self.running < self.running_max()
    }

    /// The same one by one, for a call that waited, is big, or is to be refused.
    #[cold]
    fn admit(&mut self, opening: &Opening<'_, '_>) -> Result<(), Refusal> {
        self.check_open(opening.deadline, opening.now)?;
        self.check_room(&opening.head, opening.body)?;
        self.check_pending(opening.ticket)?;
        let admitted = match opening.ticket {
            Some(ticket) => self.line.redeem(ticket),
            None => self.running + self.line.granted() < self.running_max() && !self.line.is_busy(),
        };
        if admitted { Ok(()) } else { Err(Refusal::Line) }
    }

    /// Publishes a call with streams, those that [`RequestHead::streams`] names. Its producers may send once it was written;
    /// its reply, or its returned stream, ends it.
    ///
    /// # Errors
    /// Why nothing was published.
    pub fn open_streams(&mut self, opening: Opening<'_, '_>, waker: &mut Option<Waker>) -> Result<Opened, Refusal> {
        let wanted = opening.head.streams;
        if !self.has_streams {
            self.check_open(opening.deadline, opening.now)?;
            return Err(Refusal::NoStreams);
        }
        if let Err(max) = self.flow.check(wanted.count()) {
            return Err(Refusal::Full { limit: "streams_max", max });
        }
        self.admit(&opening)?;
        let Opening { head, body, deadline, .. } = opening;
        let key = self.occupy(Awaits::Reply, deadline, waker);
        self.running += 1;
        self.flow.opened(wanted.count());
        if let Some(slot) = self.slots.get_mut(key.at()) {
            slot.streams = Some(Box::new(Streams::new(wanted)));
        }
        // Only producers wait for it to be written.
        let mark = (wanted.arguments() > 0).then(|| key.0.as_u64());
        self.out.push_message(key.0, head, body, mark);
        Ok(Opened { key, driver: self.driver_to_wake() })
    }

    /// Publishes a one-way call without a deadline: it is over as soon as it is queued. The second value tells whether so
    /// much is queued that the caller should give way once.
    ///
    /// # Errors
    /// Why nothing was published.
    pub fn send_oneway(
        &mut self,
        head: RequestHead<'_>,
        body: &mut Body<'_>,
    ) -> Result<(Option<Waker>, bool), Refusal> {
        self.check_open(Instant::FAR, Instant::from_nanos(0))?;
        self.check_room(&head, body)?;
        let call = self.next_counted();
        self.heads += 1;
        self.out.push_message(call, head, body, None);
        Ok((self.out.take_driver(), self.out.queued_bytes() > YIELD_ABOVE_BYTES))
    }

    /// Publishes a one-way call with a deadline: it is over when its last byte was written, or when it lost that race.
    ///
    /// # Errors
    /// Why nothing was published.
    pub fn open_oneway(&mut self, opening: Opening<'_, '_>, waker: &mut Option<Waker>) -> Result<Opened, Refusal> {
        let Opening { head, body, deadline, now, .. } = opening;
        self.check_open(deadline, now)?;
        self.check_room(&head, body)?;
        self.check_pending(None)?;
        let key = self.occupy(Awaits::Emission, deadline, waker);
        let call = self.next_counted();
        self.name_call(key, call);
        self.out.push_message(call, head, body, Some(key.0.as_u64()));
        Ok(Opened { key, driver: self.driver_to_wake() })
    }

    /// Asks the server to describe a service, or all for an empty name.
    ///
    /// # Errors
    /// Why nothing was sent.
    pub fn ask_describe(
        &mut self,
        service: &str,
        deadline: Instant,
        now: Instant,
        waker: &mut Option<Waker>,
    ) -> Result<Opened, Refusal> {
        let key = self.open_query(deadline, now, waker)?;
        let call = self.next_counted();
        self.name_query(key, call);
        let mut body = Body::copied(service.as_bytes());
        self.out.push_message(call, DescribeHead::Query(service), &mut body, None);
        Ok(Opened { key, driver: self.driver_to_wake() })
    }

    /// Asks the server for the health of a service, or of itself for an empty name.
    ///
    /// # Errors
    /// Why nothing was sent.
    pub fn ask_health(
        &mut self,
        service: &str,
        deadline: Instant,
        now: Instant,
        waker: &mut Option<Waker>,
    ) -> Result<Opened, Refusal> {
        let key = self.open_query(deadline, now, waker)?;
        let call = self.next_counted();
        self.name_query(key, call);
        // Its bound is the pending limit that the slot counts against.
        self.out.push_query_health(call, HealthFrame::Query(service));
        Ok(Opened { key, driver: self.driver_to_wake() })
    }

    fn open_query(&mut self, deadline: Instant, now: Instant, waker: &mut Option<Waker>) -> Result<CallKey, Refusal> {
        if let Some(closure) = &self.closed {
            return Err(Refusal::Closed(closure.clone()));
        }
        if now >= deadline {
            return Err(Refusal::Elapsed);
        }
        self.check_pending(None)?;
        if !self.out.fits(HEADER_BYTES + usize::from(u8::MAX), self.live * Cancel::FRAME_BYTES_MAX) {
            return Err(self.queue_full());
        }
        Ok(self.occupy(Awaits::Answer, deadline, waker))
    }

    fn check_open(&self, deadline: Instant, now: Instant) -> Result<(), Refusal> {
        if let Some(closure) = &self.closed {
            return Err(Refusal::Closed(closure.clone()));
        }
        if self.going_away {
            return Err(Refusal::GoingAway);
        }
        if now >= deadline {
            return Err(Refusal::Elapsed);
        }
        Ok(())
    }

    /// The request and its own cancel fit beside everything queued and the cancels of all live calls.
    fn check_room(&self, head: &RequestHead<'_>, body: &Body<'_>) -> Result<(), Refusal> {
        if !self.out.fits(message_size(head, body), (self.live + 1) * Cancel::FRAME_BYTES_MAX) {
            return Err(self.queue_full());
        }
        if self.out.is_bulk(head, body) && !self.out.bulk_fits(body.len()) {
            return Err(Refusal::Bulk { bytes: body.len() });
        }
        Ok(())
    }

    fn queue_full(&self) -> Refusal {
        Refusal::Full { limit: "send_queue_bytes_max", max: self.out.queue_bytes_max() as u64 }
    }

    fn check_pending(&self, ticket: Option<Ticket>) -> Result<(), Refusal> {
        let max = usize::try_from(self.limits.pending_calls_max).unwrap_or(usize::MAX);
        let own = usize::from(ticket.is_some());
        if self.occupied + self.line.len() - own.min(self.line.len()) >= max {
            return Err(Refusal::Full { limit: "pending_calls_max", max: max as u64 });
        }
        Ok(())
    }

    /// Takes a slot. Its id is the call's, unless it is named otherwise.
    #[inline]
    fn occupy(&mut self, awaits: Awaits, deadline: Instant, waker: &mut Option<Waker>) -> CallKey {
        let at = match self.free.pop() {
            Some(at) => at,
            None => self.add_slot(),
        };
        self.occupied += 1;
        self.live += 1;
        if awaits != Awaits::Answer {
            self.heads += 1;
        }
        self.deadlines.set(at as usize, deadline);
        let mut call = CallId::NONE;
        if let Some(slot) = self.slots.get_mut(at as usize) {
            call = CallId::pending(at, slot.generation);
            slot.state = State::Live(awaits);
            slot.call = call;
            slot.number = self.heads;
            slot.waker = waker.take();
        }
        CallKey(call)
    }

    #[cold]
    fn add_slot(&mut self) -> u32 {
        self.slots.push(Slot::new());
        self.deadlines.push();
        u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
    }

    fn name_call(&mut self, key: CallKey, call: CallId) {
        if let Some(slot) = self.slots.get_mut(key.at()) {
            slot.call = call;
        }
    }

    fn name_query(&mut self, key: CallKey, call: CallId) {
        self.name_call(key, call);
        self.queries.push((call, key.0.slot()));
    }

    fn driver_to_wake(&mut self) -> Option<Waker> {
        if self.deadlines.take_moved_ahead() { self.out.rouse_driver() } else { self.out.take_driver() }
    }

    fn next_counted(&mut self) -> CallId {
        self.counted += 1;
        CallId::counted(self.counted)
    }
}
