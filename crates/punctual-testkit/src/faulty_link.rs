//! A link that fails as networks fail, on command: it stands still, loses what is sent, is cut at a byte, is slow, or carries
//! everything in small pieces. What is wrong with it is the test's to say, through the [`Faults`] that it shares with its links.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A direction of a link, as its owner sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// What the owner writes.
    Out,
    /// What the owner reads.
    In,
}

/// Tasks that are remembered to be told of a change.
const WAKERS_MAX: usize = 256;

/// What is wrong with all links that share it, now. Nothing at first. Clones steer the same links.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    ways: [Direction; 2],
    /// How often all links were cut.
    cuts: u64,
    /// Pieces are of one byte up to this, where it is not 0.
    piece_bytes_max: usize,
    chance: u64,
    delay: Duration,
    /// Links that wait for a fault to end.
    wakers: Vec<Waker>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Direction {
    paused: bool,
    lossy: bool,
    /// Bytes until the cut.
    left: Option<u64>,
    passed: u64,
}

impl Faults {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let wakers = {
            let mut state = self.state();
            change(&mut state);
            std::mem::take(&mut state.wakers)
        };
        for waker in wakers {
            waker.wake();
        }
    }

    /// Lets nothing through that way, and loses nothing, until [`Faults::heal`].
    pub fn pause(&self, way: Way) {
        self.change(|state| state.ways[way as usize].paused = true);
    }

    /// Takes what is sent that way and loses it, until [`Faults::heal`]. Both ways make a black hole.
    pub fn lose(&self, way: Way) {
        self.change(|state| state.ways[way as usize].lossy = true);
    }

    /// Cuts all links once so many more bytes have passed that way, taken over all of them. 0 is the next byte.
    pub fn cut_after(&self, way: Way, bytes: u64) {
        self.change(|state| state.ways[way as usize].left = Some(bytes));
    }

    /// Cuts all links that are open, now.
    pub fn cut(&self) {
        self.change(|state| state.cuts += 1);
    }

    /// Everything passes in pieces of 1 to `bytes_max` bytes, drawn from `seed`, with other tasks' turns in between. 0 ends it.
    pub fn chop(&self, bytes_max: usize, seed: u64) {
        self.change(|state| (state.piece_bytes_max, state.chance) = (bytes_max, seed));
    }

    /// Each piece that is written waits so long, on tokio's clock.
    pub fn delay(&self, delay: Duration) {
        self.change(|state| state.delay = delay);
    }

    /// Ends every fault but cuts that were made.
    pub fn heal(&self) {
        self.change(|state| {
            for way in &mut state.ways {
                *way = Direction { passed: way.passed, ..Direction::default() };
            }
            (state.piece_bytes_max, state.delay) = (0, Duration::ZERO);
        });
    }

    /// Bytes that passed that way, lost ones included, over all links.
    #[must_use]
    pub fn passed(&self, way: Way) -> u64 {
        self.state().ways[way as usize].passed
    }

    /// Takes a link under these faults.
    pub fn link<L>(&self, link: L) -> FaultyLink<L> {
        FaultyLink { link: Some(link), faults: self.clone(), cuts: self.state().cuts, held: None, rest: [false; 2] }
    }
}

impl State {
    /// The next number of a sequence that is random enough for sizes (Marsaglia's xorshift64).
    fn draw(&mut self, bound: usize) -> usize {
        let mut chance = self.chance | 1;
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        self.chance = chance;
        usize::try_from(chance >> 33).unwrap_or(0) % bound.max(1)
    }

    fn wait(&mut self, cx: &Context<'_>) {
        if self.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            return;
        }
        if self.wakers.len() >= WAKERS_MAX {
            // Nobody says that it waits no more. Those that still do ask again.
            self.wakers.drain(..).for_each(Waker::wake);
        }
        self.wakers.push(cx.waker().clone());
    }
}

/// A link under [`Faults`].
#[derive(Debug)]
pub struct FaultyLink<L> {
    /// Gone once it was cut: the peer sees its end.
    link: Option<L>,
    faults: Faults,
    cuts: u64,
    /// The wait of the next piece that is written.
    held: Option<Pin<Box<Sleep>>>,
    /// Whether the way lets others run before its next piece.
    rest: [bool; 2],
}

/// What may pass now.
struct Pass {
    bytes_max: usize,
    lossy: bool,
}

impl<L> FaultyLink<L> {
    fn cut<T>(&mut self) -> Poll<io::Result<T>> {
        self.link = None;
        Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionReset, "the test cut the link")))
    }

    /// Whether something may pass that way, and how much.
    fn poll_pass(&mut self, way: Way, cx: &mut Context<'_>) -> Poll<io::Result<Pass>> {
        let faults = self.faults.clone();
        let mut state = faults.state();
        let direction = state.ways[way as usize];
        if self.link.is_none() || self.cuts != state.cuts || direction.left == Some(0) {
            if direction.left == Some(0) {
                state.ways[way as usize].left = None;
                state.cuts += 1;
                let wakers = std::mem::take(&mut state.wakers);
                drop(state);
                wakers.into_iter().for_each(Waker::wake);
            }
            return self.cut();
        }
        // Whatever it waits for: a fault may begin meanwhile.
        state.wait(cx);
        if direction.paused {
            return Poll::Pending;
        }
        if state.piece_bytes_max > 0 {
            self.rest[way as usize] = !self.rest[way as usize];
            if self.rest[way as usize] {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        let delay = state.delay;
        let piece = match state.piece_bytes_max {
            0 => usize::MAX,
            max => 1 + state.draw(max),
        };
        drop(state);
        if way == Way::Out && !delay.is_zero() {
            let held = self.held.get_or_insert_with(|| Box::pin(tokio::time::sleep(delay)));
            ready!(held.as_mut().poll(cx));
        }
        let left = direction.left.map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX));
        Poll::Ready(Ok(Pass { bytes_max: piece.min(left), lossy: direction.lossy }))
    }

    fn passed(&mut self, way: Way, bytes: usize) {
        if way == Way::Out {
            self.held = None;
        }
        let mut state = self.faults.state();
        let direction = &mut state.ways[way as usize];
        direction.passed += bytes as u64;
        direction.left = direction.left.map(|left| left.saturating_sub(bytes as u64));
    }
}

impl<L: AsyncRead + Unpin> AsyncRead for FaultyLink<L> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            let pass = ready!(this.poll_pass(Way::In, cx))?;
            let Some(link) = &mut this.link else { return this.cut() };
            let mut piece = ReadBuf::new(into.initialize_unfilled_to(into.remaining().min(pass.bytes_max)));
            ready!(Pin::new(link).poll_read(cx, &mut piece))?;
            let read = piece.filled().len();
            this.passed(Way::In, read);
            if pass.lossy && read > 0 {
                continue;
            }
            into.advance(read);
            return Poll::Ready(Ok(()));
        }
    }
}

impl<L: AsyncWrite + Unpin> AsyncWrite for FaultyLink<L> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let pass = ready!(this.poll_pass(Way::Out, cx))?;
        let piece = &bytes[..bytes.len().min(pass.bytes_max)];
        let Some(link) = &mut this.link else { return this.cut() };
        let written = if pass.lossy { piece.len() } else { ready!(Pin::new(link).poll_write(cx, piece))? };
        this.passed(Way::Out, written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().link {
            Some(link) => Pin::new(link).poll_flush(cx),
            None => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().link {
            Some(link) => Pin::new(link).poll_shutdown(cx),
            None => Poll::Ready(Ok(())),
        }
    }
}
