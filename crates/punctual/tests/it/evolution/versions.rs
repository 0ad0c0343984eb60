//! Every edit of [`ledger`](super::ledger), seen from both sides.

use super::channel_to;
use super::ledger::{Ready, new, old};
use super::tap::Tap;
use punctual::contract::{ServiceDescription, Verdict, diff};
use punctual::rpc::Service;
use punctual::{Bytes, CallError, Channel, Code, Server, Status, Streaming};
use std::time::Duration;

fn old_entry(id: u64) -> old::Entry {
    old::Entry { id, note: "tea".to_owned(), legacy: 3 }
}

fn article(id: u64) -> new::Article {
    new::Article { colour: Some("blue".to_owned()), id, note: "tea".to_owned(), weight: 5 }
}

/// The code of a call that failed without an error of the application's.
#[track_caller]
fn code<T: std::fmt::Debug, E: std::fmt::Debug>(result: Result<T, CallError<E>>) -> Code {
    let error = result.expect_err("it fails");
    error.status().map(Status::code).unwrap_or_else(|| panic!("not a status: {error:?}"))
}

/// Fields, variants and errors that were added, and those that were removed, in the calls of a client that knows neither.
#[tokio::test]
async fn an_old_client_of_a_new_server() {
    let (channel, server) = channel_to(new::LedgerServer::new(new::Book)).await;
    let client = old::LedgerClient::new(channel);
    // What it does not know it ignores; what the server does not send takes its default.
    assert_eq!(client.book(old_entry(7)).await, Ok(old::Entry { legacy: 0, ..old_entry(7) }));
    assert_eq!(client.book(old_entry(0)).await, Err(CallError::App(old::LedgerError::Unknown(0))));
    // An error that it does not know costs that call alone, and so does a variant.
    assert_eq!(code(client.book(old_entry(1)).await), Code::DataLoss);
    assert_eq!(client.state(0).await, Ok(old::State::Open));
    assert_eq!(client.state(5).await, Ok(old::State::Closed { at: 5 }));
    assert_eq!(code(client.state(1).await), Code::DataLoss);
    // What is gone is not implemented, and says its name.
    let gone = client.gone().await;
    assert!(gone.as_ref().unwrap_err().status().unwrap().message().contains("test.Ledger/gone"), "{gone:?}");
    assert_eq!(code(gone), Code::Unimplemented);
    assert_eq!(code(client.retyped(7).await), Code::InvalidArgument);
    assert_eq!(code(client.reshaped().await), Code::InvalidArgument);
    // It expects a status, and gets another error.
    assert_eq!(code(client.failing().await), Code::DataLoss);
    // Raw bytes have no names.
    assert_eq!(code(client.store(Bytes::from_static(b"data")).await), Code::InvalidArgument);
    // A one-way method answers who waits for nothing.
    assert_eq!(client.heard().await, Ok(()));
    // After all that the connection is as good as new.
    assert_eq!(client.state(0).await, Ok(old::State::Open));
    server.shutdown(Duration::from_secs(5)).await;
}

/// The same edits, met by a client that is ahead of its server.
#[tokio::test]
async fn a_new_client_of_an_old_server() {
    let (channel, server) = channel_to(old::LedgerServer::new(old::Book)).await;
    let client = new::LedgerClient::new(channel);
    let kept = new::Article { colour: None, weight: 1, ..article(7) };
    assert_eq!(client.book(article(7)).await, Ok(kept));
    assert_eq!(client.book(article(0)).await, Err(CallError::App(new::LedgerError::Unknown(0))));
    assert_eq!(client.state(0).await, Ok(new::State::Open));
    assert_eq!(client.state(5).await, Ok(new::State::Closed { at: 5 }));
    assert_eq!(code(client.fresh().await), Code::Unimplemented);
    assert_eq!(code(client.retyped("7".to_owned()).await), Code::InvalidArgument);
    assert_eq!(code(client.reshaped().await), Code::InvalidArgument);
    // A status is always read as one.
    assert_eq!(code(client.failing().await), Code::FailedPrecondition);
    // The name is ignored, the bytes are found.
    assert_eq!(client.store(Bytes::from_static(b"data"), "a name".to_owned()).await, Ok(4));
    assert_eq!(client.state(0).await, Ok(new::State::Open));
    server.shutdown(Duration::from_secs(5)).await;
}

/// The items of streams follow the same rules in both directions, and so do the errors that end them.
#[tokio::test]
async fn streams_of_both_versions() {
    let (channel, server) = channel_to(new::LedgerServer::new(new::Book)).await;
    let client = old::LedgerClient::new(channel);
    let mut lines = client.lines(5).await.unwrap();
    assert_eq!(lines.next().await, Some(Ok(old::Line { number: 5 })));
    assert_eq!(lines.next().await, Some(Err(old::LedgerError::Unknown(3))));
    let mut lines = client.lines(0).await.unwrap();
    assert_eq!(lines.next().await, Some(Ok(old::Line { number: 0 })));
    let Some(Err(old::LedgerError::Call(status))) = lines.next().await else { panic!("it ends with an error") };
    assert_eq!(status.code(), Code::DataLoss, "an error that it does not know is an error all the same");
    let three = || Streaming::from_items((1..=3).map(|number| old::Line { number }));
    assert_eq!(client.sum(three()).await, Ok(6));
    let mut echoed = client.echo(three()).await.unwrap();
    for number in 1..=3 {
        assert_eq!(echoed.next().await, Some(Ok(old::Line { number })));
    }
    assert_eq!(echoed.next().await, None);
    server.shutdown(Duration::from_secs(5)).await;

    let (channel, server) = channel_to(old::LedgerServer::new(old::Book)).await;
    let client = new::LedgerClient::new(channel);
    let mut lines = client.lines(5).await.unwrap();
    assert_eq!(lines.next().await, Some(Ok(new::Line { label: String::new(), number: 5 })));
    assert_eq!(lines.next().await, Some(Err(new::LedgerError::Unknown(3))));
    let labelled = |number| Ok(new::Line { label: "label".to_owned(), number });
    let two = || Streaming::new(Ready(vec![labelled(1), labelled(2)].into_iter()));
    assert_eq!(client.sum(two()).await, Ok(3), "what the old server does not know does not count");
    let mut echoed = client.echo(two()).await.unwrap();
    assert_eq!(echoed.next().await, Some(Ok(new::Line { label: String::new(), number: 1 })));
    drop(echoed);
    server.shutdown(Duration::from_secs(5)).await;
}

