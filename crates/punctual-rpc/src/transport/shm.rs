//! Shared memory between two processes of one user: a Unix socket to meet and to notice the peer's end, two rings for the bytes.
//!
//! The rings, their checks and their sleep are `punctual-shm`'s. What is here waits: on the bell, which the peer rings only
//! while this side said that it sleeps, and on the socket, whose hang-up is the peer's end.

use crate::transport::unix;
use bytes::BufMut;
use punctual_shm::{End, HELLO, HELLO_BYTES, Lifeline, Opened, RingBytes};
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest, ReadBuf};
use tokio::net::UnixStream;

/// Looks at an empty ring before a task sleeps, at most: some microseconds in all. More would keep a core from others for longer
/// than a sleep and a wake take.
const LOOKS_MAX: u32 = 32;

/// Looks at first.
const LOOKS_FIRST: u32 = 4;

/// Once none paid, they are tried again after so many sleeps.
const SLEEPS_BETWEEN_TRIES: u32 = 32;

/// Connects to the server whose socket file is at `path`.
pub(crate) async fn connect(path: &Path) -> io::Result<ShmLink> {
    let mut socket = unix::connect(path).await?;
    punctual_shm::check_peer(&socket)?;
    socket.write_all(&HELLO).await?;
    loop {
        socket.readable().await?;
        match socket.try_io(Interest::READABLE, || punctual_shm::check_reply(&socket)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            opened => return ShmLink::new(opened?, socket),
        }
    }
}

/// Meets a client, and hands it rings of this size.
pub(crate) async fn accept(mut socket: UnixStream, ring: RingBytes) -> io::Result<(ShmLink, Vec<Vec<u8>>)> {
    let met = async {
        punctual_shm::check_peer(&socket)?;
        let mut hello = [0; HELLO_BYTES];
        socket.read_exact(&mut hello).await?;
        punctual_shm::accept(&hello)
    };
    if let Err(error) = met.await {
        punctual_shm::refuse(&socket, &error);
        return Err(error);
    }
    let opened = punctual_shm::offer(&socket, ring)?;
    Ok((ShmLink::new(opened, socket)?, Vec::new()))
}

/// Has the runtime watch a descriptor.
#[expect(
    deprecated,
    reason = "what made it unsound is a type whose descriptor changes; an owned one does not, and its successor is unsafe"
)]
fn watched(descriptor: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(descriptor, interest)
}

/// A link through shared memory.
///
/// Both directions are polled by one task, as the driver does, and a task that wrote looks for input before it sleeps: what it
/// writes therefore takes back that it sleeps, and the peer need not ring.
#[derive(Debug)]
pub(crate) struct ShmLink {
    end: End,
    bell: AsyncFd<OwnedFd>,
    lifeline: AsyncFd<OwnedFd>,
    patience: Patience,
    /// A write found no room and waits for it.
    write_waits: bool,
    /// A read found nothing and waits for it.
    read_waits: bool,
    /// The peer writes no more. What it wrote before is in the ring.
    is_ended: bool,
}

impl ShmLink {
    fn new(opened: Opened, socket: UnixStream) -> io::Result<Self> {
        let Opened { end, bell } = opened;
        let socket = OwnedFd::from(socket.into_std()?);
        Ok(ShmLink {
            end,
            bell: watched(bell, Interest::READABLE)?,
            lifeline: watched(socket, Interest::READABLE | Interest::WRITABLE)?,
            patience: Patience::default(),
            write_waits: false,
            read_waits: false,
            is_ended: false,
        })
    }

