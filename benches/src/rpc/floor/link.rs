//! What the tasks of one of the floor's connections share: bytes to write, and a slot for each call under way.

use crate::rpc::floor::frame::{END, Header, Kind, Method};
use anyhow::Context as _;
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Bytes that may wait to be written before the senders of streams and of one-way calls wait.
const QUEUED_BYTES_MAX: usize = 64 << 10;

/// Bodies up to here are copied instead of shared.
const SMALL_BYTES: usize = 16;

/// A received body.
pub enum Message {
    Small([u8; SMALL_BYTES], usize),
    Large(Bytes),
}

impl Message {
    /// Takes the body of `length` bytes at the front of what was read.
    pub fn take(read: &mut BytesMut, length: usize) -> Self {
        if length <= SMALL_BYTES {
            let mut bytes = [0; SMALL_BYTES];
            bytes[..length].copy_from_slice(&read[..length]);
            bytes::Buf::advance(read, length);
            Message::Small(bytes, length)
        } else {
            Message::Large(read.split_to(length).freeze())
        }
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            Message::Small(bytes, length) => &bytes[..*length],
            Message::Large(bytes) => bytes,
        }
    }
}

#[derive(Default)]
struct Slot {
    messages: VecDeque<Message>,
    ended: bool,
    waker: Option<Waker>,
}

/// What lies behind the mutex.
#[derive(Default)]
pub struct State {
    out: Vec<u8>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    driver: Option<Waker>,
    /// Those who wait for the driver to take `out`.
    waiting: Vec<Waker>,
    gone: bool,
}

/// A connection, as its callers and its driver see it.
#[derive(Default)]
pub struct Link(Mutex<State>);

impl State {
    fn put(&mut self, header: Header, body: &[u8]) -> Option<Waker> {
        self.out.extend_from_slice(&header.to_bytes(body.len()));
        self.out.extend_from_slice(body);
        self.driver.take()
    }

    fn slot(&mut self, id: u32) -> &mut Slot {
        let index = id as usize;
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, Slot::default);
        }
        &mut self.slots[index]
    }

    /// A server makes a slot ready for a call that the client numbered.
    pub fn opened(&mut self, id: u32) {
        *self.slot(id) = Slot::default();
    }

    /// Stores what came for a call; whoever waits for it is to be woken.
    pub fn arrived(&mut self, header: Header, message: Message) -> Option<Waker> {
        let slot = self.slot(header.id);
        slot.messages.push_back(message);
        slot.ended |= header.flags & END != 0;
        slot.waker.take()
    }

    /// Exchanges what is to be written for an empty buffer.
    pub fn take_out(&mut self, spare: &mut Vec<u8>, wake: &mut Vec<Waker>) {
        std::mem::swap(&mut self.out, spare);
        wake.append(&mut self.waiting);
    }

    /// Whether the driver has something to do; if not, it is to be woken when there is.
    pub fn has_work(&mut self, driver: &Waker) -> bool {
        if self.out.is_empty() && self.waiting.is_empty() {
            self.driver = Some(driver.clone());
            return false;
        }
        true
    }

    /// Nothing will be written or read any more: all who wait are to be woken.
    pub fn close(&mut self, wake: &mut Vec<Waker>) {
        self.gone = true;
        wake.append(&mut self.waiting);
        for slot in &mut self.slots {
            slot.ended = true;
            wake.extend(slot.waker.take());
        }
    }
}

impl Link {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn push(&self, header: Header, body: &[u8]) {
        let driver = self.lock().put(header, body);
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// As [`Link::push`], but waits while too much lies there.
    pub async fn push_when_room(&self, header: Header, body: &[u8]) {
        poll_fn(|cx| {
            let driver = {
                let mut state = self.lock();
                if state.out.len() >= QUEUED_BYTES_MAX && !state.gone {
                    state.waiting.push(cx.waker().clone());
                    return Poll::Pending;
                }
                state.put(header, body)
            };
            if let Some(driver) = driver {
                driver.wake();
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Sends items, the last one with the end.
    pub async fn push_stream(&self, method: Method, id: u32, items: impl Iterator<Item = Bytes>) {
        let mut items = items.peekable();
        if items.peek().is_none() {
            self.push_when_room(Header::new(Kind::Item, method, END, id), &[]).await;
        }
        while let Some(item) = items.next() {
            let flags = if items.peek().is_none() { END } else { 0 };
            self.push_when_room(Header::new(Kind::Item, method, flags, id), &item).await;
        }
    }

    /// Takes a slot and sends the first frame of a call.
    pub fn open(&self, kind: Kind, method: Method, flags: u16, body: &[u8]) -> u32 {
        let (id, driver) = {
            let mut state = self.lock();
            let id = state.free.pop().unwrap_or_else(|| {
                state.slots.push(Slot::default());
                u32::try_from(state.slots.len() - 1).unwrap_or(u32::MAX)
            });
            (id, state.put(Header::new(kind, method, flags, id), body))
        };
        if let Some(driver) = driver {
            driver.wake();
        }
        id
    }

    /// Gives a slot back.
    pub fn close(&self, id: u32) {
        let mut state = self.lock();
        let gone = state.gone;
        let slot = state.slot(id);
        (slot.ended, slot.waker) = (gone, None);
        slot.messages.clear();
        state.free.push(id);
    }

    /// The next message of a stream.
    pub async fn next(&self, id: u32) -> Option<Message> {
        poll_fn(|cx| self.poll_next(id, cx)).await
    }

    fn poll_next(&self, id: u32, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        let mut state = self.lock();
        let slot = state.slot(id);
        if let Some(message) = slot.messages.pop_front() {
            return Poll::Ready(Some(message));
        }
        if slot.ended {
            return Poll::Ready(None);
        }
        slot.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// The one message of a reply; the slot is given back with it.
    pub async fn answer(&self, id: u32) -> anyhow::Result<Message> {
        let reply = poll_fn(|cx| {
            let mut state = self.lock();
            let gone = state.gone;
            let slot = state.slot(id);
            let Some(message) = slot.messages.pop_front() else {
                if gone {
                    return Poll::Ready(None);
                }
                slot.waker = Some(cx.waker().clone());
                return Poll::Pending;
            };
            (slot.ended, slot.waker) = (false, None);
            state.free.push(id);
            Poll::Ready(Some(message))
        });
        reply.await.context("the connection ended")
    }

    /// Resolves when the driver takes what lies there now.
    pub async fn handed_over(&self) {
        let mut parked = false;
        poll_fn(|cx| {
            if parked {
                return Poll::Ready(());
            }
            parked = true;
            let driver = {
                let mut state = self.lock();
                if state.gone {
                    return Poll::Ready(());
                }
                state.waiting.push(cx.waker().clone());
                state.driver.take()
            };
            if let Some(driver) = driver {
                driver.wake();
            }
            Poll::Pending
        })
        .await;
    }
}
