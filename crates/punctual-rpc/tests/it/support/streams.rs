//! A contract with streams, and its server and client, as `#[punctual::service]` would write them.

use crate::support::probe::{Declined, Ledger, Nothing, Raw, Wait};
use bytes::Bytes;
use punctual_context::{Context, Metadata};
use punctual_proto::contract::{MethodDescriptor, ServiceDescriptor, StreamDescriptor};
use punctual_proto::schema::{Schema, Type};
use punctual_rpc::{
    Channel, ClientStream, Duplex, Inbound, OneWayStream, ServerStream, Service, Status, Streaming, Streams, Unary,
};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context as TaskContext, Poll};

const STATUS: &Type = &Type::Status;

pub(crate) static DESCRIPTOR: ServiceDescriptor =
    ServiceDescriptor::new(
        "Flows",
        "What the tests stream.",
        &[
            MethodDescriptor::unary("Flows/sum", Nothing::TYPE, &Type::U64, Declined::TYPE)
                .streams(&[StreamDescriptor::new("numbers", &Type::U64, Declined::TYPE)]),
            MethodDescriptor::unary("Flows/count", Wait::TYPE, &Type::U64, Declined::TYPE)
                .returns_stream(Declined::TYPE),
            MethodDescriptor::unary("Flows/blobs", Blobs::TYPE, &Type::Bytes, STATUS).returns_stream(STATUS),
            MethodDescriptor::unary("Flows/upload", Nothing::TYPE, &Type::U64, STATUS)
                .streams(&[StreamDescriptor::new("parts", &Type::Bytes, STATUS)]),
            MethodDescriptor::unary("Flows/chat", Nothing::TYPE, &Type::Str, STATUS)
                .streams(&[StreamDescriptor::new("lines", &Type::Str, STATUS)])
                .returns_stream(STATUS),
            MethodDescriptor::unary("Flows/two", Wait::TYPE, &Type::Str, STATUS).streams(&[
                StreamDescriptor::new("numbers", &Type::U64, STATUS),
                StreamDescriptor::new("words", &Type::Str, STATUS),
            ]),
            MethodDescriptor::oneway("Flows/log", Nothing::TYPE).streams(&[StreamDescriptor::new(
                "lines",
                &Type::Str,
                STATUS,
            )]),
            MethodDescriptor::unary("Flows/first", Nothing::TYPE, &Type::U64, STATUS)
                .streams(&[StreamDescriptor::new("parts", &Type::Bytes, STATUS)]),
            MethodDescriptor::unary("Flows/finish", Wait::TYPE, &Type::U64, STATUS).detached(),
            MethodDescriptor::unary("Flows/ignore", Nothing::TYPE, &Type::U64, STATUS)
                .streams(&[StreamDescriptor::new("parts", &Type::Bytes, STATUS)]),
            MethodDescriptor::unary("Flows/broken", Wait::TYPE, &Type::U64, STATUS).returns_stream(STATUS),
            MethodDescriptor::unary("Flows/raw", Raw::TYPE, &Type::Bytes, STATUS).returns_stream(STATUS),
        ],
    );

#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct Blobs {
    pub(crate) items: u64,
    pub(crate) len: u64,
}

impl punctual_proto::codec::Args for Blobs {}

impl Schema for Blobs {
    const TYPE: &'static Type = &Type::Tuple(&[&Type::U64, &Type::U64]);
}

impl From<Status> for Declined {
    fn from(status: Status) -> Self {
        Declined::Because(status.to_string())
    }
}

/// What the handlers did with streams.
#[derive(Default)]
pub(crate) struct FlowLedger {
    pub(crate) probe: Arc<Ledger>,
    /// Items that handlers produced, and producers of handlers that were dropped.
    pub(crate) produced: AtomicU64,
    pub(crate) gone: AtomicU64,
    /// Lines of `log`, and how its streams ended.
    pub(crate) lines: std::sync::Mutex<Vec<String>>,
    pub(crate) finished: AtomicU64,
}

impl FlowLedger {
    fn changed(&self) {
        self.probe.changed.notify_waiters();
    }

    pub(crate) async fn until(&self, mut done: impl FnMut(&Self) -> bool) {
        self.probe.until(|_| done(self)).await;
    }
}

#[derive(Clone, Default)]
pub(crate) struct Flows {
    pub(crate) ledger: Arc<FlowLedger>,
}

/// Items of a handler, counted, as is its end.
struct Made {
    ledger: Arc<FlowLedger>,
    left: u64,
    item: Bytes,
}

impl futures_core::Stream for Made {
    type Item = Result<Bytes, Status>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<Option<Self::Item>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        self.ledger.produced.fetch_add(1, Ordering::SeqCst);
        self.ledger.changed();
        Poll::Ready(Some(Ok(self.item.clone())))
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        self.ledger.gone.fetch_add(1, Ordering::SeqCst);
        self.ledger.changed();
    }
}

impl Flows {
    async fn sum(mut numbers: Streaming<u64, Declined>) -> Result<u64, Declined> {
        Context::current().unwrap().respond_with("summed", "by a handler").unwrap();
        let mut sum = 0;
        while let Some(number) = numbers.next().await {
            sum += number?;
        }
        Ok(sum)
    }

