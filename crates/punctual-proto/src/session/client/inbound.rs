//! What the server sends, applied to the table.

use crate::codec::Codec;
use crate::frame::{
    CallId, DataHead, DescribeHead, FrameHeader, GoAway, GoAwayReason, HealthFrame, Kind, NO_NEW_CALLS, Outcome, Ping,
    ResponseHead, Violation,
};
use crate::session::Turn;
use crate::session::batch::LINK_BYTES_MIN;
use crate::session::client::{Awaits, ClientSession, Reply, ReplyHead, Slot, State};
use crate::session::closure::{Closure, Ending};
use crate::session::effects::Effects;
use crate::session::reader::{Block, Item};
use bytes::{Bytes, BytesMut};

/// The bytes of a reply as they came.
enum Part<'a> {
    In(&'a [u8]),
    Own(Bytes),
}

impl ClientSession {
    /// Applies a run of items in order. A response behind its call's deadline at `now` counts as late even if nothing
    /// noticed the deadline before.
    ///
    /// # Errors
    /// The first rule that an item broke; the items before it stand.
    pub(super) fn apply_items(
        &mut self,
        items: &mut Vec<Item>,
        turn: &Turn<'_>,
        effects: &mut Effects,
    ) -> Result<(), Violation> {
        for item in items.drain(..) {
            match item {
                Item::Frame(header, range) => {
                    let payload = turn.block.get(&range);
                    match header.kind {
                        Kind::Response => {
                            let head = ResponseHead::decode(&header, payload, turn.rules)?;
                            if head.streamed {
                                self.open_returned(header.call, head.metadata, turn, effects)?;
                                continue;
                            }
                            self.check_unopened(header.call)?;
                            self.complete_call(header.call, reply_head(&head), tail(payload, &head), turn, effects);
                        }
                        _ => self.apply_other(&header, payload, turn, effects)?,
                    }
                }
                Item::Whole(whole) => {
                    let (header, head, body) = *whole;
                    self.apply_whole(&header, &head, body, turn, effects)?;
                }
                Item::Begun(_) => {}
            }
        }
        Ok(())
    }

    fn apply_whole(
        &mut self,
        header: &FrameHeader,
        head: &Bytes,
        body: Bytes,
        turn: &Turn<'_>,
        effects: &mut Effects,
    ) -> Result<(), Violation> {
        if header.kind == Kind::Data {
            let head = DataHead::decode(header, head, turn.rules)?;
            return self.take_item(header.call, &head, body, turn.now, effects);
        }
        if header.kind == Kind::Describe {
            let DescribeHead::Reply { failed, .. } = DescribeHead::decode(header, head, turn.rules)? else {
                return Ok(());
            };
            self.complete_query(header.call, describe_head(failed), Part::Own(body), turn, effects);
            return Ok(());
        }
        let decoded = ResponseHead::decode(header, head, turn.rules)?;
        self.check_unopened(header.call)?;
        let reply = reply_head(&decoded);
        let body = if decoded.metadata.is_empty() {
            body
        } else {
            // Metadata on a big reply is rare enough for a copy.
            let mut joined = BytesMut::with_capacity(decoded.metadata.len() + body.len());
            joined.extend_from_slice(decoded.metadata);
            joined.extend_from_slice(&body);
            joined.freeze()
        };
        self.complete_call(header.call, reply, Part::Own(body), turn, effects);
        Ok(())
    }

    fn apply_other(
        &mut self,
        header: &FrameHeader,
        payload: &[u8],
        turn: &Turn<'_>,
        effects: &mut Effects,
    ) -> Result<(), Violation> {
        match header.kind {
            Kind::Ping => self.out.push_pong(Ping::decode(header, payload)?).then_some(()).ok_or(flood())?,
            Kind::Data => {
                let head = DataHead::decode(header, payload, turn.rules)?;
                self.take_item(header.call, &head, turn.block.keep_item(head.body), turn.now, effects)?;
            }
            Kind::End => self.end_returned(header, payload, turn, effects)?,
            Kind::Credit => self.take_credit(header, payload, effects)?,
            Kind::GoAway => self.apply_go_away(&GoAway::decode(payload)?, effects),
            Kind::Describe => {
                if let DescribeHead::Reply { failed, body, .. } = DescribeHead::decode(header, payload, turn.rules)? {
                    self.complete_query(header.call, describe_head(failed), Part::In(body), turn, effects);
                }
            }
            Kind::Health => {
                if let HealthFrame::Reply(status) = HealthFrame::decode(header, payload)? {
                    match self.take_query(header.call) {
                        Some(at) => {
                            if let Some(slot) = self.slots.get_mut(at) {
                                slot.end(Reply::Health(status));
                                effects.wakers.extend(slot.waker.take());
                            }
                            self.end_live(Awaits::Answer, effects);
                        }
                        None => self.counters.late_replies += 1,
                    }
                }
            }
            // A pong is life, and that any bytes are. The header's rules let nothing else through.
            _ => {}
        }
        Ok(())
    }

