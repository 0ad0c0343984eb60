//! The driver: one task for each connection, the same on both sides.
//!
//! ```text
//! turn: take the open batch ─ one vectored write ─ read, if less than a frame is buffered
//!       ─ parse at most a few frames ─ ONE lock: apply, expire ─ start and wake everything
//!       ─ if anything was woken, give way to it; else sleep until something is appended or comes
//! ```
//! Only a part of what is buffered is taken in one turn: the tasks that it wakes run before the next one, so that both
//! sides of a busy connection work at once instead of handing whole batches to and fro.

mod liveness;
pub(crate) mod opening;

use bytes::{Buf, BytesMut};
use liveness::{Liveness, Verdict};
use punctual_clock::{Clock, Instant};
use punctual_proto::frame::{Direction, GoAway, GoAwayReason, Ping, Violation};
use punctual_proto::handshake::Agreement;
use punctual_proto::session::{
    Batch, Block, Closure, Effects, Item, LINK_BYTES_MIN, Progress, Reader, SLICES_MAX, Session, Turn,
};
use std::future::Future;
use std::io::{self, IoSlice};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Sleep;
use tokio_util::io::poll_read_buf;

/// Frames that one turn takes: a quarter of the calls under way, between these.
const FRAMES_MIN: usize = 4;
const FRAMES_MAX: usize = 32;

/// The room of a read at first, and after reads that filled it.
const READ_BYTES_MIN: usize = 16 * 1024;
const READ_BYTES_MAX: usize = 128 * 1024;

/// How long a closing connection tries to write its last words and waits for the peer to close, too.
const LINGER: Duration = Duration::from_secs(1);

/// What a peer may still have under way when its connection is closed: about what the sockets hold. One that sends more
/// does not listen.
const DRAINED_BYTES_MAX: usize = 1024 * 1024;

/// The bytes that passed a connection.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    sent: AtomicU64,
    received: AtomicU64,
}

impl Traffic {
    /// Bytes written and bytes read.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Relaxed), self.received.load(Ordering::Relaxed))
    }
}

/// What a driver asks of the side that it works for.
pub(crate) trait Role: Send + Sync + 'static {
    type Session: Session;
    /// What is done after the lock.
    type Work: Default + Send + Unpin;

    /// Locks the session. A lock that was poisoned by a panic is taken over: the driver closes the connection.
    fn lock(&self) -> MutexGuard<'_, Self::Session>;
    fn is_poisoned(&self) -> bool;
    /// The driver's own clock handle, at most one read a turn.
    fn clock(&self) -> &dyn Clock;
    /// How long output may wait for more of it before it is written; zero for not at all.
    fn write_latency(&self) -> Duration;
    /// Turns are counted here.
    fn turns(&self) -> &AtomicU64;
    /// Bytes are counted here.
    fn traffic(&self) -> &Traffic;
    /// Who writes what this side reads.
    const FROM: Direction;

    /// Before a run is applied.
    fn prepare(&self, session: &mut Self::Session, items: &[Item]);
    /// After a run was applied, still under the lock.
    fn collect(&self, session: &mut Self::Session, work: &mut Self::Work);
    /// After the lock. Returns how many tasks were started.
    fn work(self: &Arc<Self>, work: &mut Self::Work, block: Block<'_>) -> usize;
    /// Whether reading must wait.
    fn must_pause(&self, session: &mut Self::Session) -> bool;
    /// The connection is over.
    fn ended(self: &Arc<Self>, closure: &Closure);
}

/// The future that moves one connection.
pub(crate) struct Driver<L, R: Role> {
    link: L,
    role: Arc<R>,
    reader: Reader,
    block: BytesMut,
    read_bytes: usize,
    batch: Batch,
    /// Bytes written that the session was not told of.
    unreported: usize,
    items: Vec<Item>,
    effects: Effects,
    work: R::Work,
    liveness: Liveness,
    /// Bytes were written and not flushed.
    unflushed: bool,
    /// This task's waker, while it is not parked.
    waker: Option<Waker>,
    /// Until when output waits for more of it, where a latency is set and there is some.
    held_until: Option<Instant>,
    /// Calls under way when frames were last applied.
    in_flight: usize,
    /// Nothing was under way when this task last went to sleep.
    is_idle: bool,
    now: Option<Instant>,
    phase: Phase,
    linger: Option<Pin<Box<Sleep>>>,
}

enum Phase {
    Open,
    /// Writing the last words.
    Flushing(Batch),
    /// Shutting the write side down.
    Shutting,
    /// Waiting for the peer's end, so that our last words are not lost to a reset. So many bytes may still come.
    Draining(usize),
    Over,
}

/// What the read side brought.
enum Input {
    Frames,
    Nothing,
}

