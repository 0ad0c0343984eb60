//! Observers are told of every call's start and end, on both sides.

use super::desk::desk;
use punctual::rpc::{CallEnd, CallOutcome, Observe, ObservedCall, Side, Telemetry};
use punctual::{Code, Streaming};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

type Told = (Side, String, Option<CallOutcome>);

/// Keeps what it is told.
#[derive(Debug, Default)]
struct Recorder {
    told: Mutex<Vec<Told>>,
    changed: tokio::sync::Notify,
}

impl Recorder {
    fn tell(&self, call: &ObservedCall, outcome: Option<CallOutcome>) {
        let told = (call.side, call.method.name.to_owned(), outcome);
        self.told.lock().unwrap_or_else(PoisonError::into_inner).push(told);
        self.changed.notify_one();
    }

    fn told(&self, side: Side) -> Vec<(String, Option<CallOutcome>)> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.iter().filter(|(of, ..)| *of == side).map(|(_, name, outcome)| (name.clone(), *outcome)).collect()
    }

    /// Waits until both sides were told so often.
    async fn told_in_all(&self, count: usize) {
        loop {
            let changed = self.changed.notified();
            if self.told.lock().unwrap_or_else(PoisonError::into_inner).len() >= count {
                return;
            }
            changed.await;
        }
    }
}

impl Observe for Recorder {
    fn started(&self, call: &ObservedCall) {
        self.tell(call, None);
    }

    fn ended(&self, call: &ObservedCall, end: &CallEnd) {
        self.tell(call, Some(end.outcome));
    }
}

/// Every shape and every end: what began has one end, and both sides agree on it where both can know it.
#[tokio::test]
async fn every_end_is_told() {
    let recorder = Arc::new(Recorder::default());
    let telemetry = Telemetry::new().observer(recorder.clone());
    let (client, server) =
        desk(|server| server.telemetry(telemetry.clone()), |channel| channel.telemetry(telemetry.clone())).await;
    let text = || "text".to_owned();

    assert!(client.echo(text()).await.is_ok());
    assert!(client.refuse(text()).await.is_err());
    assert!(client.fail(text()).await.is_err());
    assert!(client.panic(text()).await.is_err());
    assert!(client.note(7).await.is_ok());
    recorder.told_in_all(20).await;
    assert_eq!(client.join(Streaming::from_items([text(), text()])).await.unwrap(), "texttext");
    assert!(client.lines(text(), false).await.unwrap().collect().await.is_ok());
    assert!(client.lines(text(), true).await.unwrap().collect().await.is_err());
    recorder.told_in_all(32).await;
    // Dropped by the caller: nobody sees its end.
    let stuck = client.stuck().timeout(Duration::from_secs(600));
    tokio::select! { biased; _ = stuck => panic!("it never ends"), () = recorder.told_in_all(34) => {} }
    recorder.told_in_all(36).await;
    // One that is never polled never began.
    drop(client.echo(text()));

    let ok = CallOutcome::Ok;
    let ends = |told: Vec<(String, Option<CallOutcome>)>| -> Vec<(String, CallOutcome)> {
        told.into_iter().filter_map(|(name, outcome)| Some((name, outcome?))).collect()
    };
    let expected = [
        ("echo", ok),
        ("refuse", CallOutcome::Application),
        ("fail", CallOutcome::Status(Code::Internal)),
        ("panic", CallOutcome::Status(Code::Internal)),
        ("note", ok),
        ("join", ok),
        ("lines", ok),
        ("lines", CallOutcome::Application),
        ("stuck", CallOutcome::Abandoned),
    ]
    .map(|(name, outcome)| (name.to_owned(), outcome));
    assert_eq!(ends(recorder.told(Side::Client)), expected);
    assert_eq!(ends(recorder.told(Side::Server)), expected);
    for side in [Side::Client, Side::Server] {
        let told = recorder.told(side);
        let started = told.iter().filter(|(_, outcome)| outcome.is_none()).count();
        assert_eq!((started, told.len()), (expected.len(), 2 * expected.len()), "{side:?}");
    }
    server.shutdown(Duration::from_secs(5)).await;
}

/// Calls that never reach a handler end, too: refused arguments on the server, and an unreachable server on the client.
#[tokio::test]
async fn refusals_are_told() {
    let recorder = Arc::new(Recorder::default());
    let telemetry = Telemetry::new().observer(recorder.clone());
    let (client, server) = desk(|server| server.telemetry(telemetry.clone()), |channel| channel).await;
    let json = punctual::Bytes::from_static(br#"{"number": "no number"}"#);
    let options = punctual::CallOptions::new();
    assert!(client.channel().call_json("Desk/number", json, options).await.is_err());
    let invalid = Some(CallOutcome::Status(Code::InvalidArgument));
    assert_eq!(recorder.told(Side::Server), [("number".to_owned(), None), ("number".to_owned(), invalid)]);
    server.shutdown(Duration::from_secs(5)).await;

    let telemetry = Telemetry::new().observer(recorder.clone());
    let channel = punctual::Channel::builder("inproc:nobody-is-here").telemetry(telemetry).lazy().unwrap();
    assert!(super::desk::DeskClient::new(channel).echo("x".to_owned()).await.is_err());
    let unavailable = Some(CallOutcome::Status(Code::Unavailable));
    assert_eq!(recorder.told(Side::Client), [("echo".to_owned(), None), ("echo".to_owned(), unavailable)]);
}

/// Panics at everything that it is told.
#[derive(Debug)]
struct Clumsy;

impl Observe for Clumsy {
    fn started(&self, _: &ObservedCall) {
        std::panic::resume_unwind(Box::new("started"))
    }

    fn ended(&self, _: &ObservedCall, _: &CallEnd) {
        std::panic::resume_unwind(Box::new("ended"))
    }
}

/// An observer that panics spoils neither the call nor what others are told.
#[tokio::test]
async fn a_panic_of_an_observer_is_its_own() {
    let recorder = Arc::new(Recorder::default());
    let telemetry = Telemetry::new().observer(Arc::new(Clumsy)).observer(recorder.clone());
    let (client, server) =
        desk(|server| server.telemetry(telemetry.clone()), |channel| channel.telemetry(telemetry.clone())).await;
    for _ in 0..3 {
        assert_eq!(client.echo("x".to_owned()).await.unwrap(), "x");
    }
    assert_eq!((recorder.told(Side::Client).len(), recorder.told(Side::Server).len()), (6, 6));
    assert_eq!(server.stats().panics, 0);
    server.shutdown(Duration::from_secs(5)).await;
}
