//! Calls that a server went away from before it took them are sent again, whatever their shape and method.

use crate::support::clock::{channel_under, tokio_clock};
use crate::support::probe::ProbeClient;
use crate::support::streams::{FlowsClient, Producer};
use crate::support::wire::{Frame, Wire, WireListener, poll_once, settle, welcome, wired};
use punctual_proto::contract::method_id;
use punctual_proto::frame::Kind;
use punctual_rpc::{ChannelConfig, Code, Streaming};
use std::time::Duration;

/// Room for everything, or for nothing but the handshake.
const WIDE: usize = 1 << 16;
const NARROW: usize = 16;

fn waiting(config: &mut ChannelConfig) {
    config.default_timeout = Some(Duration::from_secs(60));
}

fn prepared(bytes: usize) -> (ProbeClient, FlowsClient, WireListener) {
    let mut config = channel_under(tokio_clock());
    waiting(&mut config);
    let (client, listener) = wired(config, bytes);
    let flows = FlowsClient { channel: client.channel.clone() };
    (client, flows, listener)
}

/// Old enough that its end is no failed try.
async fn lived() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}

async fn next_request(wire: &mut Wire) -> Frame {
    loop {
        let frame = wire.call_frame().await;
        if frame.kind() == Kind::Request {
            return frame;
        }
    }
}

/// A unary call goes to the next server with the same arguments and what is left of its budget, also where it may not be
/// made twice: it never was.
#[tokio::test(start_paused = true)]
async fn a_unary_call_goes_elsewhere() {
    let (client, _, mut listener) = prepared(WIDE);
    let call = tokio::spawn(client.add(1, 2).timeout(Duration::from_secs(30)).into_future());
    let mut first = listener.accept(welcome()).await;
    let sent = next_request(&mut first).await;
    lived().await;
    first.go_away(0).await;
    let mut second = listener.accept(welcome()).await;
    let again = next_request(&mut second).await;
    let (old, new) = (first.request(&sent), second.request(&again));
    assert_eq!((old.method, old.body), (new.method, new.body));
    let (old, new) = (old.budget_micros.unwrap().get(), new.budget_micros.unwrap().get());
    assert!(new <= old - 2_000_000, "the deadline is the call's, not the attempt's: {old}, then {new}");
    second.answer(&again, &3).await;
    assert_eq!(call.await.unwrap(), Ok(3));
    assert_eq!(client.channel.stats().resends, 1);
}

/// A call that the server accepted is not sent again: its work may be done.
#[tokio::test(start_paused = true)]
async fn an_accepted_call_stays_where_it_is() {
    let (client, _, mut listener) = prepared(WIDE);
    let call = tokio::spawn(client.add(1, 2).into_future());
    let mut first = listener.accept(welcome()).await;
    next_request(&mut first).await;
    lived().await;
    first.go_away(1).await;
    drop(first);
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(error.status().unwrap().code(), Code::ConnectionClosed);
    assert_eq!(client.channel.stats().resends, 0);
}

/// Servers that all go away end the call at some point, also where it would wait for ever.
#[tokio::test(start_paused = true)]
async fn a_call_is_not_sent_again_for_ever() {
    let (client, _, mut listener) = prepared(WIDE);
    let call = tokio::spawn(client.add(1, 2).wait_for_ready().timeout(Duration::from_secs(3_600)).into_future());
    let mut sent = 0;
    let result = loop {
        let mut wire = listener.accept(welcome()).await;
        next_request(&mut wire).await;
        sent += 1;
        lived().await;
        wire.go_away(0).await;
        settle().await;
        if call.is_finished() {
            break call.await.unwrap();
        }
    };
    let error = result.unwrap_err();
    let status = error.status().unwrap();
    assert!(status.code() == Code::Unavailable && status.message().starts_with("never accepted"), "{status}");
    assert_eq!((sent, client.channel.stats().resends), (9, 8));
}

/// A timed one-way call that was not written yet goes elsewhere.
#[tokio::test(start_paused = true)]
async fn a_oneway_call_that_was_not_written_goes_elsewhere() {
    let (client, _, mut listener) = prepared(NARROW);
    let call = tokio::spawn(client.note(&"x".repeat(100)).timeout(Duration::from_secs(60)).into_future());
    let mut first = listener.accept(welcome()).await;
    lived().await;
    first.go_away(0).await;
    let mut second = listener.accept(welcome()).await;
    let again = next_request(&mut second).await;
    assert_eq!(second.request(&again).method, method_id("Probe/note"));
    assert_eq!(call.await.unwrap(), Ok(()));
}