/// What a turn ends in.
enum Next {
    Turn,
    Yield,
    Sleep,
}

/// Why a connection ends.
enum End {
    Io(io::Error),
    Violation(Violation),
    Close(Closure),
}

impl<L: AsyncRead + AsyncWrite + Unpin, R: Role> Driver<L, R> {
    pub(crate) fn new(link: L, role: Arc<R>, agreement: &Agreement, rest: BytesMut) -> Self {
        let reader = Reader::new(agreement.rules(R::FROM), &agreement.limits, LINK_BYTES_MIN);
        let now = role.clock().now();
        Driver {
            link,
            role,
            reader,
            block: rest,
            read_bytes: READ_BYTES_MIN,
            batch: Batch::default(),
            unreported: 0,
            unflushed: false,
            waker: None,
            held_until: None,
            items: Vec::with_capacity(FRAMES_MAX),
            effects: Effects::default(),
            work: R::Work::default(),
            liveness: Liveness::new(now, agreement.limits.ping_after, agreement.limits.dead_after),
            in_flight: 0,
            is_idle: true,
            now: None,
            phase: Phase::Open,
            linger: None,
        }
    }

    /// The turn's one clock sample.
    fn now(&mut self) -> Instant {
        *self.now.get_or_insert_with(|| self.role.clock().now())
    }

    /// Takes turns until there is nothing to do, somebody else is to have a turn, or the connection is over.
    fn run(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while matches!(self.phase, Phase::Open) {
            self.role.turns().fetch_add(1, Ordering::Relaxed);
            self.now = None;
            match self.turn(cx) {
                Ok(Next::Turn) => {}
                Ok(Next::Yield) => {
                    // Behind those that were just woken.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Ok(Next::Sleep) => return Poll::Pending,
                Err(end) => self.end(end),
            }
        }
        Poll::Ready(())
    }

    fn turn(&mut self, cx: &mut Context<'_>) -> Result<Next, End> {
        if self.role.is_poisoned() {
            return Err(End::Close(Closure::Lost("a defect of this side broke the connection's state".into())));
        }
        if self.batch.is_empty() {
            self.fetch()?;
        }
        let stalled = self.write(cx).map_err(End::Io)?;
        match self.input(cx).map_err(End::Io)? {
            Input::Frames => match self.apply()? {
                0 => Ok(Next::Turn),
                _ => Ok(Next::Yield),
            },
            Input::Nothing => self.rest(cx, stalled),
        }
    }

    /// Takes the next batch.
    fn fetch(&mut self) -> Result<(), End> {
        self.batch.clear();
        let latency = self.role.write_latency();
        let now = if latency.is_zero() { Instant::FAR } else { self.now() };
        let mut session = self.role.lock();
        if self.unreported > 0 {
            session.note_written(std::mem::take(&mut self.unreported), &mut self.effects);
        }
        // It is awake: appending needs not wake it. The waker is kept for the next sleep.
        let woken = session.outbox().rouse_driver();
        if now == Instant::FAR {
            session.outbox().take(&mut self.batch, &mut self.effects);
        } else if session.outbox().has_output() {
            let until = *self.held_until.get_or_insert(now.after(latency));
            // A connection that ends holds nothing back.
            if now >= until || session.is_draining() {
                session.outbox().take(&mut self.batch, &mut self.effects);
                self.held_until = None;
            }
        }
        let closure = session.closure().cloned();
        let finished = self.batch.is_empty() && session.is_finished();
        drop(session);
        if woken.is_some() {
            self.waker = woken;
        }
        self.effects.run();
        match closure {
            Some(closure) => Err(End::Close(closure)),
            None if finished => Err(End::Close(Closure::Local)),
            None => Ok(()),
        }
    }

    /// One vectored write. True where the transport takes no more for now.
    fn write(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        if !self.batch.is_empty() {
            let Poll::Ready(written) = poll_write_batch(&mut self.link, cx, &self.batch) else { return Ok(true) };
            let written = written?;
            if written == 0 {
                return Err(io::Error::new(io::ErrorKind::WriteZero, "the transport takes no more bytes"));
            }
            self.batch.advance(written);
            self.unreported += written;
            self.role.traffic().sent.fetch_add(written as u64, Ordering::Relaxed);
            self.liveness.wrote();
            self.unflushed = true;
        }
        if self.unflushed && self.batch.is_empty() {
            let Poll::Ready(flushed) = Pin::new(&mut self.link).poll_flush(cx) else { return Ok(true) };
            flushed?;
            self.unflushed = false;
        }
        Ok(false)
    }

    fn input(&mut self, cx: &mut Context<'_>) -> io::Result<Input> {
        if self.liveness.is_paused() {
            return Ok(Input::Nothing);
        }
        if Reader::has_frame(&self.block) {
            return Ok(Input::Frames);
        }
        if self.block.capacity() - self.block.len() < READ_BYTES_MIN / 2 {
            self.block.reserve(self.read_bytes);
        }
        let Poll::Ready(read) = poll_read_buf(Pin::new(&mut self.link), cx, &mut self.block) else {
            return Ok(Input::Nothing);
        };
        let read = read?;
        if read == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the peer closed the connection"));
        }
        self.role.traffic().received.fetch_add(read as u64, Ordering::Relaxed);
        self.liveness.heard();
        if self.block.len() == self.block.capacity() {
            self.read_bytes = (self.read_bytes * 2).min(READ_BYTES_MAX);
        }
        // Also where no frame is whole: a header that breaks the rules is found even if its payload never comes.
        Ok(Input::Frames)
    }

