//! What the client sends, applied to the table.

use crate::codec::Codec;
use crate::frame::{
    CallId, CallStreams, Cancel, DataHead, DescribeHead, FrameHeader, HealthFrame, Kind, Ping, RequestHead, Violation,
};
use crate::session::Turn;
use crate::session::effects::Effects;
use crate::session::outbox::PROGRESS_BYTES_MAX;
use crate::session::reader::Item;
use crate::session::server::{Run, RunKey, ServerSession, State};
use bytes::Bytes;
use punctual_clock::Instant;
use punctual_context::CancelReason;
use std::ops::Range;
use std::time::Duration;

/// Something that a client wants and that is answered outside of the lock.
#[derive(Debug)]
pub enum Incoming {
    /// A call to be started.
    Start(Start),
    /// A call that is not started.
    Refused(CallId, Refused),
    /// Describe this service, or all.
    Describe(CallId, String),
    /// The health of this service, or of the server.
    Health(CallId, String),
}

/// A call to be started. It has its place already.
#[derive(Debug)]
pub struct Start {
    /// Its handle.
    pub key: RunKey,
    /// The id of its method.
    pub method: u64,
    /// How its body is encoded.
    pub codec: Codec,
    /// Where its body is compressed, the bytes that it had before.
    pub plain: Option<u32>,
    /// The streams that it announced.
    pub streams: CallStreams,
    /// When its budget ends, [`Instant::FAR`] for never.
    pub deadline: Instant,
    /// Where its encoded metadata lies in the block that is being applied.
    pub metadata: Range<usize>,
    /// The same of its body.
    pub body: Range<usize>,
    /// The two on their own, for a call that came in pieces.
    pub whole: Option<Box<(Bytes, Bytes)>>,
}

/// Why a call was not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// The connection runs as many calls as it may.
    Connection {
        /// That limit.
        max: usize,
    },
    /// The connection has as many streams as it may.
    Streams {
        /// That limit.
        max: u64,
    },
    /// The server runs as many calls as it may.
    Server,
    /// Its budget is below what the server accepts.
    Budget {
        /// The budget.
        budget: Duration,
        /// The least accepted.
        min: Duration,
    },
}

impl ServerSession {
    pub(super) fn apply_items(
        &mut self,
        items: &mut Vec<Item>,
        turn: &Turn<'_>,
        effects: &mut Effects,
    ) -> Result<(), Violation> {
        // It forgets a burst within some hundred frames.
        self.slots_in_use -= self.slots_in_use / 16;
        for item in items.drain(..) {
            match item {
                Item::Frame(header, range) => {
                    let payload = turn.block.get(&range);
                    if header.kind == Kind::Request {
                        let head = RequestHead::decode(&header, payload, turn.rules)?;
                        let body = range.end.saturating_sub(head.body.len())..range.end;
                        let metadata = body.start.saturating_sub(head.metadata.len())..body.start;
                        if let Some(key) = self.admit(&header, &head, State::Live, turn.now)? {
                            self.start(key, &head, metadata, body, None);
                        }
                    } else {
                        self.apply_other(&header, payload, turn, effects)?;
                    }
                }
                Item::Begun(begun) => {
                    let (header, head) = *begun;
                    let head = RequestHead::decode(&header, &head, turn.rules)?;
                    self.admit(&header, &head, State::Assembling, turn.now)?;
                }
                Item::Whole(whole) => {
                    let (header, head, body) = *whole;
                    if header.kind == Kind::Data {
                        let head = DataHead::decode(&header, &head, turn.rules)?;
                        self.take_item(header.call, &head, body, effects)?;
                        continue;
                    }
                    let metadata = RequestHead::decode(&header, &head, turn.rules)?.metadata.len();
                    let metadata = head.slice(head.len().saturating_sub(metadata)..);
                    let head = RequestHead::decode(&header, &head, turn.rules)?;
                    self.assembled(&header, &head, metadata, body, effects);
                }
            }
        }
        Ok(())
    }

    /// Counts a request head, and gives its call a place if it may have one.
    #[inline]
    fn admit(
        &mut self,
        header: &FrameHeader,
        head: &RequestHead<'_>,
        state: State,
        now: Instant,
    ) -> Result<Option<RunKey>, Violation> {
        if self.heads >= self.accept_max {
            // Behind the final go-away: the client knows by the count that it was never accepted.
            return Ok(None);
        }
        self.heads += 1;
        let call = header.call;
        if call.is_pending()
            && let Some(place) = self.places.get(call.slot() as usize)
            && let Some(run) = self.runs.get((*place as usize).wrapping_sub(1))
            && matches!(run.state, State::Live | State::Assembling)
            && run.call.is_pending()
            && run.call.slot() == call.slot()
        {
            // A slot is given to a new call only after the old one was answered or cancelled.
            return Err(Violation::CallIdInUse { call: run.call });
        }
        let deadline = match self.deadline(head, now) {
            Ok(deadline) => deadline,
            Err(refused) => {
                self.refuse(call, refused);
                return Ok(None);
            }
        };
        let max = self.running_max();
        let refused = if head.oneway {
            // It cannot be refused: reading pauses at the limit, and a run that was read already is let in.
            None
        } else if self.live >= max || self.occupied - self.oneways >= max.saturating_mul(2) {
            Some(Refused::Connection { max })
        } else if self.occupied >= self.permits {
            Some(Refused::Server)
        } else {
            None
        };
        if let Some(refused) = refused {
            self.refuse(call, refused);
            return Ok(None);
        }
        if head.streams != CallStreams::NONE {
            return Ok(self.admit_streams(call, head.streams, state, deadline));
        }
        Ok(Some(self.place(call, state, deadline)))
    }

