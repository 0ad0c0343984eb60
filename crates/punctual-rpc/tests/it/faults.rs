//! Links that stand still, lose bytes, are slow, or are cut at a byte: each call ends once, by the right cause, and what was cut
//! is an error, never a clean end.

use crate::support::Site;
use crate::support::clock::{Stopwatch, channel_under, server_under, tokio_clock};
use crate::support::faulty::FaultyDial;
use crate::support::probe::ProbeClient;
use crate::support::site::Kind;
use crate::support::streams::FlowsClient;
use bytes::Bytes;
use punctual_rpc::{CallError, ChannelBuilder, ChannelConfig, Code, Limits, ServerConfig, Status, Streaming};
use punctual_testkit::{Faults, Way};
use std::time::Duration;

const WAYS: [Way; 2] = [Way::Out, Way::In];

/// A channel to the site whose links obey the faults.
fn under(site: &Site, faults: &Faults, config: ChannelConfig) -> ProbeClient {
    let dial = FaultyDial::new(&site.address, faults.clone());
    ProbeClient::new(ChannelBuilder::dial(dial).config(config).lazy().unwrap())
}

/// A black hole is left within the time that the defaults give a silent peer, and once the network is back the first call
/// goes through.
#[tokio::test(start_paused = true)]
async fn a_black_hole_is_left_and_the_first_call_behind_it_works() {
    let site = Site::start_with(Kind::Unix, server_under(tokio_clock())).await;
    let faults = Faults::default();
    let client = under(&site, &faults, channel_under(tokio_clock()));
    assert_eq!(client.add(1, 2).await, Ok(3));
    let before = Stopwatch::start();
    WAYS.into_iter().for_each(|way| faults.lose(way));
    let error = client.add(1, 2).timeout(Duration::from_secs(600)).await.unwrap_err();
    assert_eq!(error.status().unwrap().code(), Code::HeartbeatLost);
    assert!(before.elapsed() <= Duration::from_secs(21), "{:?}", before.elapsed());
    faults.heal();
    assert_eq!(client.add(3, 4).await, Ok(7));
    // The server leaves its end of the old link by its own clock.
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(site.server.stats().open_connections, 1);
}

/// A link that stands still for less than the time of a silent peer loses nothing, in whichever direction.
#[tokio::test(start_paused = true)]
async fn a_pause_loses_nothing() {
    for way in WAYS {
        let site = Site::start_with(Kind::Unix, server_under(tokio_clock())).await;
        let faults = Faults::default();
        let client = under(&site, &faults, channel_under(tokio_clock()));
        assert_eq!(client.add(1, 2).await, Ok(3));
        faults.pause(way);
        let calls: Vec<_> = (0..100).map(|at| tokio::spawn(client.add(at, at).into_future())).collect();
        tokio::time::sleep(Duration::from_secs(9)).await;
        assert!(calls.iter().all(|call| !call.is_finished()));
        faults.heal();
        for (at, call) in (0..).zip(calls) {
            assert_eq!(call.await.unwrap(), Ok(2 * at));
        }
        assert_eq!(client.channel.stats().connections, 1);
    }
}

/// On a slow link a call takes its time and ends at its deadline, and the connection lives.
#[tokio::test(start_paused = true)]
async fn a_slow_link_only_delays() {
    let site = Site::start_with(Kind::Unix, server_under(tokio_clock())).await;
    let faults = Faults::default();
    let client = under(&site, &faults, channel_under(tokio_clock()));
    assert_eq!(client.add(1, 2).await, Ok(3));
    faults.delay(Duration::from_secs(1));
    let before = Stopwatch::start();
    assert_eq!(client.add(1, 2).await, Ok(3));
    assert!(before.elapsed() >= Duration::from_secs(1), "{:?}", before.elapsed());
    let error = client.add(1, 2).timeout(Duration::from_millis(500)).await.unwrap_err();
    assert_eq!(error.status().unwrap().code(), Code::DeadlineExceeded);
    faults.heal();
    assert_eq!(client.add(1, 2).await, Ok(3));
    assert_eq!(client.channel.stats().connections, 1);
}

