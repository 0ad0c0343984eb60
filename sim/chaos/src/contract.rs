//! What is called: every shape, each with a result that the caller can check.

use crate::memory;
use punctual::prelude::*;
use std::sync::OnceLock;
use std::time::Duration;

/// What a server holds now.
#[punctual::message]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Gauges {
    /// Handlers that run, the one that answers this among them.
    pub running: u64,
    pub streams: u64,
    /// Bytes of streams that no handler has taken.
    pub unconsumed: u64,
    /// Bytes of streams for which no credit has come back.
    pub uncredited: u64,
    pub connections: u64,
    pub panics: u64,
    pub violations: u64,
    /// Resident bytes of the process.
    pub memory: u64,
    /// Open file descriptors of the process.
    pub descriptors: u64,
}

/// Every shape of call.
#[service]
pub(crate) trait Chaos {
    async fn add(&self, a: u64, b: u64) -> Result<u64, Status>;
    async fn echo(&self, data: Bytes) -> Result<Bytes, Status>;
    /// Answers when so many milliseconds have passed.
    async fn wait(&self, millis: u64) -> Result<u64, Status>;
    #[rpc(oneway)]
    async fn note(&self, number: u64);
    async fn sum(&self, numbers: Streaming<u64>) -> Result<u64, Status>;
    async fn count(&self, upto: u64) -> Result<Streaming<u64>, Status>;
    /// Every line as it came.
    async fn mirror(&self, lines: Streaming<String>) -> Result<Streaming<String>, Status>;
    async fn gauges(&self) -> Result<Gauges, Status>;
}

/// The handlers, with the server that they run in.
#[derive(Clone, Default)]
pub(crate) struct Handlers {
    pub(crate) server: std::sync::Arc<OnceLock<punctual::rpc::ServerHandle>>,
}

impl Chaos for Handlers {
    async fn add(&self, a: u64, b: u64) -> Result<u64, Status> {
        Ok(a.wrapping_add(b))
    }

    async fn echo(&self, data: Bytes) -> Result<Bytes, Status> {
        Ok(data)
    }

    async fn wait(&self, millis: u64) -> Result<u64, Status> {
        tokio::time::sleep(Duration::from_millis(millis)).await;
        Ok(millis)
    }

    async fn note(&self, number: u64) {
        let _ = number;
    }

    async fn sum(&self, mut numbers: Streaming<u64>) -> Result<u64, Status> {
        let mut sum = 0u64;
        while let Some(number) = numbers.next().await {
            sum = sum.wrapping_add(number?);
        }
        Ok(sum)
    }

    async fn count(&self, upto: u64) -> Result<Streaming<u64>, Status> {
        Ok(Streaming::from_items(0..upto))
    }

    async fn mirror(&self, lines: Streaming<String>) -> Result<Streaming<String>, Status> {
        Ok(lines)
    }

    async fn gauges(&self) -> Result<Gauges, Status> {
        let stats = self.server.get().ok_or_else(|| Status::unavailable("not yet"))?.stats();
        Ok(Gauges {
            running: stats.running,
            streams: stats.streams,
            unconsumed: stats.unconsumed_bytes,
            uncredited: stats.uncredited_bytes,
            connections: stats.open_connections,
            panics: stats.panics,
            violations: stats.violations,
            memory: memory::resident_bytes(),
            descriptors: memory::descriptors(),
        })
    }
}
