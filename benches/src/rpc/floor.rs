//! The floor: the least that is shaped like an RPC runtime on tokio, so that a ratio to it says what the features cost.
//!
//! Callers are tasks, one driver task owns each connection, one mutex lies between them, the server spawns a task for each
//! call. There are no deadlines, no cancellation, no limits, no metadata, no codec and no flow control but the transport's.

mod driver;
mod frame;
mod link;

use crate::rpc::calls::{Calls, Items, same};
use crate::rpc::service;
use crate::rpc::site::Site;
use crate::rpc::wire::{Wire, Wires};
use anyhow::Context as _;
use bytes::Bytes;
use driver::drive;
use frame::{END, Header, Kind, Method};
use link::{Link, Message};
use std::sync::Arc;

pub async fn serve(site: &Site, ready: impl FnOnce(&str)) -> anyhow::Result<()> {
    let (mut wires, address) = Wires::bind(site).await?;
    ready(&address);
    loop {
        let (wire, link) = (wires.accept().await?, Arc::new(Link::default()));
        let calls = Arc::clone(&link);
        tokio::spawn(drive(wire, link, move |header, message| answer(&calls, header, message)));
    }
}

fn numbers(bytes: &[u8]) -> Option<(i32, i32)> {
    let (a, rest) = bytes.split_first_chunk()?;
    let b = rest.first_chunk()?;
    Some((i32::from_le_bytes(*a), i32::from_le_bytes(*b)))
}

fn number(bytes: &[u8]) -> anyhow::Result<u64> {
    bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)).context("a short message")
}

fn pair(a: [u8; 4], b: [u8; 4]) -> [u8; 8] {
    let mut both = [0; 8];
    both[..4].copy_from_slice(&a);
    both[4..].copy_from_slice(&b);
    both
}

/// A task for each call. Calls that make no sense end without an answer: both ends are of this file.
fn answer(link: &Arc<Link>, header: Header, message: Message) {
    let (link, id) = (Arc::clone(link), header.id);
    match header.method {
        Method::Add => drop(tokio::spawn(async move {
            if let Some((a, b)) = numbers(message.bytes()) {
                link.push(Header::new(Kind::Reply, Method::Add, END, id), &a.wrapping_add(b).to_le_bytes());
            }
        })),
        Method::Nap => drop(tokio::spawn(async move {
            if let Some((a, b)) = numbers(message.bytes()) {
                let sum = service::nap(a, b).await;
                link.push(Header::new(Kind::Reply, Method::Nap, END, id), &sum.to_le_bytes());
            }
        })),
        Method::Note => drop(tokio::spawn(async move {
            if let Some((a, b)) = numbers(message.bytes()) {
                service::note(a, b);
            }
        })),
        Method::Echo => drop(tokio::spawn(async move {
            link.push(Header::new(Kind::Reply, Method::Echo, END, id), message.bytes());
        })),
        Method::Upload => drop(tokio::spawn(async move {
            let mut bytes = 0;
            while let Some(item) = link.next(id).await {
                bytes += item.bytes().len() as u64;
            }
            link.push(Header::new(Kind::Reply, Method::Upload, END, id), &bytes.to_le_bytes());
        })),
        Method::Download => drop(tokio::spawn(async move {
            if let Some((items, bytes)) = numbers(message.bytes()) {
                let items = service::stored(u64::from(items.unsigned_abs()), u64::from(bytes.unsigned_abs()));
                link.push_stream(Method::Download, id, items).await;
            }
        })),
        Method::Duplex => drop(tokio::spawn(async move {
            // The last item carries the end, and which one that is shows when the next one does not come.
            let mut held = None;
            while let Some(item) = link.next(id).await {
                if let Some(before) = held.replace(item) {
                    link.push_when_room(Header::new(Kind::Item, Method::Duplex, 0, id), before.bytes()).await;
                }
            }
            let last = held.as_ref().map_or(&[][..], Message::bytes);
            link.push_when_room(Header::new(Kind::Item, Method::Duplex, END, id), last).await;
        })),
    }
}

#[derive(Clone)]
pub struct Client(Arc<Link>);

impl Client {
    async fn sum(&self, method: Method, a: i32, b: i32) -> anyhow::Result<i32> {
        let id = self.0.open(Kind::Request, method, END, &pair(a.to_le_bytes(), b.to_le_bytes()));
        let reply = self.0.answer(id).await?;
        reply.bytes().first_chunk().map(|sum| i32::from_le_bytes(*sum)).context("a short reply")
    }

    async fn drain(&self, id: u32) -> u64 {
        let mut bytes = 0;
        while let Some(item) = self.0.next(id).await {
            bytes += item.bytes().len() as u64;
        }
        self.0.close(id);
        bytes
    }
}

impl Calls for Client {
    async fn connect(site: &Site) -> anyhow::Result<Self> {
        let (wire, link) = (Wire::connect(site).await?, Arc::new(Link::default()));
        // A client is asked nothing.
        tokio::spawn(drive(wire, Arc::clone(&link), |_, _| ()));
        Ok(Client(link))
    }

    async fn add(&mut self, a: i32, b: i32) -> anyhow::Result<i32> {
        self.sum(Method::Add, a, b).await
    }

    async fn nap(&mut self, a: i32, b: i32) -> anyhow::Result<i32> {
        self.sum(Method::Nap, a, b).await
    }

    async fn echo(&mut self, data: Bytes) -> anyhow::Result<bool> {
        let id = self.0.open(Kind::Request, Method::Echo, END, &data);
        Ok(same(self.0.answer(id).await?.bytes(), &data))
    }

    async fn note(&mut self, a: i32, b: i32) -> anyhow::Result<()> {
        let body = pair(a.to_le_bytes(), b.to_le_bytes());
        self.0.push_when_room(Header::new(Kind::Note, Method::Note, END, 0), &body).await;
        self.0.handed_over().await;
        Ok(())
    }

    async fn upload(&mut self, items: Items) -> anyhow::Result<u64> {
        let id = self.0.open(Kind::Open, Method::Upload, 0, &[]);
        self.0.push_stream(Method::Upload, id, items).await;
        number(self.0.answer(id).await?.bytes())
    }

    async fn download(&mut self, items: u64, bytes: u64) -> anyhow::Result<u64> {
        let wanted = pair(u32::try_from(items)?.to_le_bytes(), u32::try_from(bytes)?.to_le_bytes());
        let id = self.0.open(Kind::Open, Method::Download, END, &wanted);
        Ok(self.drain(id).await)
    }

    async fn duplex(&mut self, items: Items) -> anyhow::Result<u64> {
        let id = self.0.open(Kind::Open, Method::Duplex, 0, &[]);
        let ((), bytes) = tokio::join!(self.0.push_stream(Method::Duplex, id, items), self.drain(id));
        Ok(bytes)
    }
}
