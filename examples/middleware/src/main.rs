//! Your own code around calls, on both sides: a client that says who it is, measures, and answers from a cache what it knows;
//! a server that refuses who says nothing, and tells which version answered. Between them long bodies are compressed.
//!
//! `cargo run -p middleware`

use punctual::clock::{Clock, SystemClock};
use punctual::prelude::*;
use punctual::rpc::client::{ClientInterceptor, Failure, Incoming, Next, Outgoing};
use punctual::rpc::compression::{Compression, Lz4};
use punctual::rpc::server::{Handled, ServerCall, ServerInterceptor, ServerNext};
use punctual::rpc::transport::BoxFuture;
use punctual::rpc::{ChannelConfig, ServerConfig};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Long texts under short names.
#[service]
pub trait Library {
    /// The text of a title.
    #[rpc(idempotent)]
    async fn read(&self, title: String) -> Result<String, Status>;
}

/// Counts how often it is really asked.
#[derive(Default)]
struct Shelves {
    asked: Arc<AtomicU64>,
}

impl Library for Shelves {
    async fn read(&self, title: String) -> Result<String, Status> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(format!("{title}, again and again. ").repeat(1_000))
    }
}

/// Says with each call which reader makes it.
#[derive(Debug)]
struct Reader(&'static str);

impl ClientInterceptor for Reader {
    fn intercept(&self, mut call: Outgoing, next: Next) -> BoxFuture<'_, Result<Incoming, Failure>> {
        Box::pin(async move {
            call.add_metadata("reader", self.0)?;
            next.run(call).await
        })
    }
}

/// Says how long calls take, those that never leave included, since it is the outermost.
#[derive(Debug)]
struct Stopwatch;

impl ClientInterceptor for Stopwatch {
    fn intercept(&self, call: Outgoing, next: Next) -> BoxFuture<'_, Result<Incoming, Failure>> {
        Box::pin(async move {
            let (method, begun) = (call.method().full_name, SystemClock.now());
            let result = next.run(call).await;
            let took = SystemClock.now().since(begun);
            let by = result.as_ref().ok().and_then(|incoming| incoming.metadata().get_str("version"));
            println!("{method} took {took:?}, answered by version {}", by.unwrap_or("none: no server was asked"));
            result
        })
    }
}

/// The most texts that a reader remembers.
const REMEMBERED_MAX: usize = 64;

/// Remembers texts, and answers with those instead of making a call.
#[derive(Debug, Default)]
struct Memory(Mutex<BTreeMap<String, String>>);

impl ClientInterceptor for Memory {
    fn intercept(&self, call: Outgoing, next: Next) -> BoxFuture<'_, Result<Incoming, Failure>> {
        Box::pin(async move {
            // The request as the contract has it. What is no `read` passes as it is.
            let Some(title) = call.request::<library::Read>().map(|read| read.title.clone()) else {
                return next.run(call).await;
            };
            if let Some(text) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&title) {
                return Ok(Incoming::new(text.clone()));
            }
            let incoming = next.run(call).await?;
            let mut memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let (Some(text), true) = (incoming.value::<String>(), memory.len() < REMEMBERED_MAX) {
                memory.insert(title, text.clone());
            }
            drop(memory);
            Ok(incoming)
        })
    }
}

/// Lets nobody in who does not say who reads. It runs before anything of the arguments is decoded.
#[derive(Debug)]
struct Desk;

impl ServerInterceptor for Desk {
    fn intercept(&self, call: ServerCall, next: ServerNext) -> BoxFuture<'_, Result<Handled, Status>> {
        Box::pin(async move {
            let Some(reader) = call.metadata().get_str("reader").map(str::to_owned) else {
                return Err(Status::unauthenticated("say who reads, in the metadata `reader`"));
            };
            call.respond_with("version", "7").map_err(|error| Status::internal(error.to_string()))?;
            let method = call.method().name;
            let result = next.run(call).await;
            println!("  the desk: {reader} called {method}, {}", if result.is_ok() { "served" } else { "not served" });
            result
        })
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let shelves = Shelves::default();
    let asked = Arc::clone(&shelves.asked);
    let mut config = ServerConfig::default();
    // Both sides are to agree on it, and then bodies from 1 KiB on are compressed.
    config.compression = Compression::new().with(Lz4);
    let server = Server::builder()
        .config(config)
        .interceptor(Desk)
        .service(LibraryServer::new(shelves))
        .listen("tcp://127.0.0.1:0")
        .bind()
        .await?;
    let address = server.local_addrs()[0].clone();
    let server = server.spawn();

    let mut config = ChannelConfig::default();
    config.compression = Compression::new().with(Lz4);
    let channel = Channel::builder(&address)
        .config(config)
        .interceptor(Stopwatch)
        .interceptor(Memory::default())
        .interceptor(Reader("ada"))
        .connect()
        .await?;
    let library = LibraryClient::new(channel);
    let text = library.read("Time".to_owned()).await?;
    anyhow::ensure!(library.read("Time".to_owned()).await? == text, "the cache answers with the text");
    anyhow::ensure!(asked.load(Ordering::Relaxed) == 1, "the second call never left");
    let received = library.channel().stats().received_bytes;
    println!("a text of {} bytes came in {received}", text.len());
    anyhow::ensure!(received < text.len() as u64 / 4, "it was compressed");

    let stranger = LibraryClient::connect(&address).await?;
    match stranger.read("Time".to_owned()).await {
        Err(CallError::App(status) | CallError::Status(status)) if status.code() == Code::Unauthenticated => {
            println!("a stranger: {status}");
        }
        other => anyhow::bail!("a stranger's call came to {other:?}"),
    }

    server.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    /// The example runs and finds what it says.
    #[test]
    fn it_runs() {
        super::main().expect("the example runs");
    }
}