    /// Ready where the peer rang since the last time. The bell is not read: each ring is an event of its own.
    fn poll_bell(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.bell.poll_read_ready(cx))?.clear_ready();
        Poll::Ready(Ok(()))
    }

    /// Ready where the peer writes no more.
    fn poll_hang_up(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.lifeline.poll_read_ready(cx))?;
            match punctual_shm::look(ready.get_inner())? {
                Lifeline::HungUp => return Poll::Ready(Ok(())),
                Lifeline::Quiet => ready.clear_ready(),
            }
        }
    }

    /// Ready where the peer reads no more: it is gone.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.lifeline.poll_write_ready(cx))?;
            if ready.ready().is_write_closed() {
                return Poll::Ready(Ok(()));
            }
            ready.clear_ready();
        }
    }

    fn poll_read_into(&mut self, cx: &mut Context<'_>, buf: &mut impl BufMut) -> Poll<io::Result<()>> {
        if !buf.has_remaining_mut() {
            return Poll::Ready(Ok(()));
        }
        // A peer that rings without end is not listened to without end: each look at the bell is of the task's budget.
        loop {
            if self.end.read(buf).map_err(io::Error::other)? > 0 {
                self.patience.paid();
                self.read_waits = false;
                return Poll::Ready(Ok(()));
            }
            if self.is_ended {
                return Poll::Ready(Ok(()));
            }
            if self.patience.left > 0 && self.end.peer_is_elsewhere() {
                self.patience.left -= 1;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if !self.end.sleep_until_readable().map_err(io::Error::other)? {
                continue;
            }
            if self.poll_bell(cx)?.is_ready() {
                if self.write_waits {
                    // It may have rung for that.
                    cx.waker().wake_by_ref();
                }
                continue;
            }
            if self.poll_hang_up(cx)?.is_ready() {
                self.is_ended = true;
                continue;
            }
            if !self.read_waits {
                self.read_waits = true;
                self.patience.slept();
            }
            return Poll::Pending;
        }
    }

    fn poll_write_slices(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if slices.iter().all(|slice| slice.is_empty()) {
            return Poll::Ready(Ok(0));
        }
        self.end.rouse();
        loop {
            let written = self.end.write(slices).map_err(io::Error::other)?;
            if written > 0 {
                self.write_waits = false;
                return Poll::Ready(Ok(written));
            }
            if !self.end.sleep_until_writable().map_err(io::Error::other)? {
                continue;
            }
            if self.poll_bell(cx)?.is_ready() {
                if self.read_waits {
                    // It may have rung for that.
                    cx.waker().wake_by_ref();
                }
                continue;
            }
            if self.poll_gone(cx)?.is_ready() {
                return Poll::Ready(Err(io::Error::new(
                    io::ErrorKind::BrokenPipe,
                    "the peer closed the connection with bytes under way to it",
                )));
            }
            self.write_waits = true;
            return Poll::Pending;
        }
    }
}

impl AsyncRead for ShmLink {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_read_into(cx, buf)
    }
}

impl AsyncWrite for ShmLink {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().poll_write_slices(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_write_slices(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(punctual_shm::end_writing(self.lifeline.get_ref()))
    }
}

/// How often a task looks at an empty ring again, behind all others that are ready, before it sleeps: as often as it paid
/// lately. A peer that answers at once is then met awake, and costs neither side a wake-up; one that is slow is slept for. Only a
/// peer on another core is waited for in this way.
#[derive(Debug)]
struct Patience {
    left: u32,
    most: u32,
    /// Sleeps since looks were last tried.
    sleeps: u32,
}

impl Default for Patience {
    fn default() -> Self {
        Patience { left: LOOKS_FIRST, most: LOOKS_FIRST, sleeps: 0 }
    }
}

impl Patience {
    /// Something came.
    fn paid(&mut self) {
        if self.sleeps == 0 && self.left < self.most {
            self.most = (self.most * 2).min(LOOKS_MAX);
        }
        self.left = self.most;
        self.sleeps = if self.most > 0 { 0 } else { self.sleeps };
    }

    /// Nothing came, and the task sleeps.
    fn slept(&mut self) {
        self.left = 0;
        self.sleeps += 1;
        self.most = match self.most / 2 {
            0 if self.sleeps >= SLEEPS_BETWEEN_TRIES => LOOKS_FIRST,
            most => most,
        };
    }
}

#[cfg(test)]
mod tests;
