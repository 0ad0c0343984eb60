//! Compressed bodies, over every transport and with every profile of this build.

use crate::support::probe::Declined;
use crate::support::raw::Raw;
use crate::support::site::Kind;
use crate::support::squeeze::{Runs, Slow, profiles};
use crate::support::streams::FlowsClient;
use crate::support::wire::{connected_as, poll_once, settle, welcome};
use crate::support::{Site, over_every_transport};
use bytes::Bytes;
use punctual_clock::{Entropy, SeededEntropy};
use punctual_proto::codec::Codec;
use punctual_proto::contract::method_id;
use punctual_proto::frame::{CallId, CallStreams, Kind as FrameKind, Outcome, RequestHead, ResponseHead};
use punctual_proto::handshake::Hello;
use punctual_rpc::compression::{Compress, Compression};
use punctual_rpc::{CallError, CallOptions, ChannelConfig, Code, Limits, ServerConfig, Streaming};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// `profile` counted: how often it compressed.
fn counted(profile: &Arc<dyn Compress>) -> (Compression, Arc<AtomicU64>) {
    let times = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&times);
    let during = Arc::new(move || {
        counter.fetch_add(1, Ordering::SeqCst);
    });
    (Compression::new().with(Slow { profile: Arc::clone(profile), during }), times)
}

fn channel(compression: Compression) -> ChannelConfig {
    let mut config = ChannelConfig::default();
    config.compression = compression;
    config
}

fn server(compression: Compression) -> ServerConfig {
    let mut config = ServerConfig::default();
    config.compression = compression;
    config
}

/// Bytes that compress well, and bytes that do not at all.
fn bodies(len: usize) -> [Bytes; 2] {
    let mut noise = vec![0; len];
    let mut state = len as u64 | 1;
    for part in noise.chunks_mut(8) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        part.copy_from_slice(&(state ^ state >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()[..part.len()]);
    }
    [Bytes::from(vec![b'a'; len]), Bytes::from(noise)]
}

over_every_transport! {
    /// Bodies of every size and kind come back as they were, results and errors, whatever the codec.
    bodies_come_back_as_they_were;
    /// Items of streams do, either way.
    items_come_back_as_they_were;
}

async fn bodies_come_back_as_they_were(kind: Kind) {
    for profile in profiles() {
        let ((ours, sent), (theirs, answered)) = (counted(&profile), counted(&profile));
        let site = Site::start_with(kind, server(theirs)).await;
        let client = site.client_with(channel(ours)).await;
        for len in [0, 1, 1_023, 1_024, 1_025, 16_384, 65_536, 70_000, 400_000] {
            for data in bodies(len) {
                assert_eq!(client.echo(data.clone()).await.unwrap(), data, "{len} bytes");
            }
            let text = "x".repeat(len);
            assert_eq!(client.text(&text).await.unwrap().len(), text.len());
        }
        assert!(sent.load(Ordering::SeqCst) >= 18 && answered.load(Ordering::SeqCst) >= 18);
        let response = client.text("meta:a=3000 body=200000").with_response().await;
        assert_eq!(response.metadata().get("a").map(<[u8]>::len), Some(3_000));
        assert_eq!(response.into_result().unwrap().len(), 200_000);
        assert_eq!(client.add(i32::MAX, 1).await, Err(CallError::App(Declined::Overflow)));
        let status = client.text(&format!("fail:{}", "y".repeat(5_000))).await.unwrap_err();
        assert_eq!(status.status().unwrap().message().len(), 5_000);
        let json = Bytes::from(format!("{{\"text\":\"{}\"}}", "z".repeat(9_000)));
        let loud = client.channel.call_json("Probe/text", json, CallOptions::new()).await.unwrap();
        assert_eq!(loud.len(), 9_002);
    }
}

