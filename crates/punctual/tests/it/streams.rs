//! Streams through generated clients and servers.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use futures_core::Stream;
use punctual::{
    Bytes, CallError, Channel, Code, Context, Server, Status, Streaming, message, rpc::CallOptions, rpc::JsonItems,
    rpc::JsonReply, service,
};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::{Notify, mpsc};

#[message]
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Price {
    pub(crate) at: u64,
    pub(crate) cents: u64,
}

#[message]
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FeedError {
    TooOld { since: u64 },
    Call(Status),
}

impl From<Status> for FeedError {
    fn from(status: Status) -> Self {
        FeedError::Call(status)
    }
}

/// Everything that can be streamed.
#[service]
pub(crate) trait Feed {
    /// A client stream of raw bytes beside an argument.
    async fn upload(&self, name: String, parts: Streaming<Bytes>) -> Result<String, Status>;
    /// A returned stream with an error of its own.
    async fn prices(&self, since: u64) -> Result<Streaming<Price, FeedError>, FeedError>;
    /// Both, and two arguments that are streams.
    async fn mix(
        &self,
        lines: Streaming<String>,
        times: u64,
        prices: Streaming<Price>,
    ) -> Result<Streaming<String>, Status>;
    /// Nobody waits for an answer.
    #[rpc(oneway)]
    async fn log(&self, lines: Streaming<String>);
    /// It goes on when its caller is gone.
    #[rpc(detached)]
    async fn settle(&self) -> Result<(), Status>;
    /// A JSON value has no compact form.
    async fn values(&self, values: Streaming<serde_json::Value>) -> Result<Streaming<serde_json::Value>, Status>;
}

struct Desk {
    lines: mpsc::UnboundedSender<String>,
    gate: Arc<Notify>,
}

impl Feed for Desk {
    async fn upload(&self, name: String, mut parts: Streaming<Bytes>) -> Result<String, Status> {
        let mut bytes = 0;
        while let Some(part) = parts.next().await {
            bytes += part?.len();
        }
        Ok(format!("{name}: {bytes}"))
    }

    async fn prices(&self, since: u64) -> Result<Streaming<Price, FeedError>, FeedError> {
        if since < 10 {
            return Err(FeedError::TooOld { since });
        }
        Ok(Streaming::from_items((since..since + 3).map(|at| Price { at, cents: at * 100 })))
    }

    async fn mix(
        &self,
        mut lines: Streaming<String>,
        times: u64,
        prices: Streaming<Price>,
    ) -> Result<Streaming<String>, Status> {
        let prices = prices.collect().await?;
        let first = lines.next().await.transpose()?.unwrap_or_default();
        let remaining = Context::current().and_then(|context| context.remaining()).is_some();
        let head = format!("{first} {times} {} {remaining}", prices.len());
        Ok(Streaming::new(Behind(Some(head), lines)))
    }

    async fn log(&self, mut lines: Streaming<String>) {
        while let Some(Ok(line)) = lines.next().await {
            let _ = self.lines.send(line);
        }
        let _ = self.lines.send("the end".to_owned());
    }

    async fn settle(&self) -> Result<(), Status> {
        let _ = self.lines.send("settling".to_owned());
        self.gate.notified().await;
        let _ = self.lines.send("settled".to_owned());
        Ok(())
    }

    async fn values(&self, values: Streaming<serde_json::Value>) -> Result<Streaming<serde_json::Value>, Status> {
        // What is received can be passed on as it is.
        Ok(values)
    }
}

/// A line before the others.
struct Behind(Option<String>, Streaming<String>);

impl Stream for Behind {
    type Item = Result<String, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Option<Self::Item>> {
        match self.0.take() {
            Some(head) => Poll::Ready(Some(Ok(head))),
            None => Pin::new(&mut self.1).poll_next(cx),
        }
    }
}

struct Served {
    client: FeedClient,
    lines: mpsc::UnboundedReceiver<String>,
    gate: Arc<Notify>,
    _server: punctual::ServerHandle,
}

async fn served(name: &str) -> Served {
    let (sender, lines) = mpsc::unbounded_channel();
    let gate = Arc::new(Notify::new());
    let desk = Desk { lines: sender, gate: Arc::clone(&gate) };
    let address = format!("inproc:{name}");
    let server = Server::builder().service(FeedServer::new(desk)).listen(&address).bind().await.unwrap();
    let server = server.spawn();
    Served { client: FeedClient::connect(&address).await.unwrap(), lines, gate, _server: server }
}

fn words() -> Streaming<String> {
    Streaming::from_items(["a", "b", "c"].map(str::to_owned))
}

