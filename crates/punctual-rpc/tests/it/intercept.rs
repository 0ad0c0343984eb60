//! Interceptors of a client: what they see, what they may change, and what they cost those who have none.

use crate::support::Site;
use crate::support::clock::{Stopwatch, channel_under, tokio_clock};
use crate::support::probe::{Add, Declined, Text};
use crate::support::site::Kind;
use crate::support::streams::FlowsClient;
use punctual_rpc::client::{AppError, ClientInterceptor, Failure, INTERCEPTORS_MAX, Incoming, Next, Outgoing};
use punctual_rpc::transport::BoxFuture;
use punctual_rpc::{CallError, ChannelConfig, Code, RetryPolicy, ServerConfig, Status, Streaming};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Running = BoxFuture<'static, Result<Incoming, Failure>>;

/// An interceptor that is a function.
struct Around<F>(F);

impl<F> fmt::Debug for Around<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Around")
    }
}

impl<F: Fn(Outgoing, Next) -> Running + Send + Sync + 'static> ClientInterceptor for Around<F> {
    fn intercept(&self, call: Outgoing, next: Next) -> BoxFuture<'_, Result<Incoming, Failure>> {
        (self.0)(call, next)
    }
}

fn with<F: Fn(Outgoing, Next) -> Running + Send + Sync + 'static>(
    mut config: ChannelConfig,
    around: F,
) -> ChannelConfig {
    config.interceptors.push(Arc::new(Around(around)));
    config
}

/// Calls before and after the next one, for the order.
fn noting(log: &Arc<Mutex<Vec<String>>>, name: &'static str) -> impl Fn(Outgoing, Next) -> Running + use<> {
    let log = Arc::clone(log);
    move |call, next| {
        let log = Arc::clone(&log);
        Box::pin(async move {
            log.lock().unwrap().push(format!("{name} {}", call.method().full_name));
            let result = next.run(call).await;
            log.lock().unwrap().push(format!("{name} {}", if result.is_ok() { "ok" } else { "failed" }));
            result
        })
    }
}

/// The first one is outermost, for each shape of call, and sees how it ended.
#[tokio::test]
async fn interceptors_nest_around_every_shape() {
    let (site, _) = Site::streaming(Kind::Inproc, ServerConfig::default()).await;
    let log = Arc::new(Mutex::new(Vec::new()));
    let config = with(ChannelConfig::default(), noting(&log, "outer"));
    let client = site.client_with(with(config, noting(&log, "inner"))).await;
    let flows = FlowsClient { channel: client.channel.clone() };
    let nested = |method: &str, end: &str| {
        let all =
            [format!("outer {method}"), format!("inner {method}"), format!("inner {end}"), format!("outer {end}")];
        assert_eq!(std::mem::take(&mut *log.lock().unwrap()), all);
    };
    assert_eq!(client.add(1, 2).await, Ok(3));
    nested("Probe/add", "ok");
    assert_eq!(client.add(i32::MAX, 1).await, Err(CallError::App(Declined::Overflow)));
    nested("Probe/add", "failed");
    client.note("x").await.unwrap();
    nested("Probe/note", "ok");
    client.note("x").timeout(Duration::from_secs(5)).await.unwrap();
    nested("Probe/note", "ok");
    assert_eq!(flows.sum(Streaming::from_items([1, 2, 3])).await, Ok(6));
    nested("Flows/sum", "ok");
    assert_eq!(flows.count(3).await.unwrap().collect().await, Ok(vec![0, 1, 2]));
    nested("Flows/count", "ok");
    let chat = flows.chat(Streaming::from_items(["a".to_owned()])).await.unwrap();
    assert_eq!(chat.collect().await.unwrap().len(), 1);
    nested("Flows/chat", "ok");
    flows.log(Streaming::from_items(["a".to_owned()])).await.unwrap();
    nested("Flows/log", "ok");
}