async fn items_come_back_as_they_were(kind: Kind) {
    for profile in profiles() {
        let ((ours, sent), (theirs, answered)) = (counted(&profile), counted(&profile));
        let (site, _) = Site::streaming(kind, server(theirs)).await;
        let flows = site.flows_with(channel(ours)).await;
        for len in [1_000, 70_000] {
            for data in bodies(len) {
                let parts = Streaming::from_items(vec![data.clone(); 5]);
                assert_eq!(flows.upload(parts).await, Ok(5 * len as u64));
                let back = flows.raw(data.clone()).await.unwrap().collect().await.unwrap();
                assert_eq!(back, [data.clone(), data]);
            }
            let lines = (0..3).map(move |at| format!("{at} ") + &"line ".repeat(len / 5));
            let loud = flows.chat(Streaming::from_items(lines.clone())).await.unwrap().collect().await.unwrap();
            assert_eq!(loud, lines.map(|line| line.to_uppercase()).collect::<Vec<_>>());
        }
        assert!(sent.load(Ordering::SeqCst) >= 10 && answered.load(Ordering::SeqCst) >= 4);
        // What is not given back yet is what a side may gather.
        let (stats, window) = (flows.channel.stats(), u64::from(Limits::default().connection_window_bytes));
        assert!(stats.uncredited_bytes <= window / 2, "{stats:?}");
        assert_eq!((stats.unconsumed_bytes, site.server.stats().unconsumed_bytes), (0, 0));
    }
}

/// What is compressed, and what goes as it is: by its length, by its method, by its call, and by what it comes to.
#[tokio::test]
async fn only_what_is_worth_it_is_compressed() {
    for profile in profiles() {
        let number = profile.profile();
        let compression = Compression::new().with(Slow { profile, during: Arc::new(|| ()) });
        let compression = compression.method("Probe/note", 100).method("Probe/bulk_note", None);
        let welcome = welcome().with_compression(vec![number]);
        let (client, mut wire) = connected_as(channel(compression), 1 << 20, welcome).await;
        let [even, noise] = bodies(5_000);
        let text = "x".repeat(200);
        client.note(&text[..50]).await.unwrap();
        client.note(&text).await.unwrap();
        client.note(&text).compress(false).await.unwrap();
        client.bulk_note(even.clone()).await.unwrap();
        client.bulk_note(even.slice(..500)).compress(true).await.unwrap();
        client.bulk_note(noise.clone()).compress(true).await.unwrap();
        client.hold(even.slice(..1_023)).await.unwrap();
        client.hold(even.slice(..1_024)).await.unwrap();
        client.hold(noise).await.unwrap();
        let mut seen = Vec::new();
        for _ in 0..9 {
            let frame = wire.call_frame().await;
            let request = wire.request(&frame);
            assert!(request.plain.is_none_or(|plain| request.body.len() + 4 < plain as usize));
            seen.push(request.plain);
        }
        let texts = Some(202);
        assert_eq!(seen, [None, texts, None, None, Some(500), None, None, Some(1_024), None], "{number}");
    }
}

/// Where the other side is not told to, or knows no profile of ours, everything goes as it is.
#[tokio::test]
async fn without_an_agreement_nothing_is_compressed() {
    #[derive(Debug)]
    struct Other;
    impl Compress for Other {
        fn profile(&self) -> punctual_rpc::compression::Profile {
            punctual_rpc::compression::Profile(201)
        }
        fn compress(&self, _: &[u8]) -> Option<Vec<u8>> {
            panic!("nobody agreed to this")
        }
        fn inflate(&self, _: &[u8], _: usize) -> Result<Vec<u8>, punctual_rpc::compression::Corrupt> {
            panic!("nobody agreed to this")
        }
    }
    let other = || Compression::new().with(Other);
    let both = [(other(), Compression::new()), (Compression::new(), other()), (other(), Compression::new().with(Runs))];
    for (ours, theirs) in both {
        let site = Site::start_with(Kind::Unix, server(theirs)).await;
        let client = site.client_with(channel(ours)).await;
        let [even, _] = bodies(50_000);
        assert_eq!(client.echo(even.clone()).compress(true).await.unwrap(), even);
    }
}

/// A producer stands still at the window as it would without compression: the window counts what items were, not the few
/// bytes that they go as.
#[tokio::test]
async fn windows_count_the_bytes_before_compression() {
    for profile in profiles() {
        let ((ours, _), (theirs, _)) = (counted(&profile), counted(&profile));
        let (site, ledger) = Site::streaming(Kind::Unix, server(theirs)).await;
        let flows = site.flows_with(channel(ours)).await;
        let len = 100_000;
        let mut blobs = flows.blobs(1_000, len).await.unwrap();
        assert_eq!(blobs.next().await.unwrap().unwrap().len(), len);
        for _ in 0..50 {
            settle().await;
        }
        let produced = ledger.produced.load(Ordering::SeqCst);
        let window = u64::from(Limits::default().stream_window_bytes) / len as u64;
        assert!((window / 2..=window + 3).contains(&produced), "{produced} items of {len} bytes");
        drop(blobs);
        ledger.until(|ledger| ledger.gone.load(Ordering::SeqCst) == 1).await;
    }
}

