//! The one task that reads and writes for a connection of the floor.

use crate::rpc::floor::frame::{HEADER_BYTES, Header, Kind};
use crate::rpc::floor::link::{Link, Message};
use crate::rpc::wire::Wire;
use bytes::BytesMut;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::io::AsyncWrite;
use tokio_util::io::poll_read_buf;

/// Bytes of room for a read.
const READ_BYTES: usize = 64 << 10;

/// Less room than this, and a new buffer is taken.
const READ_BYTES_MIN: usize = 8 << 10;

/// Most frames before the tasks that they woke have their turn: so both sides work at once. With whole batches the two cores
/// take turns, and each is idle half of the time.
const FRAMES_MAX: usize = 16;

/// Drives `wire` until the peer goes away; `begin` is given the frames that begin a call.
pub async fn drive(wire: Wire, link: Arc<Link>, begin: impl FnMut(Header, Message)) {
    let buffers =
        Buffers { read: BytesMut::with_capacity(READ_BYTES), write: Vec::new(), written: 0, wake: Vec::new() };
    let mut driver = Driver { wire, link, buffers, begin };
    poll_fn(|cx| driver.poll(cx)).await;
    let wake = &mut driver.buffers.wake;
    driver.link.lock().close(wake);
    wake.drain(..).for_each(Waker::wake);
}

struct Buffers {
    read: BytesMut,
    write: Vec<u8>,
    written: usize,
    wake: Vec<Waker>,
}

struct Driver<F> {
    wire: Wire,
    link: Arc<Link>,
    buffers: Buffers,
    begin: F,
}

impl<F: FnMut(Header, Message)> Driver<F> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let Ok(full) = self.write(cx) else { return Poll::Ready(()) };
            match self.take_frames() {
                Ok(true) => {
                    self.buffers.wake.drain(..).for_each(Waker::wake);
                    // The woken tasks first, then this one again.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Ok(false) => {}
                Err(Nonsense) => return Poll::Ready(()),
            }
            let read = &mut self.buffers.read;
            if read.capacity() - read.len() < READ_BYTES_MIN {
                read.reserve(READ_BYTES);
            }
            match poll_read_buf(pin!(&mut self.wire), cx, read) {
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(_)) => {}
                // Nothing more is taken while the transport is full; it wakes the driver when it is not.
                Poll::Pending if full => return Poll::Pending,
                Poll::Pending => {
                    // A write that took only a part goes on in the next turn of the loop.
                    if self.buffers.write.is_empty() && !self.link.lock().has_work(cx.waker()) {
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    /// Writes what is there. True when the transport takes no more.
    fn write(&mut self, cx: &mut Context<'_>) -> std::io::Result<bool> {
        let Buffers { write, written, wake, .. } = &mut self.buffers;
        if write.is_empty() {
            self.link.lock().take_out(write, wake);
            wake.drain(..).for_each(Waker::wake);
        }
        if write.is_empty() {
            return Ok(false);
        }
        match Pin::new(&mut self.wire).poll_write(cx, &write[*written..]) {
            Poll::Ready(bytes) => *written += bytes?,
            Poll::Pending => return Ok(true),
        }
        if *written == write.len() {
            write.clear();
            *written = 0;
            // Nothing on a socket; TLS may hold a part of a record.
            if let Poll::Ready(flushed) = Pin::new(&mut self.wire).poll_flush(cx) {
                flushed?;
            }
        }
        Ok(false)
    }

    /// Takes whole frames out of what was read; true if there was one.
    fn take_frames(&mut self) -> Result<bool, Nonsense> {
        let Buffers { read, wake, .. } = &mut self.buffers;
        let mut state = None;
        let mut taken = 0;
        while taken < FRAMES_MAX
            && let Some(header) = read.first_chunk()
        {
            let (header, length) = Header::read(header).ok_or(Nonsense)?;
            if read.len() < HEADER_BYTES + length {
                read.reserve(HEADER_BYTES + length - read.len());
                break;
            }
            bytes::Buf::advance(read, HEADER_BYTES);
            let message = Message::take(read, length);
            taken += 1;
            match header.kind {
                Kind::Reply | Kind::Item => {
                    let state = state.get_or_insert_with(|| self.link.lock());
                    wake.extend(state.arrived(header, message));
                }
                Kind::Open => {
                    state.get_or_insert_with(|| self.link.lock()).opened(header.id);
                    (self.begin)(header, message);
                }
                Kind::Request | Kind::Note => (self.begin)(header, message),
            }
        }
        Ok(taken > 0)
    }
}

/// A frame that no floor writes.
struct Nonsense;