/// Between equal contracts no name of a field is on the wire; between different ones they are.
#[tokio::test]
async fn equal_contracts_are_spoken_without_names() {
    async fn tapped(service: impl Service) -> (Channel, Tap, punctual::ServerHandle) {
        let server = Server::builder().service(service).listen("tcp://127.0.0.1:0").bind().await.unwrap().spawn();
        let (address, tap) = Tap::before(&server.local_addrs()[0]).await;
        (Channel::connect(&address).await.unwrap(), tap, server)
    }
    let (channel, tap, server) = tapped(old::LedgerServer::new(old::Book)).await;
    let client = old::LedgerClient::new(channel);
    assert_eq!(client.book(old_entry(7)).await, Ok(old_entry(7)));
    let mut lines = client.lines(5).await.unwrap();
    assert_eq!(lines.next().await, Some(Ok(old::Line { number: 5 })));
    assert!(tap.saw("tea"), "the tap sees what passes");
    assert!(!tap.saw("note") && !tap.saw("legacy") && !tap.saw("number"), "the compact codec has no names");
    server.shutdown(Duration::from_secs(5)).await;

    let (channel, tap, server) = tapped(new::LedgerServer::new(new::Book)).await;
    let client = old::LedgerClient::new(channel);
    assert_eq!(client.book(old_entry(7)).await, Ok(old::Entry { legacy: 0, ..old_entry(7) }));
    let mut lines = client.lines(5).await.unwrap();
    assert_eq!(lines.next().await, Some(Ok(old::Line { number: 5 })));
    for name in ["legacy", "colour", "weight", "label"] {
        assert!(tap.saw(name), "{name} is not on the wire");
    }
    server.shutdown(Duration::from_secs(5)).await;
}

/// What the comparison of the two contracts says is what the calls of this module meet.
#[test]
fn the_comparison_names_what_breaks() {
    let changes = diff(
        &[ServiceDescription::from(&old::ledger::DESCRIPTOR)],
        &[ServiceDescription::from(&new::ledger::DESCRIPTOR)],
    );
    let told: Vec<String> = changes
        .iter()
        .filter(|change| change.verdict == Verdict::Breaks)
        .map(|change| format!("{} {}", change.subject.trim_start_matches("test.Ledger/"), change.place))
        .collect();
    let expected = [
        "book error.Full",
        "state result.Held",
        "gone ",
        "retyped args.id",
        "retyped result",
        "reshaped ",
        "failing error",
        "store args",
        "lines result[] error.Full",
    ];
    assert_eq!(told, expected);
    let rest: Vec<&str> =
        changes.iter().filter(|change| change.verdict == Verdict::ServersFirst).map(|c| c.subject.as_str()).collect();
    assert_eq!(rest, ["test.Ledger/heard", "test.Ledger/fresh"]);
}

/// Arguments that the old version stored are read by the new one, and its results by who waits for them.
#[cfg(feature = "sqlite")]
#[tokio::test]
async fn stored_tasks_are_run_by_the_new_version() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", directory.path().join("tasks.db").display());
    // This engine stores, and runs nothing.
    let storing = punctual::open(&url).await.unwrap().start().await.unwrap();
    let done = storing.enqueue(old::ledger::Book { entry: old_entry(7) }).await.unwrap();
    let failed = storing.enqueue(old::ledger::Book { entry: old_entry(0) }).await.unwrap();
    assert!(storing.shutdown(Duration::from_secs(5)).await.is_clean());

    let engine = punctual::open(&url).await.unwrap();
    let engine = engine.serve(new::LedgerServer::new(new::Book)).start().await.unwrap();
    // The old version's handles read what the new version answers.
    let end = engine.wait(&done).await.unwrap();
    assert_eq!(end.succeeded(), Some(old::Entry { legacy: 0, ..old_entry(7) }));
    let end = engine.wait(&failed).await.unwrap().failed().unwrap();
    assert_eq!(end.error, Some(old::LedgerError::Unknown(0)));
    assert!(engine.shutdown(Duration::from_secs(5)).await.is_clean());

    // And the other way round: the new version stores what the old one runs.
    let storing = punctual::open(&url).await.unwrap().start().await.unwrap();
    let done = storing.enqueue(new::ledger::Book { entry: article(7) }).await.unwrap();
    assert!(storing.shutdown(Duration::from_secs(5)).await.is_clean());
    let engine = punctual::open(&url).await.unwrap();
    let engine = engine.serve(old::LedgerServer::new(old::Book)).start().await.unwrap();
    let end = engine.wait(&done).await.unwrap();
    assert_eq!(end.succeeded(), Some(new::Article { colour: None, weight: 1, ..article(7) }));
    assert!(engine.shutdown(Duration::from_secs(5)).await.is_clean());
}
