//! Calls by name, in JSON, take the way of all calls: interceptors, policies, breakers and whoever looks on.

use crate::support::Site;
use crate::support::site::Kind;
use bytes::Bytes;
use punctual_rpc::client::{BreakerPolicy, ClientInterceptor, Failure, Incoming, JsonItems, JsonReply, Next, Outgoing};
use punctual_rpc::telemetry::{CallEnd, Observe, ObservedCall, Telemetry};
use punctual_rpc::transport::BoxFuture;
use punctual_rpc::{CallError, CallOptions, Channel, ChannelConfig, Code, RetryPolicy, ServerConfig, Status};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

/// What was seen, a line each.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Notes the calls that pass, with their requests, and answers one of them itself.
#[derive(Debug)]
struct Noting(Log);

impl ClientInterceptor for Noting {
    fn intercept(&self, mut call: Outgoing, next: Next) -> BoxFuture<'_, Result<Incoming, Failure>> {
        Box::pin(async move {
            let request = String::from_utf8(call.request::<Bytes>().unwrap().to_vec()).unwrap();
            self.0.add(format!("{} {request}", call.method().full_name));
            if request.contains("99") {
                return Ok(Incoming::new(Bytes::from_static(b"\"answered here\"")));
            }
            if let Some(request) = call.request_mut::<Bytes>()
                && request.as_ref() == br#"{"a":1,"b":1}"#
            {
                *request = Bytes::from_static(br#"{"a":20,"b":22}"#);
            }
            next.run(call).await
        })
    }
}

impl Observe for Log {
    fn ended(&self, call: &ObservedCall, end: &CallEnd) {
        self.add(format!("{} {}", call.method.full_name, end.outcome));
    }
}

fn items(texts: &[&'static str]) -> JsonItems {
    let mut texts: Vec<_> = texts.iter().rev().copied().collect();
    Box::pin(Ready(move || texts.pop().map(|text| Ok(Bytes::from_static(text.as_bytes())))))
}

/// A stream that is ready at once.
struct Ready<F>(F);

impl<T, F: FnMut() -> Option<T> + Unpin> futures_core::Stream for Ready<F> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<T>> {
        Poll::Ready((self.0)())
    }
}

async fn call(channel: &Channel, name: &str, args: &'static str) -> Result<String, CallError<Bytes>> {
    let reply = channel.call_json(name, args.into(), CallOptions::new()).await?;
    Ok(String::from_utf8(reply.to_vec()).unwrap())
}

