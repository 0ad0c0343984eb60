//! Calls with streams over every transport.

use crate::support::probe::Declined;
use crate::support::site::Kind;
use crate::support::streams::{FlowsClient, Producer};
use crate::support::{Site, over_every_transport};
use bytes::Bytes;
use punctual_rpc::{CallError, ChannelConfig, Code, Limits, ServerConfig, Status, Streaming};
use std::sync::atomic::Ordering;

over_every_transport! {
    /// A client stream, its typed error, and what the producer fails with.
    a_client_stream_is_read_to_its_end;
    /// A returned stream comes in order with its trailers, and with its typed error behind the items before it.
    a_returned_stream_comes_in_order;
    /// Both sides stream at once, item by item.
    a_duplex_call_goes_back_and_forth;
    /// Several argument streams of one call each have their own items and end.
    several_streams_of_one_call;
    /// A one-way call with a stream goes on when it is done, and its handler reads all of it.
    a_oneway_call_with_a_stream;
    /// Items of every size around the borders of copying, linking and cutting come as they were sent, both ways.
    items_of_every_size;
    /// The server answers before the upload ends: the client has exactly that answer, and the rest of its stream is dropped.
    an_answer_before_the_upload_ends;
    /// Dropping a returned stream cancels the call on the server, whose producer is dropped.
    an_early_break_cancels;
    /// A consumer that stands still stops the producer at the windows, and going on takes everything.
    a_stalled_reader_bounds_memory;
    /// The same for a handler that does not read its argument.
    a_stalled_handler_bounds_memory;
    /// Ten thousand downloads that are given up in their middle leave no stream and no credit behind.
    cancelled_downloads_restore_all_credit;
    /// A fast stream beside stalled ones that fill the connection's window comes to its end.
    a_fast_stream_beside_stalled_ones;
    /// A message of the limit passes in each shape and direction, and one byte more is refused by name.
    the_message_limit_holds_for_items;
    /// Streams over the agreed number are refused by name; with the end of one there is room for another.
    the_number_of_streams_is_limited;
    /// A handler whose stream panics ends the stream with an internal error that says nothing.
    a_panic_within_a_stream_is_internal;
    /// A detached handler runs to its end when its caller is gone, holds its place until then, and its result is dropped.
    a_detached_handler_runs_to_its_end;
    /// A call that announces other streams than its method has is refused, and the connection lives.
    other_streams_than_the_methods_are_refused;
}

async fn start(kind: Kind) -> (Site, FlowsClient) {
    let (site, _) = Site::streaming(kind, ServerConfig::default()).await;
    let client = site.flows().await;
    (site, client)
}

async fn a_client_stream_is_read_to_its_end(kind: Kind) {
    let (_site, client) = start(kind).await;
    assert_eq!(client.sum(Streaming::from_items(0..1_000)).await, Ok(499_500));
    assert_eq!(client.sum(Streaming::empty()).await, Ok(0));
    let failing = Streaming::new(Failing(3));
    assert_eq!(client.sum(failing).await, Err(CallError::App(Declined::Because("the third".to_owned()))));
}

/// Items, then an error.
struct Failing(u64);

impl futures_core::Stream for Failing {
    type Item = Result<u64, Declined>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0 -= 1;
        let item = if self.0 == 0 { Err(Declined::Because("the third".to_owned())) } else { Ok(self.0) };
        std::task::Poll::Ready(Some(item))
    }
}

async fn a_returned_stream_comes_in_order(kind: Kind) {
    let (_site, client) = start(kind).await;
    let mut numbers = client.count(10).await.unwrap();
    for number in 0..10 {
        assert_eq!(numbers.next().await, Some(Ok(number)));
    }
    assert_eq!(numbers.next().await, None);
    assert_eq!(numbers.next().await, None, "an end stays one");
    assert_eq!(numbers.trailers().get_str("count"), Some("10"));
    let mut failing = client.count(100).await.unwrap();
    for number in 0..10 {
        assert_eq!(failing.next().await, Some(Ok(number)));
    }
    assert_eq!(failing.next().await, Some(Err(Declined::Overflow)));
    assert_eq!(failing.next().await, None);
    assert_eq!(client.count(13).await.unwrap_err(), CallError::App(Declined::Overflow), "instead of a stream");
    assert_eq!(client.raw("again").await.unwrap().collect().await.unwrap(), ["again", "again"]);
}

