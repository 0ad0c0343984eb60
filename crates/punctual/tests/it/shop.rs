//! A contract with one of everything, its implementation, and a server of it on every transport.

use punctual::rpc::ServerHandle;
use punctual::{Bytes, Context, Server, Status, message, service};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::mpsc;

/// What was paid.
#[message]
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Receipt {
    /// Whose order.
    pub(crate) order: u64,
    pub(crate) cents: u64,
}

/// Why not.
#[message]
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ShopError {
    UnknownOrder { order: u64 },
    Declined(String),
    Call(Status),
}

impl fmt::Display for ShopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShopError::UnknownOrder { order } => write!(f, "there is no order {order}"),
            ShopError::Declined(reason) => write!(f, "declined: {reason}"),
            ShopError::Call(status) => status.fmt(f),
        }
    }
}

impl From<Status> for ShopError {
    fn from(status: Status) -> Self {
        ShopError::Call(status)
    }
}

/// What a handler saw around itself.
#[message]
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Surroundings {
    pub(crate) tenant: Option<String>,
    pub(crate) remaining: Option<Duration>,
    pub(crate) peer: bool,
    pub(crate) attempt: Option<u32>,
}

impl Surroundings {
    fn here() -> Self {
        let context = Context::current().expect("a handler runs in a context");
        Surroundings {
            tenant: context.metadata().get_str("tenant").map(str::to_owned),
            remaining: context.remaining(),
            peer: context.peer().is_some(),
            attempt: context.task().map(|task| task.attempt),
        }
    }
}

/// Sells things.
#[service]
pub(crate) trait Shop {
    /// The price of an order,
    /// in cents.
    #[rpc(idempotent, timeout = "2s")]
    async fn quote(&self, order: u64) -> Result<u64, ShopError>;

    /// Charges an order.
    #[rpc(durable, queue = "payments", attempts = 3, backoff = "fixed(1ms)")]
    async fn charge(
        &self,
        /// Which one.
        order: u64,
        #[serde(default)] cents: u64,
    ) -> Result<Receipt, ShopError>;

    #[rpc(oneway)]
    async fn seen(&self, page: String);

    async fn echo(&self, data: Bytes) -> Result<Bytes, Status>;

    async fn refuse(&self, code: u8) -> Result<(), Status>;

    async fn any(&self, value: serde_json::Value) -> Result<serde_json::Value, Status>;

    #[rpc(durable)]
    async fn surroundings(&self) -> Result<Surroundings, Status>;
}

/// Knows the order 42, and declines its first `declined` charges.
pub(crate) struct CornerShop {
    pub(crate) pages: mpsc::UnboundedSender<String>,
    pub(crate) declined: AtomicU64,
}

impl CornerShop {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<String>) {
        let (pages, seen) = mpsc::unbounded_channel();
        (CornerShop { pages, declined: AtomicU64::new(0) }, seen)
    }
}

impl Shop for CornerShop {
    async fn quote(&self, order: u64) -> Result<u64, ShopError> {
        if order == 42 { Ok(995) } else { Err(ShopError::UnknownOrder { order }) }
    }

    async fn charge(&self, order: u64, cents: u64) -> Result<Receipt, ShopError> {
        let price = self.quote(order).await?;
        let left = self.declined.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if left.is_ok() {
            return Err(ShopError::Declined("the bank is closed".to_owned()));
        }
        Ok(Receipt { order, cents: cents.max(price) })
    }

    async fn seen(&self, page: String) {
        // A test that has ended wants no more pages.
        let _ = self.pages.send(page);
    }

    async fn echo(&self, data: Bytes) -> Result<Bytes, Status> {
        Ok(data)
    }

    async fn refuse(&self, code: u8) -> Result<(), Status> {
        if code == 0 { Ok(()) } else { Err(Status::failed_precondition("refused").with_limit("code", u64::from(code))) }
    }

    async fn any(&self, value: serde_json::Value) -> Result<serde_json::Value, Status> {
        Ok(value)
    }

    async fn surroundings(&self) -> Result<Surroundings, Status> {
        Ok(Surroundings::here())
    }
}

/// A served shop.
pub(crate) struct Served {
    pub(crate) server: ServerHandle,
    pub(crate) pages: mpsc::UnboundedReceiver<String>,
    _directory: TempDir,
}

impl Served {
    /// On a free port, a Unix socket where there are some, and inside the process.
    pub(crate) async fn everywhere() -> Self {
        static NAMES: AtomicU64 = AtomicU64::new(0);
        let (shop, pages) = CornerShop::new();
        let directory = tempfile::tempdir().expect("a directory");
        let mut server = Server::builder()
            .service(ShopServer::new(shop))
            .listen("tcp://127.0.0.1:0")
            .listen(format!("inproc:shop-{}", NAMES.fetch_add(1, Ordering::Relaxed)));
        if cfg!(unix) {
            server = server.listen(format!("unix:{}", directory.path().join("shop.sock").display()));
        }
        let server = server.bind().await.expect("free addresses").spawn();
        Served { server, pages, _directory: directory }
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        self.server.local_addrs().to_vec()
    }

    /// A client over the first transport.
    pub(crate) async fn client(&self) -> ShopClient {
        ShopClient::connect(&self.addresses()[0]).await.expect("it listens")
    }

    pub(crate) async fn stop(self) {
        self.server.shutdown(Duration::from_secs(5)).await;
    }
}
