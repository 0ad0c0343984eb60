//! Races, over and over on several threads: response against cancel against deadline, close against the gate.

use crate::support::Site;
use crate::support::probe::{Probe, ProbeClient};
use crate::support::site::Kind;
use punctual_rpc::{CallError, Channel, Code, Server};
use std::time::Duration;

const ROUNDS: i32 = 20_000;

/// However reply, deadline and drop fall, each call has one end, its own reply or none, and nothing is left over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn response_cancel_and_deadline() {
    let site = Site::start(Kind::Unix).await;
    let client = site.client().await;
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..8 {
        let client = client.clone();
        tasks.spawn(async move {
            let mut ends = [0u32; 3];
            for at in 0..ROUNDS / 8 {
                // From nothing to more than a round trip, so that each may win.
                let timeout = Duration::from_micros(u64::try_from(at % 400).unwrap());
                let call = client.add(worker, at).timeout(timeout);
                if at % 3 == 0 {
                    match tokio::time::timeout(timeout / 2, call).await {
                        Ok(Ok(sum)) => {
                            assert_eq!(sum, worker + at);
                            ends[0] += 1;
                        }
                        Ok(Err(_)) => ends[1] += 1,
                        Err(_) => ends[2] += 1,
                    }
                    continue;
                }
                match call.await {
                    Ok(sum) => {
                        assert_eq!(sum, worker + at);
                        ends[0] += 1;
                    }
                    Err(CallError::Status(status)) => {
                        assert_eq!(status.code(), Code::DeadlineExceeded);
                        ends[1] += 1;
                    }
                    Err(CallError::App(error)) => panic!("{error:?}"),
                }
            }
            ends
        });
    }
    while let Some(ends) = tasks.join_next().await {
        ends.unwrap();
    }
    assert_eq!(client.add(1, 2).await, Ok(3));
    assert_eq!(client.channel.stats().pending, 0);
    while site.server.stats().running > 0 {
        tokio::task::yield_now().await;
    }
}

/// Calls that race the end of their connection end themselves: with a value, or with a status that fits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn close_against_the_gate() {
    for round in 0..200 {
        let name = format!("inproc:race-{round}");
        let server = Server::builder().service(Probe::default()).listen(&name).bind().await.unwrap().spawn();
        let client = ProbeClient::new(Channel::connect(&name).await.unwrap());
        let mut tasks = tokio::task::JoinSet::new();
        for worker in 0..4 {
            let client = client.clone();
            tasks.spawn(async move {
                for at in 0..50 {
                    match client.add(worker, at).await {
                        Ok(sum) => assert_eq!(sum, worker + at),
                        Err(CallError::Status(status)) => assert!(
                            matches!(status.code(), Code::Unavailable | Code::ConnectionClosed | Code::Cancelled),
                            "{status:?}"
                        ),
                        Err(CallError::App(error)) => panic!("{error:?}"),
                    }
                }
            });
        }
        if round % 2 == 0 {
            server.shutdown(Duration::from_secs(5)).await;
        } else {
            client.channel.clone().close().await;
        }
        while let Some(result) = tasks.join_next().await {
            result.unwrap();
        }
        assert_eq!(client.channel.stats().pending, 0);
        server.shutdown(Duration::from_secs(5)).await;
    }
}