/// Bytes that are lost from the middle of a link never become a wrong result: the calls behind them fail, the connection is
/// left, and the next one works.
#[tokio::test(start_paused = true)]
async fn lost_bytes_are_noticed() {
    for way in WAYS {
        let site = Site::start_with(Kind::Unix, server_under(tokio_clock())).await;
        let faults = Faults::default();
        let client = under(&site, &faults, channel_under(tokio_clock()));
        assert_eq!(client.echo(vec![1; 100]).await, Ok(Bytes::from(vec![1; 100])));
        let big = client.echo(vec![2; 200_000]).timeout(Duration::from_secs(120)).into_future();
        faults.pause(way);
        let big = tokio::spawn(big);
        tokio::time::sleep(Duration::from_secs(1)).await;
        faults.heal();
        faults.chop(1_000, 3);
        tokio::task::yield_now().await;
        faults.lose(way);
        tokio::time::sleep(Duration::from_millis(1)).await;
        faults.heal();
        match big.await.unwrap() {
            // All of it had passed.
            Ok(echo) => assert_eq!(echo, Bytes::from(vec![2; 200_000])),
            Err(error) => {
                let code = error.status().unwrap().code();
                assert!(
                    matches!(code, Code::HeartbeatLost | Code::ConnectionClosed | Code::ProtocolViolation),
                    "{error:?}"
                );
            }
        }
        assert_eq!(client.add(1, 2).wait_for_ready().await, Ok(3));
    }
}

/// What one call of a shape came to: everything, or the error that ended it behind a part.
#[derive(Debug, PartialEq)]
enum End {
    Whole,
    Cut(Code),
}

const ITEMS: u64 = 9;

async fn whole(shape: usize, client: &FlowsClient) -> End {
    let probe = ProbeClient::new(client.channel.clone());
    let code = |status: Status| End::Cut(status.code());
    let app = |error: CallError<Status>| match error {
        CallError::App(status) | CallError::Status(status) => status,
    };
    match shape {
        0 => match probe.add(1, 2).await {
            Ok(sum) => {
                assert_eq!(sum, 3);
                End::Whole
            }
            Err(error) => code(error.status().unwrap().clone()),
        },
        1 => match client.sum(Streaming::from_items(0..ITEMS)).await {
            Ok(sum) => {
                assert_eq!(sum, ITEMS * (ITEMS - 1) / 2, "a part of the stream was taken for all of it");
                End::Whole
            }
            // The handler saw the cut, where the client's end of the link saw it later.
            Err(CallError::App(_)) => End::Cut(Code::ConnectionClosed),
            Err(CallError::Status(status)) => code(status),
        },
        2 => {
            let mut numbers = match client.count(ITEMS).await {
                Ok(numbers) => numbers,
                Err(error) => return code(error.status().unwrap().clone()),
            };
            let mut next = 0;
            loop {
                match numbers.next().await {
                    Some(Ok(number)) => {
                        assert_eq!(number, next);
                        next += 1;
                    }
                    // The contract's error holds the status as its text.
                    Some(Err(_)) => return End::Cut(Code::ConnectionClosed),
                    None => {
                        assert_eq!(next, ITEMS, "a stream that was cut has ended cleanly");
                        return End::Whole;
                    }
                }
            }
        }
        _ => {
            let lines: Vec<_> = (0..ITEMS).map(|at| format!("line {at}")).collect();
            let mut upper = match client.chat(Streaming::from_items(lines)).await {
                Ok(upper) => upper,
                Err(error) => return code(app(error)),
            };
            let mut next = 0;
            loop {
                match upper.next().await {
                    Some(Ok(line)) => {
                        assert_eq!(line, format!("LINE {next}"));
                        next += 1;
                    }
                    Some(Err(status)) => return code(status),
                    None => {
                        assert_eq!(next, ITEMS, "a stream that was cut has ended cleanly");
                        return End::Whole;
                    }
                }
            }
        }
    }
}

/// A link that is cut at any byte, in either direction, from the handshake on: the call has its whole result or an error that
/// says so, and neither side keeps anything of it.
#[tokio::test]
async fn a_cut_at_any_byte_is_an_error_and_never_a_clean_end() {
    let (site, _) = Site::streaming(Kind::Unix, ServerConfig::default()).await;
    for shape in 0..4 {
        let healthy = Faults::default();
        let client = FlowsClient { channel: under(&site, &healthy, ChannelConfig::default()).channel };
        assert_eq!(whole(shape, &client).await, End::Whole);
        client.channel.close().await;
        for way in WAYS {
            let mut cut = 0;
            for at in 0..=healthy.passed(way) {
                let faults = Faults::default();
                faults.cut_after(way, at);
                let client = FlowsClient { channel: under(&site, &faults, ChannelConfig::default()).channel };
                match whole(shape, &client).await {
                    End::Whole => {}
                    End::Cut(code) => {
                        let expected = matches!(code, Code::Unavailable | Code::ConnectionClosed | Code::Cancelled);
                        assert!(expected, "shape {shape}, {way:?}, byte {at}: {code:?}");
                        cut += 1;
                    }
                }
                let stats = client.channel.stats();
                assert_eq!((stats.pending, stats.streams), (0, 0), "shape {shape}, {way:?}, byte {at}");
            }
            assert!(cut > 0, "shape {shape}, {way:?}");
        }
    }
    // What the handlers of cut calls hold goes when they notice.
    while site.server.stats().running > 0 || site.server.stats().open_connections > 0 {
        tokio::task::yield_now().await;
    }
    let stats = site.server.stats();
    assert_eq!((stats.streams, stats.unconsumed_bytes, stats.uncredited_bytes), (0, 0, 0));
    assert_eq!((stats.violations, stats.panics), (0, 0));
}

