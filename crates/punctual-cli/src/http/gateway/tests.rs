//! The gateway over a server of the test's own, whose methods have every shape.

use crate::http::DOOR;
use crate::http::app::{App, router};
use crate::http::guard::Guard;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{Response, header};
use punctual::clock::SystemClock;
use punctual::engine::Engine;
use punctual::rpc::telemetry::prometheus::Metrics;
use punctual::task::MemStore;
use punctual::{Bytes, Context, Server, ServerHandle, Status, Streaming};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tower_service::Service;

#[punctual::message]
#[derive(Debug, PartialEq)]
pub(crate) enum ShapesError {
    Odd { number: u64 },
}

impl From<Status> for ShapesError {
    fn from(_: Status) -> Self {
        ShapesError::Odd { number: 0 }
    }
}

#[punctual::service]
pub(crate) trait Shapes {
    async fn half(&self, number: u64) -> Result<u64, ShapesError>;
    async fn echo(&self, data: Bytes) -> Result<Bytes, Status>;
    /// The budget in milliseconds, the tenant and the place in the trace.
    async fn context(&self) -> Result<(u64, String, String), Status>;
    async fn never(&self) -> Result<(), Status>;
    #[rpc(oneway)]
    async fn seen(&self, page: String);
    /// Counts up to a number, which it refuses if it is odd, and fails after it if it is told to.
    async fn count(&self, to: u64, fail: bool) -> Result<Streaming<u64>, Status>;
    async fn sum(&self, numbers: Streaming<u64>) -> Result<u64, Status>;
}

#[derive(Default)]
struct Handlers {
    seen: AtomicU64,
}

struct Items(mpsc::Receiver<Result<u64, Status>>);

impl futures_core::Stream for Items {
    type Item = Result<u64, Status>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.poll_recv(cx)
    }
}

impl Shapes for Arc<Handlers> {
    async fn half(&self, number: u64) -> Result<u64, ShapesError> {
        if number.is_multiple_of(2) { Ok(number / 2) } else { Err(ShapesError::Odd { number }) }
    }

    async fn echo(&self, data: Bytes) -> Result<Bytes, Status> {
        Ok(data)
    }

    async fn context(&self) -> Result<(u64, String, String), Status> {
        let context = Context::current().unwrap();
        let text = |name: &str| {
            context.metadata().get(name).map(|value| String::from_utf8_lossy(value).into_owned()).unwrap_or_default()
        };
        let budget = context.remaining().map_or(0, |budget| u64::try_from(budget.as_millis()).unwrap());
        Ok((budget, text("tenant"), text("traceparent")))
    }

    async fn never(&self) -> Result<(), Status> {
        std::future::pending().await
    }

    async fn seen(&self, _page: String) {
        self.seen.fetch_add(1, Ordering::Relaxed);
    }

    async fn count(&self, to: u64, fail: bool) -> Result<Streaming<u64>, Status> {
        if to % 2 == 1 {
            return Err(Status::failed_precondition("odd"));
        }
        let (sender, receiver) = mpsc::channel(4);
        tokio::spawn(async move {
            for number in 0..to {
                if sender.send(Ok(number)).await.is_err() {
                    return;
                }
            }
            if fail {
                let _ = sender.send(Err(Status::aborted("enough"))).await;
            }
        });
        Ok(Streaming::new(Items(receiver)))
    }

    async fn sum(&self, _numbers: Streaming<u64>) -> Result<u64, Status> {
        Ok(0)
    }
}

struct Web {
    router: Router,
    handlers: Arc<Handlers>,
    server: ServerHandle,
}

impl Web {
    async fn start(name: &str) -> Self {
        let handlers = Arc::new(Handlers::default());
        let door = format!("{DOOR}-{name}");
        let server = Server::builder().service(ShapesServer::new(Arc::clone(&handlers))).listen(&door);
        let server = server.bind().await.unwrap().spawn();
        let engine = Engine::builder(Arc::new(MemStore::new(Arc::new(SystemClock)))).start().await.unwrap();
        let guard = Guard::new(&crate::config::HttpSettings::default(), "127.0.0.1:1".parse().unwrap(), None);
        let mut app = App::new(
            guard,
            engine,
            server.clone(),
            &door,
            Arc::new(Metrics::new()),
            Arc::new(crate::http::events::Buffer::new(String::new())),
        )
        .await
        .unwrap();
        // However slow the machine: what comes at once is waited for.
        app.first_wait = Duration::from_secs(3_600);
        Web { router: router(&Arc::new(app)), handlers, server }
    }

    async fn send(&self, method: &str, headers: &[(&str, &str)], body: &str) -> Response<Body> {
        let request = Request::builder().method("POST").uri(format!("/rpc/{method}"));
        let request = request.header(header::CONTENT_TYPE, "application/json");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        self.router.clone().call(request.body(Body::from(body.to_owned())).unwrap()).await.unwrap()
    }

    /// The status, the type and the text of an answer.
    async fn ask(&self, method: &str, headers: &[(&str, &str)], body: &str) -> (u16, String, String) {
        let answer = self.send(method, headers, body).await;
        let (parts, body) = answer.into_parts();
        let text = to_bytes(body, usize::MAX).await.unwrap();
        let kind = parts.headers[header::CONTENT_TYPE].to_str().unwrap().to_owned();
        (parts.status.as_u16(), kind, String::from_utf8(text.to_vec()).unwrap())
    }