    /// Applies the frames that are buffered, as many as one turn takes. Returns how many tasks were woken or started.
    fn apply(&mut self) -> Result<usize, End> {
        let mut progress = Progress::default();
        let max = (self.in_flight / 4).clamp(FRAMES_MIN, FRAMES_MAX);
        let mut result = self.reader.read(&self.block, max, &mut self.items, &mut progress);
        let shared = progress.has_large.then(|| self.block.split_to(progress.consumed).freeze());
        let mut started = 0;
        if !self.items.is_empty() {
            let now = self.now();
            self.liveness.heard_at(now);
            let bytes = match &shared {
                Some(shared) => &shared[..],
                None => self.block.get(..progress.consumed).unwrap_or_default(),
            };
            let block = Block { bytes, shared: shared.as_ref() };
            let turn = Turn { block, rules: self.reader.rules(), now };
            let mut session = self.role.lock();
            if self.unreported > 0 {
                session.note_written(std::mem::take(&mut self.unreported), &mut self.effects);
            }
            self.role.prepare(&mut session, &self.items);
            // What the reader found wrong lies behind what it read.
            result = session.apply(&mut self.items, &turn, &mut self.effects).and(result);
            if session.due_at() <= now {
                session.expire(now, &mut self.effects);
            }
            self.role.collect(&mut session, &mut self.work);
            self.liveness.pause(self.role.must_pause(&mut session));
            self.in_flight = session.in_flight();
            drop(session);
            self.items.clear();
            started = self.role.work(&mut self.work, block);
        }
        if shared.is_none() {
            self.block.advance(progress.consumed);
        }
        let woken = self.effects.run();
        result.map_err(End::Violation)?;
        if progress.frames == 0 {
            // Less than a frame came, and the next read says whether there is more.
            return Ok(0);
        }
        Ok(started + woken)
    }

    /// Nothing more came: minds the timer, and goes to sleep if there is nothing to write either.
    fn rest(&mut self, cx: &mut Context<'_>, stalled: bool) -> Result<Next, End> {
        let fired = self.liveness.fired();
        let mut verdict = Verdict::Alive;
        if fired {
            let now = self.now();
            verdict = self.liveness.judge(now, stalled);
            if verdict == Verdict::Dead {
                return Err(End::Close(Closure::HeartbeatLost));
            }
            if self.block.is_empty() && self.is_idle {
                // A silent connection holds no buffers.
                self.block = BytesMut::new();
                self.read_bytes = READ_BYTES_MIN;
                self.batch.release();
            }
        }
        let waker = match self.waker.take() {
            Some(waker) if waker.will_wake(cx.waker()) => waker,
            _ => cx.waker().clone(),
        };
        let mut session = self.role.lock();
        if self.unreported > 0 {
            session.note_written(std::mem::take(&mut self.unreported), &mut self.effects);
        }
        if let Some(now) = self.now.filter(|now| session.due_at() <= *now) {
            session.expire(now, &mut self.effects);
        }
        if verdict == Verdict::Ping {
            session.outbox().push_ping(Ping(0));
        }
        let paused = self.role.must_pause(&mut session);
        let held = self.held_until.is_some() && !session.is_draining();
        let closure = session.closure().cloned();
        // The write took a part only: the transport says by a refusal, not by that, when it is to be asked again.
        let go_on = !stalled && !self.batch.is_empty()
            || !stalled && !held && (session.outbox().has_output() || session.is_finished())
            || self.liveness.is_paused() && !paused;
        let due = session.due_at().min(self.held_until.filter(|_| held).unwrap_or(Instant::FAR));
        // More output is no reason to wake up while the transport is stalled, or output is held back anyway.
        let stale =
            if go_on || closure.is_some() { Some(waker) } else { session.outbox().park_driver(waker, stalled || held) };
        self.is_idle = session.load() == 0;
        drop(session);
        if stale.is_some() {
            self.waker = stale;
        }
        self.liveness.pause(paused);
        self.effects.run();
        if let Some(closure) = closure {
            // Somebody else closed it. What is half written is written to its end before the last words.
            return Err(End::Close(closure));
        }
        if go_on {
            return Ok(Next::Turn);
        }
        if self.liveness.must_arm(due) {
            let now = self.now();
            self.liveness.arm(due, now, cx);
        }
        Ok(Next::Sleep)
    }