/// However a deadline falls into streams of either direction while their link stands still, drips or is cut, what they had under
/// way is given back to the connection, and nothing of a connection that is closed is counted any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadlines_of_streams_restore_all_credit() {
    let mut limits = Limits::default();
    (limits.message_bytes_max, limits.connection_window_bytes) = (64 << 10, 128 << 10);
    let mut server = ServerConfig::default();
    (server.limits.message_bytes_max, server.limits.connection_window_bytes) = (64 << 10, 128 << 10);
    let (site, _) = Site::streaming(Kind::Unix, server).await;
    let mut config = ChannelConfig::default();
    config.limits = limits;
    (config.backoff_first, config.backoff_max) = (Duration::from_millis(1), Duration::from_millis(2));
    let faults = Faults::default();
    let dial = FaultyDial::new(&site.address, faults.clone());
    let client = FlowsClient { channel: ChannelBuilder::dial(dial).config(config).lazy().unwrap() };
    let sky = faults.clone();
    let weather = tokio::spawn(async move {
        let faults = sky;
        // The link stands still now and then, or is cut, so that deadlines fall where nothing moves.
        for turn in 0_u64.. {
            tokio::time::sleep(Duration::from_millis(20)).await;
            match turn % 5 {
                0 => faults.pause(Way::Out),
                1 => faults.pause(Way::In),
                2 => faults.chop(700, turn),
                3 if turn % 3 == 0 => faults.cut_after(Way::In, turn * 17 % 5_000),
                3 => faults.delay(Duration::from_micros(300)),
                _ => {}
            }
            tokio::time::sleep(Duration::from_millis(turn % 17)).await;
            faults.heal();
        }
    });
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..8_u64 {
        let client = client.clone();
        tasks.spawn(async move {
            for at in 0..1_000_u64 {
                let timeout = Duration::from_micros((at * 37 + worker * 11) % 4_000);
                match at % 3 {
                    0 => {
                        if let Ok(mut blobs) = client.blobs(20, 5_000).timeout(timeout).wait_for_ready().await {
                            while let Some(Ok(blob)) = blobs.next().await {
                                assert_eq!(blob.len(), 5_000);
                            }
                        }
                    }
                    1 => {
                        let parts = (0..20).map(|_| Bytes::from(vec![1; 5_000]));
                        let _ = client.upload(Streaming::from_items(parts)).timeout(timeout).wait_for_ready().await;
                    }
                    _ => {
                        let lines = (0..20).map(|_| "x".repeat(5_000));
                        if let Ok(lines) =
                            client.chat(Streaming::from_items(lines)).timeout(timeout).wait_for_ready().await
                        {
                            let _ = lines.collect().await;
                        }
                    }
                }
            }
        });
    }
    while let Some(result) = tasks.join_next().await {
        result.unwrap();
    }
    weather.abort();
    // It may have ended while the link stood still.
    assert!(weather.await.is_err());
    faults.heal();
    loop {
        let stats = site.server.stats();
        if (stats.running, stats.streams) == (0, 0) {
            break;
        }
        tokio::task::yield_now().await;
    }
    // Whatever was lost of the windows is missing now: streams of several windows pass, and what is not given back is less than
    // what is gathered before it is.
    let mut blobs = client.blobs(200, 5_000).wait_for_ready().await.unwrap();
    while let Some(blob) = blobs.next().await {
        assert_eq!(blob.unwrap().len(), 5_000);
    }
    let parts = (0..200).map(|_| Bytes::from(vec![1; 5_000]));
    assert_eq!(client.upload(Streaming::from_items(parts)).await, Ok(1_000_000));
    let (ours, theirs) = (client.channel.stats(), site.server.stats());
    assert_eq!((ours.unconsumed_bytes, theirs.unconsumed_bytes), (0, 0));
    assert!(ours.uncredited_bytes < 64 << 10 && theirs.uncredited_bytes < 64 << 10, "{ours:?} {theirs:?}");
}