    #[inline]
    fn complete_call(&mut self, call: CallId, head: ReplyHead, part: Part<'_>, turn: &Turn<'_>, effects: &mut Effects) {
        let at = call.slot() as usize;
        let late = self.deadlines.has_passed(at, turn.now);
        let live = State::Live(Awaits::Reply);
        match self.slots.get_mut(at).filter(|slot| slot.generation == call.generation() && slot.state == live) {
            Some(slot) if !late => {
                complete(slot, head, part, turn.block, effects);
                if slot.streams.is_some() {
                    self.end_streams(at, effects);
                }
                self.end_live(Awaits::Reply, effects);
            }
            Some(_) => {
                self.counters.late_replies += 1;
                self.fail(at, Ending::Deadline, effects);
            }
            None => self.counters.late_replies += 1,
        }
    }

    fn complete_query(
        &mut self,
        call: CallId,
        head: ReplyHead,
        part: Part<'_>,
        turn: &Turn<'_>,
        effects: &mut Effects,
    ) {
        match self.take_query(call) {
            Some(at) if self.deadlines.has_passed(at, turn.now) => self.fail(at, Ending::Deadline, effects),
            Some(at) => {
                if let Some(slot) = self.slots.get_mut(at) {
                    complete(slot, head, part, turn.block, effects);
                }
                self.end_live(Awaits::Answer, effects);
            }
            None => self.counters.late_replies += 1,
        }
    }

    fn take_query(&mut self, call: CallId) -> Option<usize> {
        let at = self.queries.iter().position(|(query, _)| *query == call)?;
        Some(self.queries.swap_remove(at).1 as usize)
    }

    fn apply_go_away(&mut self, go_away: &GoAway<'_>, effects: &mut Effects) {
        self.going_away = true;
        if go_away.reason != GoAwayReason::Shutdown && go_away.reason != GoAwayReason::Age {
            self.goodbye = Some(Closure::GoAway(go_away.reason, go_away.text.into()));
        }
        // After a violation the count is no promise that what lies above it may be sent again.
        if go_away.accepted != NO_NEW_CALLS && go_away.reason != GoAwayReason::ProtocolViolation {
            for at in 0..self.slots.len() {
                let above = self.slots.get(at).is_some_and(|slot| {
                    slot.number > go_away.accepted
                        && matches!(slot.state, State::Live(Awaits::Reply | Awaits::Emission))
                });
                if above {
                    let call = self.slots.get(at).map_or(CallId::NONE, |slot| slot.call);
                    self.out.remove_bulk(call, effects);
                    self.flow.credit(self.out.take_refund());
                    self.fail(at, Ending::NeverAccepted, effects);
                }
            }
        }
        // Nobody is let in any more: those in line find that out and go elsewhere.
        self.line.clear(&mut effects.wakers);
    }
}

/// Puts a reply into a live slot, and hands its caller's waker over.
#[inline]
fn complete(slot: &mut Slot, head: ReplyHead, part: Part<'_>, block: Block<'_>, effects: &mut Effects) {
    slot.head = head;
    match part {
        Part::In(bytes) if bytes.len() <= LINK_BYTES_MIN => {
            slot.copied.clear();
            slot.copied.extend_from_slice(bytes);
            slot.state = State::Copied;
        }
        Part::In(bytes) => {
            slot.shared = Some(block.keep(bytes));
            slot.state = State::Shared;
        }
        Part::Own(bytes) => {
            slot.shared = Some(bytes);
            slot.state = State::Shared;
        }
    }
    if let Some(waker) = slot.waker.take() {
        effects.wakers.push(waker);
    }
}

fn reply_head(head: &ResponseHead<'_>) -> ReplyHead {
    let metadata_bytes = u32::try_from(head.metadata.len()).unwrap_or(u32::MAX);
    ReplyHead { outcome: head.outcome, codec: head.codec, metadata_bytes, plain: head.plain }
}

fn describe_head(failed: bool) -> ReplyHead {
    let outcome = if failed { Outcome::Status } else { Outcome::Ok };
    ReplyHead { outcome, codec: Codec::Json, metadata_bytes: 0, plain: None }
}

/// Metadata and body, which lie behind each other at the payload's end.
fn tail<'a>(payload: &'a [u8], head: &ResponseHead<'a>) -> Part<'a> {
    let bytes = head.metadata.len() + head.body.len();
    Part::In(payload.get(payload.len().saturating_sub(bytes)..).unwrap_or_default())
}

fn flood() -> Violation {
    Violation::FieldTooLong {
        kind: Kind::Ping,
        field: "number of unanswered bytes",
        value: crate::session::outbox::PROGRESS_BYTES_MAX as u64,
        max: crate::session::outbox::PROGRESS_BYTES_MAX as u64,
    }
}