async fn a_duplex_call_goes_back_and_forth(kind: Kind) {
    let (_site, client) = start(kind).await;
    let (sender, receiver) = tokio::sync::mpsc::channel::<String>(1);
    let mut answers = client.chat(Streaming::new(Receiver(receiver))).await.unwrap();
    for round in 0..100 {
        sender.send(format!("line {round}")).await.unwrap();
        assert_eq!(answers.next().await.unwrap().unwrap(), format!("LINE {round}"));
    }
    drop(sender);
    assert_eq!(answers.next().await, None);
}

struct Receiver<T>(tokio::sync::mpsc::Receiver<T>);

impl<T> futures_core::Stream for Receiver<T> {
    type Item = Result<T, Status>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|item| item.map(Ok))
    }
}

async fn several_streams_of_one_call(kind: Kind) {
    let (_site, client) = start(kind).await;
    let words = Streaming::from_items(["a".to_owned(), "b".to_owned()]);
    let both = client.two(7, Streaming::from_items([1, 2, 3]), words).await.unwrap();
    assert_eq!(both, r#"7 [1, 2, 3] ["a", "b"]"#);
}

async fn a_oneway_call_with_a_stream(kind: Kind) {
    let (site, ledger) = Site::streaming(kind, ServerConfig::default()).await;
    let client = site.flows().await;
    client.log(Streaming::from_items((0..50).map(|line| line.to_string()))).await.unwrap();
    ledger.until(|ledger| ledger.lines.lock().unwrap().len() == 51).await;
    let lines = std::mem::take(&mut *ledger.lines.lock().unwrap());
    assert_eq!((&lines[49][..], &lines[50][..]), ("49", "end false"), "to its clean end, without a budget");
    let in_time = client.log(Streaming::empty()).timeout(std::time::Duration::from_secs(60));
    in_time.await.unwrap();
    ledger.until(|ledger| ledger.lines.lock().unwrap().len() == 1).await;
    assert_eq!(ledger.lines.lock().unwrap()[0], "end true", "with its budget");
    client.channel.clone().close().await;
    assert_eq!(client.channel.stats().streams, 0);
}

async fn items_of_every_size(kind: Kind) {
    let (_site, client) = start(kind).await;
    for len in [0, 1, 1_023, 1_024, 16_384, 32_736, 32_737, 65_535, 65_536, 65_537, 500_000, 4 * 1024 * 1024] {
        let item = Bytes::from((0..len).map(|at| u8::try_from(at % 251).unwrap()).collect::<Vec<_>>());
        let parts = Streaming::from_items([item.clone(), Bytes::new(), item.clone()]);
        assert_eq!(client.upload(parts).await.unwrap(), 2 * len as u64, "{len} bytes");
        let echoed = client.raw(item.clone()).await.unwrap().collect().await.unwrap();
        assert!(echoed == [item.clone(), item], "{len} bytes");
        let text = "x".repeat(len.min(1_000_000));
        let echoed = client.chat(Streaming::from_items([text.clone()])).await.unwrap().collect().await.unwrap();
        assert!(echoed == [text.to_uppercase()], "{len} bytes");
    }
}

async fn an_answer_before_the_upload_ends(kind: Kind) {
    let (_site, client) = start(kind).await;
    let endless = Producer::default();
    let answer = client.first(endless.stream(Bytes::from(vec![1; 5_000]), None, false)).await;
    assert_eq!(answer.unwrap(), 5_000);
    assert!(endless.is_dropped());
    // The connection and its credit are as before.
    let parts = Streaming::from_items((0..1_000).map(|_| Bytes::from(vec![1; 20_000])));
    assert_eq!(client.upload(parts).await.unwrap(), 20_000_000);
    assert_eq!((client.channel.stats().streams, client.channel.stats().pending), (0, 0));
}

async fn an_early_break_cancels(kind: Kind) {
    let (site, ledger) = Site::streaming(kind, ServerConfig::default()).await;
    let client = site.flows().await;
    let mut endless = client.blobs(u64::MAX, 100).await.unwrap();
    assert_eq!(endless.next().await.unwrap().unwrap().len(), 100);
    drop(endless);
    ledger.until(|ledger| ledger.gone.load(Ordering::SeqCst) == 1).await;
    // A duplex call takes its producers with it.
    let lines = Producer::default();
    let mut answers = client.chat(lines.stream("again".to_owned(), None, false)).await.unwrap();
    assert_eq!(answers.next().await.unwrap().unwrap(), "AGAIN");
    drop(answers);
    while !lines.is_dropped() {
        tokio::task::yield_now().await;
    }
    client.channel.clone().close().await;
    assert_eq!((site.server.stats().cancelled, client.channel.stats().streams), (2, 0));
}

async fn a_stalled_reader_bounds_memory(kind: Kind) {
    let (site, ledger) = Site::streaming(kind, ServerConfig::default()).await;
    let client = site.flows().await;
    let mut blobs = client.blobs(10_000, 10_000).await.unwrap();
    let produced = settled(|| ledger.produced.load(Ordering::SeqCst)).await;
    // The stream's window, and what lies between the sockets' buffers: nothing of it beyond the queue's share.
    let window = u64::from(Limits::default().stream_window_bytes) / 10_032;
    assert!((window..=window + 1).contains(&produced), "{produced} of a window of {window}");
    let mut received = 0;
    while let Some(blob) = blobs.next().await {
        received += blob.unwrap().len();
    }
    assert_eq!(received, 10_000 * 10_000);
}

async fn a_stalled_handler_bounds_memory(kind: Kind) {
    let (site, _) = Site::streaming(kind, ServerConfig::default()).await;
    let client = site.flows().await;
    let parts = Producer::default();
    let call = tokio::spawn(client.ignore(parts.stream(Bytes::from(vec![1; 10_000]), Some(1_000), false)));
    let given = settled(|| parts.given()).await;
    let window = u64::from(Limits::default().stream_window_bytes) / 10_032;
    // One more is in the producer's hand.
    assert!((window..=window + 2).contains(&given), "{given} of a window of {window}");
    site.ledger.gate.send_replace(true);
    assert_eq!(call.await.unwrap().unwrap(), 1_000);
}

/// A number that has not moved while everything that could move had its turns.
async fn settled(mut read: impl FnMut() -> u64) -> u64 {
    let (mut last, mut since) = (read(), 0);
    while last == 0 || since < 2_000 {
        tokio::task::yield_now().await;
        let now = read();
        since = if now == last { since + 1 } else { 0 };
        last = now;
    }
    last
}

async fn cancelled_downloads_restore_all_credit(kind: Kind) {
    let (site, ledger) = Site::streaming(kind, ServerConfig::default()).await;
    let client = site.flows().await;
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..10_u64 {
        let client = client.clone();
        tasks.spawn(async move {
            for round in 0..1_000_u64 {
                let mut blobs = client.blobs(60, 2_000).await.unwrap();
                for _ in 0..(worker + round) % 5 {
                    assert_eq!(blobs.next().await.unwrap().unwrap().len(), 2_000);
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    ledger.until(|ledger| ledger.gone.load(Ordering::SeqCst) == 10_000).await;
    // All of it came: a download of many windows goes through, and nothing is held.
    let mut blobs = client.blobs(2_500, 20_000).await.unwrap();
    let mut received = 0_u64;
    while let Some(blob) = blobs.next().await {
        received += blob.unwrap().len() as u64;
    }
    assert_eq!(received, 50_000_000);
    let stats = client.channel.stats();
    assert_eq!((stats.streams, stats.unconsumed_bytes, stats.pending), (0, 0, 0));
    let half = u64::from(Limits::default().connection_window_bytes) / 2;
    let server = site.server.stats();
    assert!(server.uncredited_bytes < half, "{server:?}");
    assert_eq!((server.streams, server.unconsumed_bytes), (0, 0));
}

async fn a_fast_stream_beside_stalled_ones(kind: Kind) {
    let (_site, client) = start(kind).await;
    let mut stalled = Vec::new();
    for _ in 0..40 {
        stalled.push(client.blobs(u64::MAX, 10_000).await.unwrap());
    }
    let full = settled(|| client.channel.stats().unconsumed_bytes).await;
    assert!(full > u64::from(Limits::default().connection_window_bytes) - 20_000, "{full}");
    let mut fast = client.blobs(2_000, 10_000).await.unwrap();
    let mut received = 0;
    while let Some(blob) = fast.next().await {
        received += blob.unwrap().len();
    }
    assert_eq!(received, 20_000_000);
    assert_eq!(client.channel.stats().streams, 40);
}

async fn the_message_limit_holds_for_items(kind: Kind) {
    const LIMIT: usize = 100_000;
    let mut config = ServerConfig::default();
    config.limits.message_bytes_max = LIMIT as u32;
    let (site, _) = Site::streaming(kind, config).await;
    let client = site.flows().await;
    for len in [LIMIT - 1, LIMIT, LIMIT + 1] {
        let item = Bytes::from(vec![7; len]);
        let up = client.upload(Streaming::from_items([item.clone()])).await;
        let both = client.upload(Streaming::from_items([Bytes::new(), item])).await;
        let down = match client.blobs(1, len).await.unwrap().next().await {
            Some(down) => down.map(|item| item.len() as u64),
            None => Ok(0),
        };
        if len <= LIMIT {
            assert_eq!((up, both, down), (Ok(len as u64), Ok(len as u64), Ok(len as u64)));
            continue;
        }
        for status in [up.unwrap_err().status().unwrap(), both.unwrap_err().status().unwrap(), &down.unwrap_err()] {
            assert_eq!(status.code(), Code::ResourceExhausted);
            assert_eq!(status.limit(), Some(("message_bytes_max", LIMIT as u64)), "{status}");
        }
    }
}

async fn the_number_of_streams_is_limited(kind: Kind) {
    let (site, _) = Site::streaming(kind, ServerConfig::default()).await;
    let mut config = ChannelConfig::default();
    config.limits.streams_max = 3;
    let client = site.flows_with(config).await;
    let open = client.blobs(u64::MAX, 10).await.unwrap();
    let endless = Producer::default();
    let chat = client.chat(endless.stream(String::new(), None, false)).await.unwrap();
    let error = client.blobs(1, 10).await.unwrap_err();
    let status = error.status().unwrap();
    assert_eq!((status.code(), status.limit()), (Code::ResourceExhausted, Some(("streams_max", 3))));
    drop(open);
    assert_eq!(client.blobs(1, 10).await.unwrap().collect().await.unwrap().len(), 1);
    drop(chat);
}

async fn a_panic_within_a_stream_is_internal(kind: Kind) {
    let (site, client) = start(kind).await;
    let mut broken = client.broken(3).await.unwrap();
    for number in 0..3 {
        assert_eq!(broken.next().await.unwrap().unwrap(), number);
    }
    let status = broken.next().await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Internal);
    assert!(!status.message().contains("secret"), "{status}");
    assert_eq!(broken.next().await, None);
    assert_eq!(site.server.stats().panics, 1);
}

async fn a_detached_handler_runs_to_its_end(kind: Kind) {
    let (site, ledger) = Site::streaming(kind, ServerConfig::default()).await;
    let client = site.flows().await;
    let call = tokio::spawn(client.finish(1));
    ledger.until(|ledger| *ledger.probe.waiting.borrow() == 1).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    while site.server.stats().cancelled == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!((site.server.stats().running, ledger.finished.load(Ordering::SeqCst)), (1, 0), "it holds its place");
    site.ledger.gate.send_replace(true);
    ledger.until(|ledger| ledger.finished.load(Ordering::SeqCst) == 1).await;
    while site.server.stats().running > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(site.server.stats().late_results, 1);
    assert_eq!(client.finish(2).await, Ok(2), "and an ordinary one is answered");
    assert_eq!(client.channel.stats().late_replies, 0);
}

async fn other_streams_than_the_methods_are_refused(kind: Kind) {
    let (_site, client) = start(kind).await;
    let options = punctual_rpc::CallOptions::new;
    let none = client.channel.call_json("Flows/sum", "{}".into(), options()).await.unwrap_err();
    let text = "Flows/sum has 1 argument streams and returns no stream; the call announced 0 argument streams and returns no stream";
    assert_eq!((none.status().unwrap().code(), none.status().unwrap().message()), (Code::InvalidArgument, text));
    let one = client.channel.stream_json("Probe/add", "{}".into(), Vec::new(), true, options()).await.unwrap_err();
    assert_eq!(one.status().unwrap().code(), Code::InvalidArgument);
    assert_eq!(client.sum(Streaming::from_items([1, 2])).await, Ok(3));
}