/// Calls of every shape pass the interceptors, which read and change the JSON and may answer a call themselves.
#[tokio::test]
async fn interceptors_see_calls_by_name() {
    let (site, ledger) = Site::streaming(Kind::Inproc, ServerConfig::default()).await;
    let log = Log::default();
    let mut config = ChannelConfig::default();
    config.interceptors.push(Arc::new(Noting(log.clone())));
    let channel = site.client_with(config).await.channel;
    assert_eq!(call(&channel, "Probe/add", r#"{"a":1,"b":1}"#).await.unwrap(), "42");
    assert_eq!(call(&channel, "Probe/add", r#"{"a":99,"b":1}"#).await.unwrap(), "\"answered here\"");
    channel.send_json("Probe/note", r#"{"text":"x"}"#.into(), CallOptions::new()).await.unwrap();
    let options = CallOptions::new;
    let sum = channel.stream_json("Flows/sum", "{}".into(), vec![items(&["1", "2"])], false, options()).await;
    assert!(matches!(sum, Ok(JsonReply::One(sum)) if sum == "3"));
    let count = channel.stream_json("Flows/count", r#"{"gate":2}"#.into(), Vec::new(), true, options()).await;
    let Ok(JsonReply::Stream(mut numbers)) = count else { panic!("{count:?}") };
    assert_eq!(numbers.next().await, Some(Ok(Bytes::from_static(b"0"))));
    channel.send_stream_json("Flows/log", "{}".into(), vec![items(&["\"a\""])], options()).await.unwrap();
    ledger.until(|ledger| !ledger.lines.lock().unwrap().is_empty()).await;
    let seen = log.take();
    let expected = [
        r#"Probe/add {"a":1,"b":1}"#,
        r#"Probe/add {"a":99,"b":1}"#,
        r#"Probe/note {"text":"x"}"#,
        "Flows/sum {}",
        r#"Flows/count {"gate":2}"#,
        "Flows/log {}",
    ];
    assert_eq!(seen, expected);
}

fn fail(site: &Site, times: usize) {
    let mut failures = site.ledger.failures.lock().unwrap();
    failures.clear();
    failures.extend((0..times).map(|_| Status::unavailable("on purpose")));
    site.ledger.attempts.store(0, Ordering::SeqCst);
}

fn code<T>(result: &Result<T, CallError<Bytes>>) -> Option<Code> {
    result.as_ref().err().and_then(CallError::status).map(Status::code)
}

/// A call by name is made again where its options say so, or the channel's do and a description told that it may be; never else.
#[tokio::test]
async fn policies_hold_for_calls_by_name() {
    let site = Site::start(Kind::Inproc).await;
    let mut policy = RetryPolicy::attempts(3);
    policy.backoff_first = Duration::from_millis(1);
    let mut config = ChannelConfig::default();
    config.retry = Some(policy.clone());
    let channel = site.client_with(config).await.channel;
    fail(&site, 1);
    assert_eq!(code(&call(&channel, "Probe/flaky", "{}").await), Some(Code::Unavailable), "nobody knows what it is");
    fail(&site, 2);
    let vouched = channel.call_json("Probe/flaky", "{}".into(), CallOptions::new().retry(policy)).await;
    assert_eq!(vouched.unwrap(), "3");
    channel.describe().await.unwrap();
    fail(&site, 2);
    assert_eq!(call(&channel, "Probe/flaky", "{}").await.unwrap(), "3");
    fail(&site, 0);
    let failed = call(&channel, "Probe/text", r#"{"text":"fail:x"}"#).await;
    assert_eq!(code(&failed), Some(Code::FailedPrecondition));
    assert_eq!(channel.stats().retries, 4);
}

/// The breaker of an endpoint counts calls by name, and stops them.
#[tokio::test]
async fn breakers_stop_calls_by_name() {
    let site = Site::start(Kind::Inproc).await;
    let mut breaker = BreakerPolicy::default();
    (breaker.window, breaker.failure_percent) = (1, 100);
    let mut config = ChannelConfig::default();
    config.breaker = Some(breaker);
    let channel = site.client_with(config).await.channel;
    fail(&site, 1);
    assert_eq!(code(&call(&channel, "Probe/flaky", "{}").await), Some(Code::Unavailable));
    let stopped = call(&channel, "Probe/add", r#"{"a":1,"b":2}"#).await.unwrap_err();
    assert!(stopped.status().unwrap().message().contains("circuit breaker"), "{stopped:?}");
}

/// Whoever looks on is told of calls by name as of all others, of returned streams at their ends.
#[tokio::test]
async fn observers_are_told_of_calls_by_name() {
    let (site, _) = Site::streaming(Kind::Inproc, ServerConfig::default()).await;
    let log = Log::default();
    let mut config = ChannelConfig::default();
    config.telemetry = Telemetry::new().observer(Arc::new(log.clone()));
    let channel = site.client_with(config).await.channel;
    call(&channel, "Probe/add", r#"{"a":1,"b":2}"#).await.unwrap();
    call(&channel, "Probe/add", r#"{"a":2147483647,"b":2}"#).await.unwrap_err();
    call(&channel, "Probe/absent", "{}").await.unwrap_err();
    channel.send_json("Probe/note", r#"{"text":"x"}"#.into(), CallOptions::new()).await.unwrap();
    assert_eq!(log.take(), ["Probe/add ok", "Probe/add application", "Probe/absent unimplemented", "Probe/note ok"]);
    for (taken, end) in [(1, "Flows/count abandoned"), (9, "Flows/count ok")] {
        let args = r#"{"gate":2}"#.into();
        let reply = channel.stream_json("Flows/count", args, Vec::new(), true, CallOptions::new()).await;
        let Ok(JsonReply::Stream(mut numbers)) = reply else { panic!("{reply:?}") };
        assert_eq!(log.take(), [""; 0], "it is not over");
        for _ in 0..taken {
            if numbers.next().await.is_none() {
                break;
            }
        }
        drop(numbers);
        assert_eq!(log.take(), [end]);
    }
}

/// Who looks on is changed live, for the next call: nobody, one, and nobody again.
#[tokio::test]
async fn observers_come_and_go() {
    let site = Site::start(Kind::Inproc).await;
    let client = site.client().await;
    let log = Log::default();
    let observe = |telemetry: Telemetry| client.channel.reconfigure(|config| config.telemetry = telemetry).unwrap();
    assert_eq!(client.add(1, 2).await, Ok(3));
    let begun = client.add(1, 2);
    observe(Telemetry::new().observer(Arc::new(log.clone())));
    assert_eq!(begun.await, Ok(3));
    assert_eq!(log.take(), [""; 0], "it was made before anybody came");
    assert_eq!(client.add(1, 2).await, Ok(3));
    assert_eq!(log.take(), ["Probe/add ok"]);
    observe(Telemetry::new());
    assert_eq!(client.add(1, 2).await, Ok(3));
    assert_eq!(log.take(), [""; 0]);
}
