//! What goes out on one connection: the open batch, the ring of big messages, and who waits for either.

use crate::frame::{CallId, Cancel, Credit, EndHead, GoAway, HEADER_BYTES, HealthFrame, PAYLOAD_BYTES_MAX, Ping};
use crate::limits::Limits;
use crate::session::batch::{Batch, LINK_BYTES_MIN};
use crate::session::bulk::Bulk;
use crate::session::effects::Effects;
use crate::session::message::{Body, MessageHead};
use bytes::Bytes;
use std::collections::VecDeque;
use std::task::Waker;

/// Bytes of pings, pongs, go-aways and health answers that may be queued beside the send queue's bound, so that overload
/// never costs liveness. A peer that provokes more without reading is flooding.
pub const PROGRESS_BYTES_MAX: usize = 64 * 1024;

/// Bytes queued above which a producer without a deadline gives way once, so that it cannot starve its own connection.
pub const YIELD_ABOVE_BYTES: usize = 256 * 1024;

/// Bytes queued above which streams wait, so that their items fill the transport and not the queue: calls beside them are
/// neither refused for them nor written long after them.
pub const STREAM_QUEUE_BYTES_MAX: usize = 256 * 1024;

/// The send side of a session. Everything in it is short: no codec, no clock, and nothing is dropped or woken in it.
#[derive(Debug)]
pub struct Outbox {
    open: Batch,
    bulk: Bulk,
    queue_bytes_max: usize,
    assembly_bytes_max: usize,
    /// Bytes ever appended to a batch, and ever written to the transport.
    appended: u64,
    written: u64,
    /// Protocol progress that is not written.
    progress: Unwritten,
    /// Who is told when the bytes up to an offset were written, in order of the offsets.
    marks: VecDeque<(u64, u64)>,
    /// Producers that wait for room, each once.
    room: Vec<Waiter>,
    driver: Option<Waker>,
    /// The driver waits for the transport: new output is no reason to wake it.
    stalled: bool,
    /// A message left the ring of big ones since this was last asked.
    ring_moved: bool,
    /// What items of streams that were taken out of the ring had been charged to the connection's window.
    refund: u64,
}

/// Bytes of one class that are not written, counted in two generations: the older one is forgotten when all of it was
/// written, also on a connection whose queue is never empty.
#[derive(Debug, Default)]
struct Unwritten {
    older: usize,
    /// The offset where the older generation ends.
    older_end: u64,
    newer: usize,
    newer_end: u64,
}

impl Unwritten {
    fn bytes(&self) -> usize {
        self.older + self.newer
    }

    fn add(&mut self, bytes: usize, end: u64) {
        if self.older == 0 {
            self.older = bytes;
            self.older_end = end;
        } else {
            self.newer += bytes;
            self.newer_end = end;
        }
    }

    fn note_written(&mut self, written: u64) {
        if self.older > 0 && written >= self.older_end {
            self.older = std::mem::take(&mut self.newer);
            self.older_end = self.newer_end;
            if written >= self.older_end {
                self.older = 0;
            }
        }
    }
}

/// A producer that waits for room.
#[derive(Debug)]
struct Waiter {
    /// Whose it is, so that it can be replaced and taken away.
    key: u64,
    /// It waits for the ring of big messages, not for bytes of the queue.
    ring: bool,
    waker: Waker,
}

impl Outbox {
    pub(crate) fn for_limits(limits: &Limits) -> Self {
        let queue_bytes_max = usize::try_from(limits.send_queue_bytes_max).unwrap_or(usize::MAX);
        let assembly_bytes_max = usize::try_from(limits.assembling_bytes_max()).unwrap_or(usize::MAX);
        Outbox {
            open: Batch::default(),
            bulk: Bulk::default(),
            queue_bytes_max,
            assembly_bytes_max,
            appended: 0,
            written: 0,
            progress: Unwritten::default(),
            marks: VecDeque::new(),
            room: Vec::new(),
            driver: None,
            stalled: false,
            ring_moved: false,
            refund: 0,
        }
    }

