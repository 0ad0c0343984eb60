//! A service that ends its calls in every way.

use crate::evolution::Ready;
use punctual::rpc::{ChannelBuilder, ServerBuilder};
use punctual::{Channel, Context, Server, ServerHandle, Status, Streaming, message, service};
use std::sync::atomic::{AtomicU64, Ordering};

#[message]
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum DeskError {
    Said(String),
    Call(Status),
}

impl From<Status> for DeskError {
    fn from(status: Status) -> Self {
        DeskError::Call(status)
    }
}

#[service]
pub(crate) trait Desk {
    async fn echo(&self, text: String) -> Result<String, DeskError>;
    async fn refuse(&self, text: String) -> Result<(), DeskError>;
    async fn fail(&self, text: String) -> Result<(), Status>;
    async fn panic(&self, text: String) -> Result<(), Status>;
    async fn number(&self, number: u8) -> Result<u8, Status>;
    async fn forbidden(&self) -> Result<(), Status>;
    async fn stuck(&self) -> Result<(), Status>;
    #[rpc(oneway)]
    async fn note(&self, number: u8);
    async fn lines(&self, text: String, fails: bool) -> Result<Streaming<String, DeskError>, Status>;
    async fn join(&self, lines: Streaming<String>) -> Result<String, Status>;
    /// The metadata of its caller, as it has them.
    async fn heard(&self) -> Result<Vec<(String, String)>, Status>;
    /// The metadata that a call of its own arrives with.
    async fn relay(&self) -> Result<Vec<(String, String)>, DeskError>;
}

/// Calls itself for what it relays.
pub(crate) struct Clerk(pub(crate) Channel);

impl Desk for Clerk {
    async fn echo(&self, text: String) -> Result<String, DeskError> {
        Ok(text)
    }

    async fn refuse(&self, text: String) -> Result<(), DeskError> {
        Err(DeskError::Said(text))
    }

    async fn fail(&self, text: String) -> Result<(), Status> {
        Err(Status::internal(text))
    }

    async fn panic(&self, text: String) -> Result<(), Status> {
        std::panic::resume_unwind(Box::new(text))
    }

    async fn number(&self, number: u8) -> Result<u8, Status> {
        Ok(number)
    }

    async fn forbidden(&self) -> Result<(), Status> {
        Ok(())
    }

    async fn stuck(&self) -> Result<(), Status> {
        std::future::pending().await
    }

    async fn note(&self, _: u8) {}

    async fn lines(&self, text: String, fails: bool) -> Result<Streaming<String, DeskError>, Status> {
        let mut lines = vec![Ok(text.clone())];
        if fails {
            lines.push(Err(DeskError::Said(text)));
        }
        Ok(Streaming::new(Ready(lines.into_iter())))
    }

    async fn join(&self, mut lines: Streaming<String>) -> Result<String, Status> {
        let mut all = String::new();
        while let Some(line) = lines.next().await {
            all += &line?;
        }
        Ok(all)
    }

    async fn heard(&self) -> Result<Vec<(String, String)>, Status> {
        let context = Context::current().ok_or_else(|| Status::internal("no context"))?;
        let shown = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        Ok(context.metadata().iter().map(|(name, value)| (name.to_owned(), shown(value))).collect())
    }

    async fn relay(&self) -> Result<Vec<(String, String)>, DeskError> {
        DeskClient::new(self.0.clone()).heard().await.map_err(|error| DeskError::Said(error.to_string()))
    }
}

/// A server of the desk, with what `configure` adds, and a channel to it.
pub(crate) async fn desk(
    server: impl FnOnce(ServerBuilder) -> ServerBuilder,
    channel: impl FnOnce(ChannelBuilder) -> ChannelBuilder,
) -> (DeskClient, ServerHandle) {
    static NAMES: AtomicU64 = AtomicU64::new(0);
    let address = format!("inproc:desk-{}", NAMES.fetch_add(1, Ordering::Relaxed));
    let channel = channel(Channel::builder(&address)).lazy().expect("a good address");
    let clerk = DeskServer::new(Clerk(channel.clone()));
    let handle = server(Server::builder().service(clerk)).listen(&address).bind().await.expect("a free name").spawn();
    (DeskClient::new(channel), handle)
}