    async fn error(&self, method: &str, headers: &[(&str, &str)], body: &str) -> (u16, Value) {
        let (status, _, text) = self.ask(method, headers, body).await;
        (status, serde_json::from_str::<Value>(&text).unwrap()["error"].clone())
    }
}

/// A result is JSON, bytes as numbers, and what has no reply is accepted; errors have their status, with the method's own beside.
#[tokio::test]
async fn methods_without_streams() {
    let web = Web::start("plain").await;
    assert_eq!(web.ask("Shapes/half", &[], r#"{"number":8}"#).await, (200, "application/json".into(), "4".into()));
    let (status, error) = web.error("Shapes/half", &[], r#"{"number":7}"#).await;
    assert_eq!((status, &error["code"]), (422, &json!("application")));
    assert_eq!(error["detail"], json!({"Odd": {"number": 7}}));
    assert_eq!(
        web.ask("Shapes/echo", &[], r#"{"data":[114,97,119]}"#).await,
        (200, "application/json".into(), "[114,97,119]".into())
    );
    assert_eq!(web.ask("Shapes/seen", &[], r#"{"page":"x"}"#).await.0, 202);
    while web.handlers.seen.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    for (method, body, status, word) in [
        ("Shapes/half", "[8]", 400, "JSON object"),
        ("Shapes/half", r#"{"number":"x"}"#, 400, "expected u64"),
        ("Shapes/half", "", 400, "number"),
        ("Shapes/nothing", "{}", 404, "half, echo"),
        ("Nobody/half", "{}", 404, "Shapes"),
        ("Shapes/sum", "{}", 501, "takes streams"),
    ] {
        let (found, error) = web.error(method, &[], body).await;
        assert_eq!(found, status, "{method} {error}");
        assert!(error["message"].as_str().unwrap().contains(word), "{method} {error}");
    }
    web.server.shutdown(Duration::ZERO).await;
}

/// The budget, metadata and the place in a trace travel by headers.
#[tokio::test]
async fn headers_are_options() {
    let web = Web::start("headers").await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let headers = [("punctual-timeout", "1h"), ("punctual-metadata-tenant", "a"), ("traceparent", trace)];
    let (status, _, text) = web.ask("Shapes/context", &headers, "").await;
    let (budget, tenant, parent): (u64, String, String) = serde_json::from_str(&text).unwrap();
    assert_eq!((status, tenant.as_str(), parent.as_str()), (200, "a", trace));
    assert!((30_001..=3_600_000).contains(&budget), "{budget}");
    let (status, error) = web.error("Shapes/never", &[("punctual-timeout", "1ms")], "").await;
    assert_eq!((status, &error["code"]), (504, &json!("deadline_exceeded")));
    for bad in ["soon", "0", "5"] {
        let (status, error) = web.error("Shapes/never", &[("punctual-timeout", bad)], "").await;
        assert_eq!((status, &error["field"]), (400, &json!("punctual-timeout")), "{bad}");
    }
    web.server.shutdown(Duration::ZERO).await;
}

/// A stream is lines or events, each says what it is, and the last one how it ended; what is refused at once has a status.
#[tokio::test]
async fn streams_are_lines_or_events() {
    let web = Web::start("streams").await;
    let (status, kind, text) = web.ask("Shapes/count", &[], r#"{"to":2,"fail":false}"#).await;
    assert_eq!((status, kind.as_str()), (200, "application/x-ndjson"));
    assert_eq!(text, "{\"item\":0}\n{\"item\":1}\n{\"end\":true}\n");
    let accept = [("accept", "text/html, text/event-stream;q=0.9")];
    let (status, kind, text) = web.ask("Shapes/count", &accept, r#"{"to":2,"fail":true}"#).await;
    assert_eq!((status, kind.as_str()), (200, "text/event-stream"));
    let (items, end) = text.split_at(text.find("event: error").unwrap());
    assert_eq!(items, "event: item\ndata: {\"item\":0}\n\nevent: item\ndata: {\"item\":1}\n\n");
    assert!(end.contains("\"code\":\"aborted\"") && end.contains("enough"), "{end}");
    let (status, error) = web.error("Shapes/count", &[], r#"{"to":1,"fail":false}"#).await;
    assert_eq!((status, &error["message"]), (409, &json!("odd")));
    web.server.shutdown(Duration::ZERO).await;
}

/// A client that goes away cancels its call: nothing is left of it on the server.
#[tokio::test]
async fn a_client_that_goes_away_cancels() {
    let web = Web::start("gone").await;
    let answer = web.send("Shapes/count", &[], r#"{"to":1000000,"fail":false}"#).await;
    assert!(web.server.stats().streams > 0);
    drop(answer);
    let mut unary = Box::pin(web.send("Shapes/never", &[], ""));
    let started = std::future::poll_fn(|cx| {
        let _ = unary.as_mut().poll(cx);
        if web.server.stats().running > 0 {
            std::task::Poll::Ready(())
        } else {
            cx.waker().wake_by_ref();
            std::task::Poll::Pending
        }
    });
    started.await;
    drop(unary);
    loop {
        let stats = web.server.stats();
        if (stats.streams, stats.running) == (0, 0) {
            break;
        }
        tokio::task::yield_now().await;
    }
    web.server.shutdown(Duration::ZERO).await;
}