/// A compressed request, as a peer may make one up.
fn request(call: CallId, plain: u32, body: &[u8]) -> Vec<u8> {
    let head = RequestHead {
        method: method_id("Probe/echo"),
        budget_micros: None,
        oneway: false,
        codec: Codec::Raw,
        metadata: &[],
        streams: CallStreams::NONE,
        total: None,
        plain: Some(plain),
        body,
    };
    let mut out = Vec::new();
    head.put(call, &mut out);
    out
}

/// Compressed requests with bytes that were changed, cut or added fail alone as invalid arguments, where they do not happen
/// to say something else; the connection lives, and so does the server.
#[tokio::test]
async fn corrupted_requests_fail_alone() {
    for profile in profiles() {
        let number = profile.profile();
        let site = Site::start_with(Kind::Tcp, server(counted(&profile).0)).await;
        let hello = Hello::new(Limits::default()).with_compression(vec![number]);
        let mut raw = Raw::connect_as(&site, hello).await;
        let plain: Vec<u8> = (0..4_000).map(|at| b"punctual "[at % 9 * usize::from(at > 3_000)]).collect();
        let whole = profile.compress(&plain).unwrap();
        let entropy = SeededEntropy::new(7);
        let mut refused = 0;
        for round in 0..500 {
            let mut bytes = whole.clone();
            let mut length = 4_000;
            match round % 4 {
                0 => bytes.truncate(usize::try_from(entropy.below(bytes.len() as u64)).unwrap()),
                1 => bytes.push(u8::try_from(entropy.below(256)).unwrap()),
                2 => length = u32::try_from(entropy.below(9_000) + 1).unwrap(),
                _ => {
                    let at = usize::try_from(entropy.below(bytes.len() as u64)).unwrap();
                    bytes[at] ^= u8::try_from(entropy.below(255) + 1).unwrap();
                }
            }
            raw.send(&request(CallId::pending(0, round + 1), length, &bytes)).await;
            let answer = raw.response().await;
            match answer.header.outcome() {
                Some(Outcome::Status) => {
                    assert_eq!(answer.status().code(), Code::InvalidArgument, "{}", answer.status());
                    refused += 1;
                }
                outcome => assert_eq!(outcome, Some(Outcome::Ok)),
            }
        }
        assert!(refused >= 250, "{number}: {refused} of 500");
        raw.send(&request(CallId::pending(0, 1_000), 4_000, &whole)).await;
        assert_eq!(raw.response().await.header.outcome(), Some(Outcome::Ok));
        assert_eq!((site.server.stats().violations, site.server.stats().panics), (0, 0));
    }
}

/// The same of replies: data loss for that call alone.
#[tokio::test]
async fn corrupted_replies_fail_alone() {
    for profile in profiles() {
        let welcome = welcome().with_compression(vec![profile.profile()]);
        let (client, mut wire) = connected_as(channel(counted(&profile).0), 1 << 20, welcome).await;
        let plain = vec![b'a'; 4_000];
        let whole = profile.compress(&plain).unwrap();
        let entropy = SeededEntropy::new(9);
        let mut lost = 0;
        for round in 0..300 {
            let mut call = client.echo(&b"?"[..]);
            assert!(poll_once(&mut call).await.is_pending());
            let frame = wire.call_frame().await;
            let mut bytes = whole.clone();
            match round % 3 {
                0 => bytes.truncate(usize::try_from(entropy.below(bytes.len() as u64)).unwrap()),
                1 => bytes.push(7),
                _ => {
                    let at = usize::try_from(entropy.below(bytes.len() as u64)).unwrap();
                    bytes[at] ^= 1 << entropy.below(8);
                }
            }
            let head = ResponseHead {
                outcome: Outcome::Ok,
                codec: Codec::Raw,
                metadata: &[],
                streamed: false,
                total: None,
                plain: Some(4_000),
                body: &bytes,
            };
            let mut out = Vec::new();
            head.put(frame.header.call, &mut out);
            wire.send(&out).await;
            match call.await {
                Ok(_) => {}
                Err(error) => {
                    assert_eq!(error.status().unwrap().code(), Code::DataLoss, "{error:?}");
                    lost += 1;
                }
            }
        }
        assert!(lost >= 150, "{lost} of 300");
        assert_eq!((client.channel.stats().violations, client.channel.stats().connections), (0, 1));
    }
}