/// Requests and results can be read and changed by their types, and a call can be answered without being made.
#[tokio::test]
async fn requests_and_results_are_typed() {
    let site = Site::start(Kind::Inproc).await;
    let client = site
        .client_with(with(ChannelConfig::default(), |mut call, next| {
            Box::pin(async move {
                if let Some(add) = call.request_mut::<Add>() {
                    add.a += 10;
                    let mut incoming = next.run(call).await?;
                    if let Some(sum) = incoming.value_mut::<i32>() {
                        *sum += 100;
                    }
                    return Ok(incoming);
                }
                match call.request::<Text>().map(|text| text.text.as_str()) {
                    Some("mine") => Ok(Incoming::new("answered here".to_owned())),
                    Some("refused") => Err(Status::permission_denied("not here").into()),
                    Some("strange") => Ok(Incoming::new(7_u8)),
                    _ => {
                        let result = next.run(call).await;
                        assert!(result.as_ref().err().is_none_or(|failure| failure.status().is_some()));
                        result
                    }
                }
            })
        }))
        .await;
    assert_eq!(client.add(1, 2).await, Ok(113));
    let before = client.channel.stats().published;
    assert_eq!(client.text("mine").await, Ok("answered here".to_owned()));
    let code = |error: CallError<Status>| error.status().unwrap().code();
    assert_eq!(client.text("refused").await.map_err(code), Err(Code::PermissionDenied));
    assert_eq!(client.text("strange").await.map_err(code), Err(Code::Internal));
    assert_eq!(client.channel.stats().published, before, "none of them was sent");
    assert_eq!(client.text("x").await, Ok("X".to_owned()));
    assert_eq!(client.text("fail:x").await.map_err(code), Err(Code::FailedPrecondition));
}

/// Application errors are typed, too, and one can be given in the place of another.
#[tokio::test]
async fn application_errors_are_typed() {
    let site = Site::start(Kind::Inproc).await;
    let client = site
        .client_with(with(ChannelConfig::default(), |call, next| {
            Box::pin(async move {
                match next.run(call).await {
                    Err(Failure::App(mut error)) => match error.get_mut::<Declined>() {
                        Some(Declined::Overflow) => {
                            Err(Failure::App(AppError::new(Declined::Because("too much".to_owned()))))
                        }
                        _ => Err(Failure::App(error)),
                    },
                    other => other,
                }
            })
        }))
        .await;
    let declined = Declined::Because("too much".to_owned());
    assert_eq!(client.add(i32::MAX, 1).await, Err(CallError::App(declined)));
}

/// Metadata that an interceptor adds reach the handler beside the caller's, and what the server sends along is seen.
#[tokio::test]
async fn metadata_go_both_ways() {
    let site = Site::start(Kind::Inproc).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let config = with(ChannelConfig::default(), move |mut call, next| {
        let log = Arc::clone(&log);
        Box::pin(async move {
            assert!(call.add_metadata("Not Valid", "x").is_err());
            call.add_metadata("added", "b")?;
            let names: Vec<_> = call.metadata().iter().map(|(name, _)| name.to_owned()).collect();
            log.lock().unwrap().push(names);
            next.run(call).await
        })
    });
    let client = site.client_with(config).await;
    assert_eq!(client.add(1, 2).metadata("own", "a").await, Ok(3));
    assert_eq!(*seen.lock().unwrap(), [["own".to_owned(), "added".to_owned()]]);
    let response = client.add(1, 2).with_response().await;
    assert_eq!(response.into_result(), Ok(3));
}

/// The deadline is fixed before the first interceptor runs: none can outstay it, and one may shorten it.
#[tokio::test(start_paused = true)]
async fn the_deadline_covers_interceptors() {
    let site = Site::start(Kind::Inproc).await;
    let config = with(channel_under(tokio_clock()), |call, next| {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(3)).await;
            next.run(call).await
        })
    });
    let client = site.client_with(config.clone()).await;
    let watch = Stopwatch::start();
    let error = client.add(1, 2).timeout(Duration::from_secs(2)).await.unwrap_err();
    assert_eq!((error.status().unwrap().code(), watch.elapsed().as_secs()), (Code::DeadlineExceeded, 2));
    let budget = client.budget().timeout(Duration::from_secs(5)).await.unwrap();
    assert!((1_900_000..=2_000_000).contains(&budget), "3 s of 5 are gone: {budget}");
    let clock = Arc::clone(&config.clock);
    let shorter = with(config, move |mut call, next| {
        call.limit_deadline(clock.now().after(Duration::from_secs(1)));
        next.run(call)
    });
    let client = site.client_with(shorter).await;
    let budget = client.budget().timeout(Duration::from_secs(60)).await.unwrap();
    assert!(budget <= 1_000_000, "{budget}");
}

/// Retries happen inside of the interceptors: they see one call, however often it was made.
#[tokio::test]
async fn interceptors_see_one_call_of_several_attempts() {
    let site = Site::start(Kind::Inproc).await;
    let log = Arc::new(Mutex::new(Vec::new()));
    let mut config = with(ChannelConfig::default(), noting(&log, "one"));
    config.retry = Some(RetryPolicy::default());
    let client = site.client_with(config).await;
    site.ledger.failures.lock().unwrap().extend(vec![Status::unavailable("x"); 2]);
    assert_eq!(client.flaky().await, Ok(3));
    assert_eq!(*log.lock().unwrap(), ["one Probe/flaky", "one ok"]);
}