    async fn count(args: Wait) -> Result<Streaming<u64, Declined>, Declined> {
        let context = Context::current().unwrap();
        context.respond_with("upto", args.gate.to_string()).unwrap();
        if args.gate == 13 {
            return Err(Declined::Overflow);
        }
        let numbers = (0..args.gate).map(|number| if number == 10 { Err(Declined::Overflow) } else { Ok(number) });
        let late = context.clone();
        let numbers = numbers.inspect(move |_| {
            assert!(late.respond_with("late", "x").is_err(), "the head was sent before the first item");
        });
        let mut trailers = Metadata::new();
        trailers.append("count", args.gate.to_string()).map_err(|error| Declined::Because(error.to_string()))?;
        Ok(Streaming::new(TryItems(numbers)).with_trailers(move || trailers))
    }

    async fn upload(self, mut parts: Streaming<Bytes>) -> Result<u64, Status> {
        let mut bytes = 0;
        while let Some(part) = parts.next().await {
            bytes += part?.len() as u64;
        }
        Ok(bytes)
    }

    async fn chat(lines: Streaming<String>) -> Result<Streaming<String>, Status> {
        Ok(Streaming::new(Upper(lines)))
    }

    async fn two(args: Wait, numbers: Streaming<u64>, words: Streaming<String>) -> Result<String, Status> {
        let (numbers, words) = (numbers.collect().await?, words.collect().await?);
        Ok(format!("{} {numbers:?} {words:?}", args.gate))
    }

    async fn log(self, mut lines: Streaming<String>) {
        let remaining = Context::current().and_then(|context| context.remaining());
        while let Some(line) = lines.next().await {
            let line = line.unwrap_or_else(|status| format!("failed: {}", status.code()));
            self.ledger.lines.lock().unwrap().push(line);
            self.ledger.changed();
        }
        self.ledger.lines.lock().unwrap().push(format!("end {}", remaining.is_some()));
        self.ledger.changed();
    }

    async fn finish(self, args: Wait) -> Result<u64, Status> {
        self.ledger.probe.waiting.send_modify(|count| *count += 1);
        self.ledger.changed();
        let mut gate = self.ledger.probe.gate.subscribe();
        gate.wait_for(|open| *open).await.map_err(|_| Status::aborted("the test is over"))?;
        self.ledger.finished.fetch_add(1, Ordering::SeqCst);
        self.ledger.changed();
        Ok(args.gate)
    }

    async fn ignore(self, parts: Streaming<Bytes>) -> Result<u64, Status> {
        let mut gate = self.ledger.probe.gate.subscribe();
        gate.wait_for(|open| *open).await.map_err(|_| Status::aborted("the test is over"))?;
        Ok(parts.collect().await?.len() as u64)
    }

    /// Items, then a panic.
    async fn broken(args: Wait) -> Result<Streaming<u64>, Status> {
        Ok(Streaming::new(TryItems((0..=args.gate).map(move |number| {
            assert_ne!(number, args.gate, "a secret that no peer may see");
            Ok(number)
        }))))
    }
}

struct TryItems<I>(I);

impl<I> Unpin for TryItems<I> {}

impl<I: Iterator> futures_core::Stream for TryItems<I> {
    type Item = I::Item;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<Option<I::Item>> {
        Poll::Ready(self.0.next())
    }
}

struct Upper(Streaming<String>);

impl futures_core::Stream for Upper {
    type Item = Result<String, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.0).poll_next(cx).map(|item| item.map(|item| item.map(|line| line.to_uppercase())))
    }
}