/// A call for a stream goes elsewhere.
#[tokio::test(start_paused = true)]
async fn a_call_for_a_stream_goes_elsewhere() {
    let (_, flows, mut listener) = prepared(WIDE);
    let call = tokio::spawn(flows.count(5).timeout(Duration::from_secs(60)).into_future());
    let mut first = listener.accept(welcome()).await;
    next_request(&mut first).await;
    lived().await;
    first.go_away(0).await;
    let mut second = listener.accept(welcome()).await;
    let again = next_request(&mut second).await;
    assert_eq!(second.request(&again).method, method_id("Flows/count"));
    call.abort();
}

/// A stream that has given nothing goes along, with client streaming and with duplex, whose producers have a task of their
/// own; what it gives reaches the server that took the call.
#[tokio::test(start_paused = true)]
async fn streams_that_gave_nothing_go_along() {
    for duplex in [false, true] {
        let (_, flows, mut listener) = prepared(WIDE);
        let (lines, given) = tokio::sync::mpsc::unbounded_channel();
        let (parts, more) = tokio::sync::mpsc::unbounded_channel();
        let (chat, upload) = (flows.chat(Streaming::new(Given(given))), flows.upload(Streaming::new(Given(more))));
        let call = tokio::spawn(async move { if duplex { chat.await.map(drop) } else { upload.await.map(drop) } });
        let mut first = listener.accept(welcome()).await;
        next_request(&mut first).await;
        lived().await;
        first.go_away(0).await;
        let mut second = listener.accept(welcome()).await;
        next_request(&mut second).await;
        lines.send("a line".to_owned()).unwrap();
        parts.send(bytes::Bytes::from_static(b"a line")).unwrap();
        let item = second.call_frame().await;
        assert_eq!(item.kind(), Kind::Data);
        assert!(item.payload.ends_with(b"a line"), "{item:?}");
        call.abort();
    }
}

/// A stream whose producer never began, since the request was not written, goes along too.
#[tokio::test(start_paused = true)]
async fn streams_of_an_unwritten_request_go_along() {
    let (_, flows, mut listener) = prepared(NARROW);
    let producer = Producer::default();
    let mut call =
        Box::pin(flows.upload(producer.stream(bytes::Bytes::from_static(b"part"), Some(3), false)).into_future());
    assert!(poll_once(&mut call).await.is_pending());
    let call = tokio::spawn(call);
    let mut first = listener.accept(welcome()).await;
    lived().await;
    first.go_away(0).await;
    let mut second = listener.accept(welcome()).await;
    assert_eq!(producer.polls(), 0, "nothing was written, so nothing was asked for");
    next_request(&mut second).await;
    for _ in 0..3 {
        assert_eq!(second.call_frame().await.kind(), Kind::Data);
    }
    assert_eq!(producer.given(), 3);
    call.abort();
}

/// A call whose stream gave an item cannot be sent again, and says so.
#[tokio::test(start_paused = true)]
async fn a_stream_that_gave_an_item_is_not_sent_again() {
    let (client, flows, mut listener) = prepared(WIDE);
    let producer = Producer::default();
    let stream = producer.stream(bytes::Bytes::from_static(b"part"), Some(2), true);
    let call = tokio::spawn(flows.upload(stream).timeout(Duration::from_secs(60)).into_future());
    let mut first = listener.accept(welcome()).await;
    next_request(&mut first).await;
    assert_eq!(first.call_frame().await.kind(), Kind::Data);
    lived().await;
    first.go_away(0).await;
    let error = call.await.unwrap().unwrap_err();
    let status = error.status().unwrap();
    assert!(status.code() == Code::Unavailable && status.message().starts_with("never accepted"), "{status}");
    assert!(producer.is_dropped());
    assert_eq!(client.channel.stats().resends, 0);
}

/// Items as they are given.
struct Given<T>(tokio::sync::mpsc::UnboundedReceiver<T>);

impl<T> futures_core::Stream for Given<T> {
    type Item = Result<T, punctual_rpc::Status>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|item| item.map(Ok))
    }
}