/// A body that inflates to more than it says is refused at the first byte too many; one that says more than the limit is
/// refused by its frame, as it would be uncompressed.
#[tokio::test]
async fn bombs_are_refused_at_the_limit() {
    for profile in profiles() {
        let number = profile.profile();
        let site = Site::start_with(Kind::Tcp, server(counted(&profile).0)).await;
        let hello = || Hello::new(Limits::default()).with_compression(vec![number]);
        let limit = Limits::default().message_bytes_max;
        // As much as fits a frame.
        let mut zeros = 8 << 20;
        let bomb = loop {
            let bomb = profile.compress(&vec![0; zeros]).unwrap();
            if bomb.len() < 60_000 {
                break bomb;
            }
            zeros /= 2;
        };
        let mut raw = Raw::connect_as(&site, hello()).await;
        for said in [1, 1_000, u32::try_from(zeros - 1).unwrap().min(limit)] {
            raw.send(&request(CallId::pending(0, u64::from(said)), said, &bomb)).await;
            assert_eq!(raw.response().await.status().code(), Code::InvalidArgument, "{number} of {said}");
        }
        // At the limit it is a message like any other, of which the reply is one, too.
        let whole = profile.compress(&vec![0; limit as usize]).unwrap();
        if whole.len() < 60_000 {
            raw.send(&request(CallId::pending(0, u64::MAX >> 21), limit, &whole)).await;
            assert_eq!(raw.response().await.header.outcome(), Some(Outcome::Ok));
        }
        raw.send(&request(CallId::pending(0, 1), limit + 1, &bomb)).await;
        let last = loop {
            match raw.frame().await {
                Some(frame) if frame.kind() == FrameKind::GoAway => {
                    break String::from_utf8_lossy(&frame.payload).into_owned();
                }
                Some(_) => {}
                None => panic!("closed without a reason"),
            }
        };
        assert!(last.contains("uncompressed length"), "{last}");
    }
}

/// An item that cannot be inflated ends its stream with an error of that side's fault, and the call with it.
#[tokio::test]
async fn corrupted_items_end_their_stream() {
    #[derive(Debug)]
    struct Liar;
    impl Compress for Liar {
        fn profile(&self) -> punctual_rpc::compression::Profile {
            Runs.profile()
        }
        fn compress(&self, _: &[u8]) -> Option<Vec<u8>> {
            Some(vec![1, 2, 3])
        }
        fn inflate(
            &self,
            compressed: &[u8],
            plain_bytes: usize,
        ) -> Result<Vec<u8>, punctual_rpc::compression::Corrupt> {
            Runs.inflate(compressed, plain_bytes)
        }
    }
    let honest = || Compression::new().with(Runs);
    let liar = || Compression::new().with(Liar);
    let (site, _) = Site::streaming(Kind::Unix, server(honest())).await;
    let flows: FlowsClient = site.flows_with(channel(liar())).await;
    let error = flows.upload(Streaming::from_items([Bytes::from(vec![0; 2_000])])).await.unwrap_err();
    assert_eq!(error.status().unwrap().code(), Code::InvalidArgument);
    let (site, ledger) = Site::streaming(Kind::Unix, server(liar())).await;
    let flows = site.flows_with(channel(honest())).await;
    let mut blobs = flows.blobs(1_000, 2_000).await.unwrap();
    assert_eq!(blobs.next().await.unwrap().unwrap_err().code(), Code::DataLoss);
    assert!(blobs.next().await.is_none());
    ledger.until(|ledger| ledger.gone.load(Ordering::SeqCst) == 1).await;
    assert_eq!(flows.count(3).await.unwrap().collect().await, Ok(vec![0, 1, 2]), "the connection lives");
}

/// Settings that no handshake could say are refused where they are made.
#[tokio::test]
async fn senseless_profiles_are_refused() {
    let twice = Compression::new().with(Runs).with(Runs);
    let refused = punctual_rpc::Channel::builder("inproc:nowhere").config(channel(twice.clone())).lazy().unwrap_err();
    assert_eq!(refused.message(), "profile 200 is there twice among the compression profiles; drop one");
    let refused = punctual_rpc::Server::builder().config(server(twice)).listen("inproc:x").bind().await.unwrap_err();
    assert!(refused.to_string().contains("twice"));
}