/// A call that has begun keeps the interceptors that it began with; the next one has the new ones.
#[tokio::test(start_paused = true)]
async fn interceptors_can_be_changed_live() {
    let site = Site::start(Kind::Inproc).await;
    let log = Arc::new(Mutex::new(Vec::new()));
    let client = site.client_with(with(channel_under(tokio_clock()), noting(&log, "old"))).await;
    let begun = tokio::spawn(client.wait(1).into_future());
    site.ledger.until(|ledger| *ledger.waiting.borrow() == 1).await;
    client.channel.reconfigure(|config| config.interceptors.clear()).unwrap();
    assert_eq!(client.add(1, 2).await, Ok(3));
    site.ledger.gate.send_replace(true);
    assert_eq!(begun.await.unwrap(), Ok(1));
    assert_eq!(*log.lock().unwrap(), ["old Probe/wait", "old ok"]);
    let many = client.channel.reconfigure(|config| {
        config.interceptors =
            (0..=INTERCEPTORS_MAX).map(|_| Arc::new(Around(|call, next: Next| next.run(call))) as _).collect();
    });
    assert!(many.unwrap_err().message().contains("up to 32"));
}

/// Dropping a call drops what its interceptors do, and cancels it.
#[tokio::test]
async fn dropping_a_call_reaches_through_its_interceptors() {
    let site = Site::start(Kind::Inproc).await;
    let log = Arc::new(Mutex::new(Vec::new()));
    let client = site.client_with(with(ChannelConfig::default(), noting(&log, "one"))).await;
    let call = tokio::spawn(client.wait(1).into_future());
    site.ledger.until(|ledger| *ledger.waiting.borrow() == 1).await;
    call.abort();
    site.ledger.until(|ledger| *ledger.dropped.borrow() == 1).await;
    assert_eq!(*log.lock().unwrap(), ["one Probe/wait"]);
    assert_eq!(client.channel.stats().pending, 0);
}

#[cfg(feature = "tower")]
mod tower {
    use super::*;
    use crate::support::probe::ProbeClient;
    use punctual_rpc::Channel;
    use punctual_rpc::client::TowerLayer;
    use std::error::Error;
    use std::task::{Context, Poll};
    use tower_layer::Layer;
    use tower_service::Service;

    /// Lets calls through up to a number, and then refuses as layers do, with an error of its own.
    #[derive(Clone)]
    struct Counted(Arc<Mutex<u32>>);

    struct Counting<S>(S, Arc<Mutex<u32>>);

    impl<S> Layer<S> for Counted {
        type Service = Counting<S>;

        fn layer(&self, inner: S) -> Counting<S> {
            Counting(inner, Arc::clone(&self.0))
        }
    }

    impl<S> Service<Outgoing> for Counting<S>
    where
        S: Service<Outgoing, Response = Incoming, Error = Failure, Future = Running>,
    {
        type Response = Incoming;
        type Error = Box<dyn Error + Send + Sync>;
        type Future = BoxFuture<'static, Result<Incoming, Self::Error>>;

        fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
            let mut left = self.1.lock().unwrap();
            if *left == 0 {
                return Poll::Ready(Err("no more calls".into()));
            }
            *left -= 1;
            self.0.poll_ready(cx).map_err(Into::into)
        }

        fn call(&mut self, call: Outgoing) -> Self::Future {
            let running = self.0.call(call);
            Box::pin(async move { Ok(running.await?) })
        }
    }

    /// A layer wraps calls; failures pass through it as what they are, and its own errors become a status.
    #[tokio::test]
    async fn a_layer_wraps_calls() {
        let site = Site::start(Kind::Inproc).await;
        let layer = TowerLayer::new(Counted(Arc::new(Mutex::new(3))));
        let channel = Channel::builder(&site.address).interceptor(layer).connect().await.unwrap();
        let client = ProbeClient::new(channel);
        assert_eq!(client.add(1, 2).await, Ok(3));
        assert_eq!(client.add(i32::MAX, 1).await, Err(CallError::App(Declined::Overflow)));
        let error = client.text("fail:x").await.unwrap_err();
        assert_eq!(error.status().unwrap().code(), Code::FailedPrecondition);
        let error = client.add(1, 2).await.unwrap_err();
        let status = error.status().unwrap();
        assert!(status.code() == Code::Unknown && status.message() == "no more calls", "{status}");
    }
}