    /// The connection is over, but for its last words.
    fn end(&mut self, end: End) {
        let (closure, go_away) = match end {
            End::Io(error) => (Closure::Lost(error.to_string().into()), None),
            End::Violation(violation) => {
                let text = violation.to_string();
                tracing::warn!(%violation, "the peer broke the protocol; the connection is closed");
                (Closure::Violation(Arc::new(violation)), Some(text))
            }
            End::Close(closure) => (closure, None),
        };
        let lost = matches!(closure, Closure::Lost(_) | Closure::HeartbeatLost);
        let mut session = self.role.lock();
        if let Some(text) = &go_away {
            let accepted = session.accepted();
            session.outbox().push_go_away(&GoAway { accepted, reason: GoAwayReason::ProtocolViolation, text });
        }
        let last = session.close(closure.clone(), &mut self.effects);
        let closure = session.closure().cloned().unwrap_or(closure);
        drop(session);
        self.effects.run();
        self.role.ended(&closure);
        if lost {
            self.phase = Phase::Over;
        } else {
            self.phase = Phase::Flushing(last);
            self.linger = Some(Box::pin(tokio::time::sleep(LINGER)));
        }
    }

    /// The last words, the end of the write side, and the peer's end.
    fn wind_down(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(linger) = &mut self.linger
            && linger.as_mut().poll(cx).is_ready()
        {
            self.phase = Phase::Over;
        }
        loop {
            match &mut self.phase {
                Phase::Open | Phase::Over => return Poll::Ready(()),
                Phase::Flushing(last) => {
                    if self.batch.is_empty() {
                        if last.is_empty() {
                            self.phase = Phase::Shutting;
                            continue;
                        }
                        self.batch.clear();
                        std::mem::swap(&mut self.batch, last);
                    }
                    match self.write(cx) {
                        Ok(true) => return Poll::Pending,
                        Ok(false) => {}
                        Err(_) => self.phase = Phase::Over,
                    }
                }
                Phase::Shutting => {
                    let done = ready!(Pin::new(&mut self.link).poll_shutdown(cx));
                    self.phase = if done.is_ok() { Phase::Draining(DRAINED_BYTES_MAX) } else { Phase::Over };
                }
                Phase::Draining(left) => {
                    self.block.clear();
                    self.block.reserve(READ_BYTES_MIN);
                    match ready!(poll_read_buf(Pin::new(&mut self.link), cx, &mut self.block)) {
                        Ok(read @ 1..) if read <= *left => *left -= read,
                        _ => self.phase = Phase::Over,
                    }
                }
            }
        }
    }
}

impl<L, R: Role> Drop for Driver<L, R> {
    /// A driver that is dropped before its end, with its runtime or by a panic, takes the connection with it: nobody else
    /// minds the deadlines of the calls under way.
    fn drop(&mut self) {
        if !matches!(self.phase, Phase::Open) {
            return;
        }
        let closure = Closure::Lost("the task that moves the connection was dropped, as when its runtime ends".into());
        let last = self.role.lock().close(closure.clone(), &mut self.effects);
        drop(last);
        // This may run while another panic unwinds, and a second one would take the process with it.
        for _ in 0..2 {
            if catch_unwind(AssertUnwindSafe(|| self.effects.run())).is_ok() {
                break;
            }
        }
        if catch_unwind(AssertUnwindSafe(|| self.role.ended(&closure))).is_err() {
            tracing::error!("the end of a connection could not be told");
        }
    }
}

impl<L: AsyncRead + AsyncWrite + Unpin, R: Role> Future for Driver<L, R> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        ready!(this.run(cx));
        this.wind_down(cx)
    }
}

fn poll_write_batch<L: AsyncWrite + Unpin>(
    link: &mut L,
    cx: &mut Context<'_>,
    batch: &Batch,
) -> Poll<io::Result<usize>> {
    if let Some(only) = batch.only_slice() {
        return Pin::new(link).poll_write(cx, only);
    }
    let mut slices = [IoSlice::new(&[]); SLICES_MAX];
    let filled = batch.slices(&mut slices);
    Pin::new(link).poll_write_vectored(cx, slices.get(..filled).unwrap_or_default())
}