    #[cold]
    fn admit_streams(&mut self, call: CallId, streams: CallStreams, state: State, deadline: Instant) -> Option<RunKey> {
        if let Err(max) = self.flow.check(streams.count()) {
            self.refuse(call, Refused::Streams { max });
            return None;
        }
        let key = self.place(call, state, deadline);
        self.open_streams(key, streams);
        Some(key)
    }

    /// The server's own end of the call's budget.
    fn deadline(&self, head: &RequestHead<'_>, now: Instant) -> Result<Instant, Refused> {
        let Some(budget) = head.budget_duration() else {
            return Ok(self.budgets.default.map_or(Instant::FAR, |budget| now.after(budget)));
        };
        let min = self.budgets.min;
        if budget < min {
            return Err(Refused::Budget { budget, min });
        }
        Ok(now.after(self.budgets.max.map_or(budget, |max| budget.min(max))))
    }

    fn refuse(&mut self, call: CallId, refused: Refused) {
        self.counters.refused += 1;
        if call.is_pending() {
            self.incoming.push(Incoming::Refused(call, refused));
        }
    }

    #[inline]
    fn place(&mut self, call: CallId, state: State, deadline: Instant) -> RunKey {
        let at = match self.free.pop() {
            Some(at) => at,
            None => self.add_run(),
        };
        if let Some(run) = self.runs.get_mut(at as usize) {
            // What else there is was emptied when the place was given back.
            run.call = call;
            run.state = state;
        }
        self.deadlines.set(at as usize, deadline);
        self.occupied += 1;
        if call.is_pending() {
            self.live += 1;
            let slot = call.slot() as usize;
            self.slots_in_use = self.slots_in_use.max(slot + 1);
            if self.places.len() <= slot {
                self.places.resize(slot + 1, 0);
            }
            if let Some(place) = self.places.get_mut(slot) {
                *place = at + 1;
            }
        } else {
            self.oneways += 1;
        }
        RunKey { at, call }
    }

    #[cold]
    fn add_run(&mut self) -> u32 {
        self.runs.push(Run::new());
        self.deadlines.push();
        u32::try_from(self.runs.len() - 1).unwrap_or(u32::MAX)
    }

    #[inline]
    fn start(
        &mut self,
        key: RunKey,
        head: &RequestHead<'_>,
        metadata: Range<usize>,
        body: Range<usize>,
        whole: Option<Box<(Bytes, Bytes)>>,
    ) {
        let deadline = self.deadlines.get(key.at as usize);
        let (method, codec, streams) = (head.method, head.codec, head.streams);
        let start = Start { key, method, codec, plain: head.plain, streams, deadline, metadata, body, whole };
        self.incoming.push(Incoming::Start(start));
    }

    fn assembled(
        &mut self,
        header: &FrameHeader,
        head: &RequestHead<'_>,
        metadata: Bytes,
        body: Bytes,
        effects: &mut Effects,
    ) {
        let at = self.find_newest(header.call);
        let run = at.and_then(|at| self.runs.get_mut(at)).filter(|run| run.state == State::Assembling);
        let (Some(at), Some(run)) = (at, run) else {
            // It was refused, cancelled or too late while its pieces came.
            effects.garbage.push(body);
            return;
        };
        run.state = State::Live;
        let key = RunKey { at: u32::try_from(at).unwrap_or(u32::MAX), call: header.call };
        self.start(key, head, 0..0, 0..0, Some(Box::new((metadata, body))));
    }

    fn apply_other(
        &mut self,
        header: &FrameHeader,
        payload: &[u8],
        turn: &Turn<'_>,
        effects: &mut Effects,
    ) -> Result<(), Violation> {
        let call = header.call;
        match header.kind {
            Kind::Cancel => {
                let cause = Cancel::decode(payload)?.0;
                if let Some(at) = self.find_newest(call) {
                    self.counters.cancelled += 1;
                    self.end(at, cause.map_or(CancelReason::User, CancelReason::from), effects);
                }
            }
            Kind::Data => {
                let head = DataHead::decode(header, payload, turn.rules)?;
                self.take_item(call, &head, turn.block.keep_item(head.body), effects)?;
            }
            Kind::End => self.end_argument(header, payload, turn, effects)?,
            Kind::Credit => self.take_credit(header, payload, effects)?,
            Kind::Ping => self.out.push_pong(Ping::decode(header, payload)?).then_some(()).ok_or(flood(Kind::Ping))?,
            Kind::Pong => {
                let pong = Ping::decode(header, payload)?;
                if self.pong == Some(pong.0) {
                    self.pong = None;
                }
            }
            Kind::Describe => {
                if let DescribeHead::Query(service) = DescribeHead::decode(header, payload, turn.rules)? {
                    self.incoming.push(Incoming::Describe(call, service.to_owned()));
                }
            }
            Kind::Health => {
                if let HealthFrame::Query(service) = HealthFrame::decode(header, payload)? {
                    self.incoming.push(Incoming::Health(call, service.to_owned()));
                }
            }
            // A client's go-away says that it will send no more, which its closing says too. The header's rules let
            // nothing else through.
            _ => {}
        }
        Ok(())
    }
}

/// The peer provokes answers and does not read them.
pub(crate) fn flood(kind: Kind) -> Violation {
    let max = PROGRESS_BYTES_MAX as u64;
    Violation::FieldTooLong { kind, field: "number of answer bytes that were asked for and not read", value: max, max }
}