    /// Bytes appended and not yet written.
    #[must_use]
    #[inline]
    pub fn queued_bytes(&self) -> usize {
        usize::try_from(self.appended - self.written).unwrap_or(usize::MAX) + self.bulk.bytes()
    }

    /// The bound of the queue.
    #[must_use]
    pub fn queue_bytes_max(&self) -> usize {
        self.queue_bytes_max
    }

    /// Whether there is something for the next batch.
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.open.is_empty() || !self.bulk.is_empty()
    }

    /// Whether a message of `bytes`, with `reserved` bytes kept for others, may be queued now. One message of any legal
    /// size is let in when nothing big is queued.
    pub(crate) fn fits(&self, bytes: usize, reserved: usize) -> bool {
        let with = self.queued_bytes() + bytes + reserved;
        with <= self.queue_bytes_max || bytes > PAYLOAD_BYTES_MAX as usize && self.queued_bytes() <= LINK_BYTES_MIN
    }

    /// Whether the receiver can assemble a message of this body beside those under way.
    pub(crate) fn bulk_fits(&self, body_bytes: usize) -> bool {
        self.bulk.has_room(body_bytes, self.assembly_bytes_max)
    }

    /// Whether a message does not fit one frame.
    #[inline]
    pub(crate) fn is_bulk<H: MessageHead>(&self, head: &H, body: &Body<'_>) -> bool {
        body.framed_len().is_none() && head.head_bytes() + body.len() > PAYLOAD_BYTES_MAX as usize
    }

    /// Appends a message, the rest of a big one to the ring. `mark` is told when its last byte was written.
    #[inline]
    pub(crate) fn push_message<H: MessageHead>(
        &mut self,
        call: CallId,
        head: H,
        body: &mut Body<'_>,
        mark: Option<u64>,
    ) {
        let Some((frame, copied)) = body.frame_for(call) else { return self.push_parts(call, head, body, mark) };
        self.put(frame);
        if !copied.is_empty() {
            self.put(copied);
        }
        if body.is_linked() {
            self.link(body.take_linked());
        }
        if let Some(mark) = mark {
            self.marks.push_back((self.appended, mark));
        }
    }

    /// As [`Outbox::push_message`], from a head and a body.
    fn push_parts<H: MessageHead>(&mut self, call: CallId, mut head: H, body: &mut Body<'_>, mark: Option<u64>) {
        let len = body.len();
        let mut room = (PAYLOAD_BYTES_MAX as usize).saturating_sub(head.head_bytes());
        if len <= room {
            let prefix = head.prefix(call, len);
            self.put(prefix.as_slice());
            if !head.metadata().is_empty() {
                self.put(head.metadata());
            }
            if body.is_linked() && len >= LINK_BYTES_MIN {
                self.link(body.take_linked());
            } else {
                self.put(body.as_slice());
            }
            if let Some(mark) = mark {
                self.marks.push_back((self.appended, mark));
            }
            return;
        }
        head.announce(u32::try_from(len).unwrap_or(u32::MAX));
        room = (PAYLOAD_BYTES_MAX as usize).saturating_sub(head.head_bytes());
        let mut rest = if body.is_linked() { body.take_linked() } else { Bytes::copy_from_slice(body.as_slice()) };
        let first = rest.split_to(room.min(rest.len()));
        self.put(head.prefix(call, first.len()).as_slice());
        self.put(head.metadata());
        self.link(first);
        self.bulk.push(call, rest, len, mark);
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.open.put(bytes);
        self.appended += bytes.len() as u64;
    }

    fn link(&mut self, bytes: Bytes) {
        self.appended += bytes.len() as u64;
        self.open.link(bytes);
    }

    fn put_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        let added = self.open.put_with(write);
        self.appended += added as u64;
        added
    }

    /// Cancels a published call: what is left of its request is replaced.
    pub(crate) fn push_cancel(&mut self, call: CallId, cancel: Cancel, effects: &mut Effects) {
        self.remove_bulk(call, effects);
        self.put_with(|out| cancel.put(call, out));
    }

    /// Takes the pieces of `call` that were not handed out.
    pub(crate) fn remove_bulk(&mut self, call: CallId, effects: &mut Effects) {
        if let Some((rest, charge)) = self.bulk.remove(call) {
            effects.garbage.push(rest);
            self.refund += charge;
            self.ring_moved = true;
            self.wake_room(true, &mut effects.wakers);
        }
    }

    /// Queues protocol progress; `false` where its reserve is used up.
    fn push_progress(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        if self.progress.bytes() >= PROGRESS_BYTES_MAX {
            return false;
        }
        let bytes = self.put_with(write);
        self.progress.add(bytes, self.appended);
        true
    }

    /// Queues a ping.
    pub fn push_ping(&mut self, ping: Ping) -> bool {
        self.push_progress(|out| ping.put(out))
    }

    /// Queues the answer to a ping; `false` where the peer pings without reading.
    pub(crate) fn push_pong(&mut self, ping: Ping) -> bool {
        self.push_progress(|out| ping.put_pong(out))
    }

    /// Queues a health query, which its own slot bounds.
    pub(crate) fn push_query_health(&mut self, call: CallId, health: HealthFrame<'_>) {
        self.put_with(|out| health.put(call, out));
    }

    /// Queues the answer to a health query; `false` where the peer asks without reading.
    pub(crate) fn push_health(&mut self, call: CallId, health: HealthFrame<'_>) -> bool {
        self.push_progress(|out| health.put(call, out))
    }

    /// Queues permission to send more; `false` where the peer does not read what is granted to it.
    pub(crate) fn push_credit(&mut self, call: CallId, stream: u16, bytes: u64) -> bool {
        let credit = Credit(u32::try_from(bytes).unwrap_or(u32::MAX));
        self.push_progress(|out| credit.put(call, stream, out))
    }

    /// Queues the end of a stream. There is one for each, so that their number bounds it.
    pub(crate) fn push_end(&mut self, call: CallId, end: &EndHead<'_>) {
        self.put_with(|out| end.put(call, out));
    }

    /// Whether the reserve of protocol progress has room.
    pub(crate) fn has_progress_room(&self) -> bool {
        self.progress.bytes() < PROGRESS_BYTES_MAX
    }

    /// Whether an item of a stream may be queued now, as far as the queue goes.
    pub(crate) fn stream_fits(&self) -> bool {
        self.queued_bytes() < STREAM_QUEUE_BYTES_MAX
    }

    /// Whether streams that waited for the queue may go on.
    pub(crate) fn take_stream_room(&mut self) -> bool {
        std::mem::take(&mut self.ring_moved) || self.queued_bytes() <= STREAM_QUEUE_BYTES_MAX / 2
    }

    /// Whether a message of `call` is in the ring: what else the call sends must come behind it.
    pub(crate) fn has_bulk(&self, call: CallId) -> bool {
        self.bulk.has(call)
    }

    /// Notes what the message of `call` that may be in the ring was charged to the connection's window.
    pub(crate) fn charge_bulk(&mut self, call: CallId, charge: u64) {
        self.bulk.charge(call, charge);
    }

    /// What was charged for messages that are not sent.
    pub(crate) fn take_refund(&mut self) -> u64 {
        std::mem::take(&mut self.refund)
    }

    /// Queues a go-away. There are at most three in the life of a connection, so no bound applies.
    pub fn push_go_away(&mut self, go_away: &GoAway<'_>) {
        self.put_with(|out| go_away.put(out));
    }

    /// Moves what there is into `batch`, which must be empty: the open batch and one piece of each big message.
    pub fn take(&mut self, batch: &mut Batch, effects: &mut Effects) {
        let Outbox { open, bulk, marks, appended, .. } = self;
        let mut moved = false;
        if !bulk.is_empty() {
            let before = *appended;
            let added = bulk.hand_out(open, |offset, mark| {
                if let Some(mark) = mark {
                    marks.push_back((before + offset as u64, mark));
                }
                moved = true;
            });
            *appended += added as u64;
        }
        std::mem::swap(open, batch);
        if moved {
            // The ring has a place again.
            self.ring_moved = true;
            self.wake_room(true, &mut effects.wakers);
        }
    }

    /// Notes that `bytes` more were written; the marks that this reached are appended to `reached`.
    pub(crate) fn note_written(&mut self, bytes: usize, reached: &mut Vec<u64>, wakers: &mut Vec<Waker>) {
        // What a closed session gave up counts as written already, and the writer may still report it.
        self.written = (self.written + bytes as u64).min(self.appended);
        while let Some(&(end, mark)) = self.marks.front() {
            if end > self.written {
                break;
            }
            self.marks.pop_front();
            reached.push(mark);
        }
        self.progress.note_written(self.written);
        if !self.room.is_empty() && self.queued_bytes() <= self.queue_bytes_max / 2 {
            self.wake_room(false, wakers);
        }
    }

    /// Parks a producer until there is room in the queue or, with `ring`, until the ring of big messages moved on. What
    /// it had parked before is returned.
    pub(crate) fn wait_for_room(&mut self, key: u64, ring: bool, waker: Waker) -> Option<Waker> {
        if let Some(waiter) = self.room.iter_mut().find(|waiter| waiter.key == key) {
            waiter.ring = ring;
            return Some(std::mem::replace(&mut waiter.waker, waker));
        }
        self.room.push(Waiter { key, ring, waker });
        None
    }

    /// Takes a producer away that waits no more.
    pub(crate) fn leave_room(&mut self, key: u64) -> Option<Waker> {
        let at = self.room.iter().position(|waiter| waiter.key == key)?;
        Some(self.room.remove(at).waker)
    }

    fn wake_room(&mut self, ring: bool, wakers: &mut Vec<Waker>) {
        wakers.extend(self.room.extract_if(.., |waiter| waiter.ring == ring).map(|waiter| waiter.waker));
    }

    /// Parks the driver until something is appended or, where it is `stalled` by the transport, until a deadline moves
    /// ahead of its timer. The waker that was parked before is returned.
    pub fn park_driver(&mut self, waker: Waker, stalled: bool) -> Option<Waker> {
        self.stalled = stalled;
        self.driver.replace(waker)
    }

    /// Takes the parked driver's waker after output was appended: whoever appends first wakes it, outside of the lock.
    #[must_use]
    #[inline]
    pub fn take_driver(&mut self) -> Option<Waker> {
        if self.stalled { None } else { self.driver.take() }
    }

    /// Takes the parked driver's waker for a reason other than output.
    #[must_use]
    pub fn rouse_driver(&mut self) -> Option<Waker> {
        self.driver.take()
    }

    /// Whether bytes of a frame are still to be written by the driver.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        self.appended == self.written && self.bulk.is_empty()
    }

    /// Empties everything. What is to be dropped or woken outside of the lock is returned in the two vectors.
    pub(crate) fn clear(&mut self, garbage: &mut Vec<Bytes>, wakers: &mut Vec<Waker>) -> Batch {
        self.bulk.clear(garbage);
        self.marks.clear();
        wakers.extend(self.room.drain(..).map(|waiter| waiter.waker));
        wakers.extend(self.driver.take());
        self.written = self.appended;
        std::mem::take(&mut self.open)
    }
}

/// The bytes that a message takes in the queue, headers included.
fn queued_size(head_bytes: usize, body_bytes: usize) -> usize {
    let pieces = body_bytes / PAYLOAD_BYTES_MAX as usize + 1;
    head_bytes + body_bytes + pieces * HEADER_BYTES
}

/// The same for a message whose frame may be built already.
#[inline]
pub(crate) fn message_size<H: MessageHead>(head: &H, body: &Body<'_>) -> usize {
    body.framed_len().unwrap_or_else(|| queued_size(head.head_bytes(), body.len()))
}
