//! What every column can be asked to do, and the work that is the same for all of them.

use crate::rpc::case::{Case, ITEM_BYTES, ITEMS};
use crate::rpc::load::{Caller, Load};
use crate::rpc::site::Site;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

/// The timeout set on each unary call, as users have it.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// How long the handler of a slow call sleeps.
pub const NAP: Duration = Duration::from_millis(10);

/// Of so many calls one is slow.
const SLOW_EVERY: u64 = 100;

/// The client of a column: one connection, shared by its clones.
///
/// The futures are not asked to be `Send`, for the column whose objects are not; the others are spawned where their types
/// are known, and there the compiler sees that they are.
pub trait Calls: Clone + 'static {
    async fn connect(site: &Site) -> anyhow::Result<Self>;

    /// The sum, by a handler that does nothing else.
    async fn add(&mut self, a: i32, b: i32) -> anyhow::Result<i32>;

    /// The sum, by a handler that sleeps for [`NAP`].
    async fn nap(&mut self, a: i32, b: i32) -> anyhow::Result<i32>;

    /// Whether `data` came back, by [`same`].
    async fn echo(&mut self, data: Bytes) -> anyhow::Result<bool>;

    /// Done when the message was handed to the transport.
    async fn note(&mut self, _a: i32, _b: i32) -> anyhow::Result<()> {
        anyhow::bail!("no one-way calls")
    }

    /// The bytes that the server received in all.
    async fn upload(&mut self, _items: Items) -> anyhow::Result<u64> {
        anyhow::bail!("no streams")
    }

    /// The bytes that came in all, of `items` items of `bytes` each.
    async fn download(&mut self, _items: u64, _bytes: u64) -> anyhow::Result<u64> {
        anyhow::bail!("no streams")
    }

    /// The bytes that came back in all.
    async fn duplex(&mut self, _items: Items) -> anyhow::Result<u64> {
        anyhow::bail!("no streams")
    }
}

/// Whether an echo is right. Length and ends only while it is timed: comparing 4,096 bytes costs a tenth of the floor's call.
pub fn same(reply: &[u8], data: &[u8]) -> bool {
    if cfg!(test) {
        return reply == data;
    }
    reply.len() == data.len() && reply.first() == data.first() && reply.last() == data.last()
}

/// The items of a stream, clones of one buffer that exists already.
pub struct Items {
    data: Bytes,
    left: u64,
    /// The bulk stream goes on until the load stops, and counts what it gave while it was measured.
    until: Option<Arc<Load>>,
}

impl Items {
    pub fn new(data: Bytes, count: u64) -> Self {
        Items { data, left: count, until: None }
    }

    fn until_the_end_of(load: Arc<Load>) -> Self {
        Items { data: Bytes::from(vec![0x5a; ITEM_BYTES]), left: u64::MAX, until: Some(load) }
    }
}

impl Iterator for Items {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        self.left = self.left.checked_sub(1)?;
        if let Some(load) = &self.until
            && !load.take_bulk(self.data.len())
        {
            return None;
        }
        Some(self.data.clone())
    }
}

/// One caller's loop.
pub async fn work<C: Calls>(mut client: C, case: Case, mut caller: Caller) -> anyhow::Result<()> {
    let data = Bytes::from(vec![0xa5; case.bytes()]);
    let all = ITEMS * data.len() as u64;
    let mut number = caller.seed();
    while caller.goes_on() {
        number = number.wrapping_add(64);
        match case {
            Case::Add | Case::Latency | Case::Calm | Case::Beside | Case::Idle => {
                anyhow::ensure!(client.add(number, 7).await? == number.wrapping_add(7), "a wrong sum");
            }
            Case::Slow if caller.nth().is_multiple_of(SLOW_EVERY) => {
                anyhow::ensure!(client.nap(number, 7).await? == number.wrapping_add(7), "a wrong sum");
                caller.done_without_latency();
                continue;
            }
            Case::Slow => {
                anyhow::ensure!(client.add(number, 7).await? == number.wrapping_add(7), "a wrong sum");
            }
            Case::Oneway => client.note(number, 7).await?,
            Case::Echo256 | Case::Echo4096 => {
                anyhow::ensure!(client.echo(data.clone()).await?, "a wrong echo");
            }
            Case::Upload4096 => {
                anyhow::ensure!(client.upload(Items::new(data.clone(), ITEMS)).await? == all, "a wrong length");
            }
            Case::Download4096 => {
                anyhow::ensure!(client.download(ITEMS, data.len() as u64).await? == all, "a wrong length");
            }
            Case::Duplex4096 => {
                anyhow::ensure!(client.duplex(Items::new(data.clone(), ITEMS)).await? == all, "a wrong length");
            }
        }
        caller.done();
    }
    Ok(())
}

/// The bulk stream beside the small calls, up to the end of the load.
pub async fn pour<C: Calls>(mut client: C, load: Arc<Load>) -> anyhow::Result<()> {
    client.upload(Items::until_the_end_of(load)).await?;
    Ok(())
}