/// Each shape with streams goes from the generated client to the generated server and back.
#[tokio::test]
async fn every_shape_with_streams() {
    let mut served = served("feed-shapes").await;
    let feed = &served.client;
    let parts = Streaming::from_items([Bytes::from_static(b"12"), Bytes::from(vec![0; 70_000])]);
    assert_eq!(feed.upload("file".to_owned(), parts).await.unwrap(), "file: 70002");
    let prices = feed.prices(10).await.unwrap().collect().await.unwrap();
    assert_eq!(prices.iter().map(|price| price.cents).collect::<Vec<_>>(), [1_000, 1_100, 1_200]);
    assert_eq!(feed.prices(9).await.unwrap_err(), CallError::App(FeedError::TooOld { since: 9 }));
    let timed = feed.mix(words(), 7, Streaming::from_items(prices)).timeout(std::time::Duration::from_secs(60));
    assert_eq!(timed.await.unwrap().collect().await.unwrap(), ["a 7 3 true", "b", "c"]);
    let value = serde_json::json!({"deep": [1, null, {"x": "y"}]});
    let echoed = feed.values(Streaming::from_items([value.clone()])).await.unwrap();
    assert_eq!(echoed.collect().await.unwrap(), [value]);
    feed.log(words()).await.unwrap();
    for line in ["a", "b", "c", "the end"] {
        assert_eq!(served.lines.recv().await.unwrap(), line);
    }
}

/// The client is the contract too, streams included.
#[tokio::test]
async fn the_client_is_the_contract() {
    async fn through(feed: &impl Feed) -> (String, Vec<String>) {
        let up = feed.upload("x".to_owned(), Streaming::empty()).await.unwrap();
        let lines = feed.mix(words(), 1, Streaming::empty()).await.unwrap();
        (up, lines.collect().await.unwrap())
    }
    let served = served("feed-contract").await;
    let (up, lines) = through(&served.client).await;
    assert_eq!((up.as_str(), lines.len()), ("x: 0", 3));
    let error = Feed::prices(&served.client, 3).await.unwrap_err();
    assert_eq!(error, FeedError::TooOld { since: 3 });
}

/// A detached handler ends although its caller gave up.
#[tokio::test]
async fn a_detached_method_goes_on() {
    let mut served = served("feed-detached").await;
    let call = tokio::spawn(served.client.settle());
    assert_eq!(served.lines.recv().await.unwrap(), "settling");
    call.abort();
    assert!(call.await.is_err());
    served.gate.notify_one();
    assert_eq!(served.lines.recv().await.unwrap(), "settled");
}

/// Tools see the streams in the description, and call them in JSON.
#[tokio::test]
async fn tools_see_and_call_streams() {
    let served = served("feed-tools").await;
    let channel: &Channel = served.client.channel();
    let services = channel.describe().await.unwrap();
    let text = services[0].to_string();
    for line in [
        "    upload(name: String, parts: Streaming<Bytes>) -> Result<String, Status>",
        "    prices(since: u64) -> Result<Streaming<Price, FeedError>, FeedError>",
        "    mix(times: u64, lines: Streaming<String>, prices: Streaming<Price>) -> Result<Streaming<String>, Status>",
        "    #[rpc(oneway)]\n    log(lines: Streaming<String>)\n",
        "    #[rpc(detached)]\n",
    ] {
        assert!(text.contains(line), "{line}\nis not in\n{text}");
    }
    let shapes: Vec<&str> = services[0].methods.iter().map(|method| method.shape.as_str()).collect();
    assert_eq!(shapes, ["client-stream", "server-stream", "duplex", "oneway", "unary", "duplex"]);
    let items = |items: &'static [&'static str]| -> JsonItems { Box::pin(JsonLines(items.iter())) };
    let options = CallOptions::new;
    let streams = vec![items(&[r#""x""#, r#""y""#]), items(&[r#"{"at": 1, "cents": 2}"#])];
    let reply = channel.stream_json("Feed/mix", r#"{"times": 2}"#.into(), streams, true, options()).await.unwrap();
    let JsonReply::Stream(mut lines) = reply else { panic!("a stream") };
    assert_eq!(lines.next().await.unwrap().unwrap(), r#""x 2 1 false""#);
    assert_eq!(lines.next().await.unwrap().unwrap(), r#""y""#);
    assert!(lines.next().await.is_none());
    let reply = channel.stream_json("Feed/prices", r#"{"since": 1}"#.into(), Vec::new(), true, options()).await;
    assert_eq!(reply.unwrap_err(), CallError::App(Bytes::from_static(br#"{"TooOld":{"since":1}}"#)));
    let streams = vec![items(&[r#"{"no": "price"}"#]), items(&["1"])];
    let reply = channel.stream_json("Feed/mix", r#"{"times": 2}"#.into(), streams, true, options()).await;
    assert_eq!(reply.unwrap_err().status().unwrap().code(), Code::InvalidArgument);
}

struct JsonLines(std::slice::Iter<'static, &'static str>);

impl Stream for JsonLines {
    type Item = Result<Bytes, Status>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut std::task::Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.next().map(|line| Ok(Bytes::from_static(line.as_bytes()))))
    }
}