impl Service for Flows {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &DESCRIPTOR
    }

    fn dispatch(&self, method: usize, mut call: Inbound<'_>) {
        let flows = self.clone();
        match method {
            0 => {
                let numbers = call.take_stream();
                call.unary(|_: Nothing| Flows::sum(numbers));
            }
            1 => call.returned_stream(Flows::count),
            2 => call.returned_stream(move |args: Blobs| async move {
                let item = Bytes::from(vec![7; usize::try_from(args.len).unwrap()]);
                Ok::<_, Status>(Streaming::<Bytes>::new(Made { ledger: flows.ledger, left: args.items, item }))
            }),
            3 => {
                let parts = call.take_stream();
                call.unary(|_: Nothing| flows.upload(parts));
            }
            4 => {
                let lines = call.take_stream();
                call.returned_stream(|_: Nothing| Flows::chat(lines));
            }
            5 => {
                let (numbers, words) = (call.take_stream(), call.take_stream());
                call.unary(|args: Wait| Flows::two(args, numbers, words));
            }
            6 => {
                let lines = call.take_stream();
                call.oneway(|_: Nothing| flows.log(lines));
            }
            7 => {
                let mut parts: Streaming<Bytes> = call.take_stream();
                call.unary(|_: Nothing| async move {
                    let first = parts.next().await;
                    Ok::<_, Status>(first.transpose()?.map_or(0, |part| part.len() as u64))
                });
            }
            8 => call.unary(|args: Wait| flows.finish(args)),
            9 => {
                let parts = call.take_stream();
                call.unary(|_: Nothing| flows.ignore(parts));
            }
            10 => call.returned_stream(Flows::broken),
            11 => call.returned_stream(|args: Raw| async move {
                Ok::<_, Status>(Streaming::<Bytes>::from_items([args.data.clone(), args.data]))
            }),
            _ => call.unimplemented(),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct FlowsClient {
    pub(crate) channel: Channel,
}

impl FlowsClient {
    pub(crate) fn sum(&self, numbers: Streaming<u64, Declined>) -> ClientStream<Nothing, u64, Declined> {
        self.channel.client_stream(&DESCRIPTOR, 0, Nothing {}, Streams::new().with(numbers))
    }

    pub(crate) fn count(&self, upto: u64) -> ServerStream<Wait, u64, Declined, Declined> {
        self.channel.returned_stream(&DESCRIPTOR, 1, Wait { gate: upto }, Streams::new())
    }

    pub(crate) fn blobs(&self, items: u64, len: usize) -> ServerStream<Blobs, Bytes, Status, Status> {
        let len = len as u64;
        self.channel.returned_stream(&DESCRIPTOR, 2, Blobs { items, len }, Streams::new())
    }

    pub(crate) fn upload(&self, parts: Streaming<Bytes>) -> ClientStream<Nothing, u64, Status> {
        self.channel.client_stream(&DESCRIPTOR, 3, Nothing {}, Streams::new().with(parts))
    }

    pub(crate) fn chat(&self, lines: Streaming<String>) -> Duplex<Nothing, String, Status, Status> {
        self.channel.returned_stream(&DESCRIPTOR, 4, Nothing {}, Streams::new().with(lines))
    }

    pub(crate) fn two(
        &self,
        gate: u64,
        numbers: Streaming<u64>,
        words: Streaming<String>,
    ) -> ClientStream<Wait, String, Status> {
        self.channel.client_stream(&DESCRIPTOR, 5, Wait { gate }, Streams::new().with(numbers).with(words))
    }

    pub(crate) fn log(&self, lines: Streaming<String>) -> OneWayStream<Nothing> {
        self.channel.oneway_stream(&DESCRIPTOR, 6, Nothing {}, Streams::new().with(lines))
    }

    pub(crate) fn first(&self, parts: Streaming<Bytes>) -> ClientStream<Nothing, u64, Status> {
        self.channel.client_stream(&DESCRIPTOR, 7, Nothing {}, Streams::new().with(parts))
    }

    pub(crate) fn finish(&self, gate: u64) -> Unary<Wait, u64, Status> {
        self.channel.unary(&DESCRIPTOR, 8, Wait { gate })
    }

    pub(crate) fn ignore(&self, parts: Streaming<Bytes>) -> ClientStream<Nothing, u64, Status> {
        self.channel.client_stream(&DESCRIPTOR, 9, Nothing {}, Streams::new().with(parts))
    }

    pub(crate) fn broken(&self, after: u64) -> ServerStream<Wait, u64, Status, Status> {
        self.channel.returned_stream(&DESCRIPTOR, 10, Wait { gate: after }, Streams::new())
    }

    pub(crate) fn raw(&self, data: impl Into<Bytes>) -> ServerStream<Raw, Bytes, Status, Status> {
        self.channel.returned_stream(&DESCRIPTOR, 11, Raw { data: data.into() }, Streams::new())
    }
}

/// A producer of the test: what it gave, and whether it was polled and dropped.
#[derive(Debug, Clone, Default)]
pub(crate) struct Producer {
    pub(crate) polls: Arc<AtomicU64>,
    pub(crate) given: Arc<AtomicU64>,
    pub(crate) dropped: Arc<AtomicBool>,
}

impl Producer {
    pub(crate) fn polls(&self) -> u64 {
        self.polls.load(Ordering::SeqCst)
    }

    pub(crate) fn given(&self) -> u64 {
        self.given.load(Ordering::SeqCst)
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::SeqCst)
    }

    /// A stream of `items` of `item`, for ever with `None`; then it waits for ever where it is `open`.
    pub(crate) fn stream<T: Clone + Send + Unpin + 'static>(
        &self,
        item: T,
        items: Option<u64>,
        open: bool,
    ) -> Streaming<T> {
        Streaming::new(Produced { seen: self.clone(), item, left: items.unwrap_or(u64::MAX), open })
    }
}

struct Produced<T> {
    seen: Producer,
    item: T,
    left: u64,
    open: bool,
}

impl<T: Clone + Unpin> futures_core::Stream for Produced<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<Option<Self::Item>> {
        self.seen.polls.fetch_add(1, Ordering::SeqCst);
        if self.left == 0 {
            return if self.open { Poll::Pending } else { Poll::Ready(None) };
        }
        self.left -= 1;
        self.seen.given.fetch_add(1, Ordering::SeqCst);
        Poll::Ready(Some(Ok(self.item.clone())))
    }
}

impl<T> Drop for Produced<T> {
    fn drop(&mut self) {
        self.seen.dropped.store(true, Ordering::SeqCst);
    }
}
