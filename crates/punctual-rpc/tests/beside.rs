//! A big stream beside small calls on one connection: the calls get through, and neither side holds more than its windows. A binary of
//! its own, since it counts through the global allocator.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use allocation_counter::{AllocationInfo, measure};
use bytes::Bytes;
use punctual_proto::codec::Args;
use punctual_proto::contract::{MethodDescriptor, ServiceDescriptor, StreamDescriptor};
use punctual_proto::schema::{Field, Fields, StructType, Type};
use punctual_rpc::{Channel, ChannelConfig, Inbound, Server, Service, Status, Streaming};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// What streams each time.
const STREAM_BYTES: u64 = 1 << 30;

/// One item, as big as a frame takes whole.
const ITEM_BYTES: usize = 60 << 10;

const ITEMS: u64 = STREAM_BYTES / ITEM_BYTES as u64;

#[derive(Serialize, Deserialize)]
struct Count {
    n: u64,
}

impl Args for Count {}

static COUNT: Type = Type::Struct(&StructType {
    name: "Count",
    docs: "",
    fields: Fields::Named(&[Field { name: "n", docs: "", ty: &Type::U64, optional: false }]),
});

static DESCRIPTOR: ServiceDescriptor = ServiceDescriptor::new(
    "Pipe",
    "",
    &[
        MethodDescriptor::unary("Pipe/next", &COUNT, &Type::U64, &Type::Status),
        MethodDescriptor::unary("Pipe/down", &COUNT, &Type::Bytes, &Type::Status).returns_stream(&Type::Status),
        MethodDescriptor::unary("Pipe/up", &COUNT, &Type::U64, &Type::Status).streams(&[StreamDescriptor::new(
            "parts",
            &Type::Bytes,
            &Type::Status,
        )]),
    ],
);

/// The same item again and again: whoever produces holds nothing.
struct Same {
    left: u64,
    item: Bytes,
}

impl Same {
    fn times(left: u64) -> Streaming<Bytes> {
        Streaming::new(Same { left, item: Bytes::from(vec![7; ITEM_BYTES]) })
    }
}

impl futures_core::Stream for Same {
    type Item = Result<Bytes, Status>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        Poll::Ready(Some(Ok(self.item.clone())))
    }
}

async fn length(mut parts: Streaming<Bytes>) -> Result<u64, Status> {
    let mut bytes = 0;
    while let Some(part) = parts.next().await {
        bytes += part?.len() as u64;
    }
    Ok(bytes)
}

struct Pipe;

impl Service for Pipe {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &DESCRIPTOR
    }

    fn dispatch(&self, method: usize, mut call: Inbound<'_>) {
        match method {
            0 => call.unary(|args: Count| async move { Ok::<_, Status>(args.n + 1) }),
            1 => call.returned_stream(|args: Count| async move { Ok::<_, Status>(Same::times(args.n)) }),
            2 => {
                let parts = call.take_stream();
                call.unary(|_: Count| length(parts));
            }
            _ => call.unimplemented(),
        }
    }
}

async fn down(channel: &Channel) -> u64 {
    let call =
        channel.returned_stream::<_, Bytes, Status, Status>(&DESCRIPTOR, 1, Count { n: ITEMS }, Default::default());
    length(call.await.unwrap()).await.unwrap()
}

async fn up(channel: &Channel) -> u64 {
    let streams = punctual_rpc::client::Streams::new().with(Same::times(ITEMS));
    channel.client_stream::<_, u64, Status>(&DESCRIPTOR, 2, Count { n: 0 }, streams).await.unwrap()
}

/// Makes calls one after the other until the stream is over. Gives how many were answered before.
async fn calls_beside(channel: &Channel, is_over: Rc<Cell<bool>>) -> u64 {
    let mut answered = 0;
    while !is_over.get() {
        let reply: Result<u64, _> = channel.unary::<_, _, Status>(&DESCRIPTOR, 0, Count { n: answered }).await;
        assert_eq!(reply, Ok(answered + 1));
        answered += u64::from(!is_over.get());
    }
    answered
}

/// Runs a stream and the calls beside it, server and client on this one thread; counts what it allocates.
fn beside(address: String, is_down: bool) -> (u64, AllocationInfo) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (server, channel) = runtime.block_on(async {
        let server = Server::builder().service(Pipe).listen(address).bind().await.unwrap();
        let address = server.local_addrs()[0].clone();
        let server = server.spawn();
        let channel = Channel::connect(&address).await.unwrap();
        channel.unary::<_, u64, Status>(&DESCRIPTOR, 0, Count { n: 0 }).await.unwrap();
        (server, channel)
    });
    let mut answered = 0;
    let info = measure(|| {
        runtime.block_on(async {
            let is_over = Rc::new(Cell::new(false));
            let stream = async {
                let bytes = if is_down { down(&channel).await } else { up(&channel).await };
                is_over.set(true);
                bytes
            };
            let (bytes, calls) = tokio::join!(stream, calls_beside(&channel, Rc::clone(&is_over)));
            assert_eq!(bytes, ITEMS * ITEM_BYTES as u64);
            answered = calls;
        });
    });
    runtime.block_on(async { assert_eq!(server.shutdown(Duration::from_secs(5)).await.cancelled, 0) });
    (answered, info)
}

/// A big stream, down and up, over TCP and a Unix socket: calls beside it are answered all along, and both sides together hold
/// no more at any time than the stream's window on each, the buffers of their reads, and a little.
#[test]
fn a_big_stream_beside_calls_is_bounded_by_its_window() {
    let window = u64::from(ChannelConfig::default().limits.stream_window_bytes);
    // Each side reads in blocks of up to 128 KiB, two of which may be alive, and what it took lies in them.
    let slack = 1 << 20;
    for is_down in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let socket = format!("unix:{}", dir.path().join("socket").display());
        for address in ["tcp://127.0.0.1:0".to_owned(), socket] {
            let (answered, info) = beside(address.clone(), is_down);
            let case = format!("{address}, down: {is_down}, {answered} calls, {info:?}");
            assert!(answered >= ITEMS / 64, "the stream holds calls back: {case}");
            assert!(info.bytes_max <= 2 * window + slack, "{case}");
        }
    }
}
