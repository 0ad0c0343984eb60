//! What a channel connects to, and how a link becomes a connection.

use crate::address::Address;
use crate::client::config::ChannelConfig;
use crate::client::connection::Connection;
use crate::driver::opening::{OpeningError, link_status, open_client};
use crate::driver::{Driver, Role};
#[cfg(all(feature = "shm", target_os = "linux"))]
use crate::transport::shm;
use crate::transport::{BoxFuture, Dial, Link, inproc, tcp, unix};
use punctual_proto::handshake::{HandshakeError, Hello};
use punctual_proto::status::Status;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::time::timeout;

#[derive(Debug, Clone)]
pub(crate) enum Target {
    Address(Address),
    /// One of the sockets that a TCP or TLS address's name stands for.
    Resolved(Address, SocketAddr),
    Custom(Arc<dyn Dial>),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Address(address) => address.fmt(f),
            Target::Resolved(address, socket) => write!(f, "{address} at {socket}"),
            Target::Custom(dial) => f.write_str(&dial.address()),
        }
    }
}

/// A connection, and the task's future that moves it.
pub(crate) type Driven = (Arc<Connection>, BoxFuture<'static, ()>);

/// How one try to connect is to be made.
pub(crate) struct Try<'a> {
    pub(crate) config: &'a ChannelConfig,
    /// Makes the connection of what was agreed.
    pub(crate) build:
        &'a (dyn Fn(&punctual_proto::handshake::Agreement, &punctual_proto::handshake::Welcome) -> Connection + Sync),
}

impl Target {
    /// One try.
    ///
    /// # Errors
    /// One line that says what is wrong, with the address.
    pub(crate) async fn connect(&self, attempt: &Try<'_>) -> Result<Driven, Status> {
        match self {
            Target::Address(Address::Tcp { host, port }) => self.open(tcp::connect(host, *port), attempt).await,
            #[cfg(feature = "_tls")]
            Target::Address(Address::Tls { host, port }) => {
                let tls = attempt.config.tls.clone().ok_or_else(|| self.untrusted())?;
                let link = async move { tls.connect(host, tcp::connect(host, *port).await?).await };
                self.open(link, attempt).await
            }
            #[cfg(feature = "_tls")]
            Target::Resolved(Address::Tls { host, .. }, socket) => {
                let tls = attempt.config.tls.clone().ok_or_else(|| self.untrusted())?;
                let (ip, port) = (socket.ip().to_string(), socket.port());
                let link = async move { tls.connect(host, tcp::connect(&ip, port).await?).await };
                self.open(link, attempt).await
            }
            Target::Resolved(Address::Tcp { .. }, socket) => {
                let ip = socket.ip().to_string();
                self.open(tcp::connect(&ip, socket.port()), attempt).await
            }
            Target::Resolved(..) => Err(Status::internal(format!("{self} was looked up, and has no name"))),
            #[cfg(not(feature = "_tls"))]
            Target::Address(Address::Tls { .. }) => Err(self.unreachable(&tcp::without_tls())),
            Target::Address(Address::Unix(path)) => self.open(unix::connect(path), attempt).await,
            Target::Address(Address::UnixAbstract(name)) => {
                self.open(async { unix::connect_abstract(name) }, attempt).await
            }
            #[cfg(all(feature = "shm", target_os = "linux"))]
            Target::Address(Address::Shm(path)) => self.open(shm::connect(path), attempt).await,
            #[cfg(not(all(feature = "shm", target_os = "linux")))]
            Target::Address(Address::Shm(_)) => Err(self.unreachable(&crate::transport::without_shm())),
            Target::Address(Address::Inproc(name)) => self.open(inproc::connect(name), attempt).await,
            Target::Custom(dial) => self.open(dial.dial(), attempt).await,
        }
    }

    #[cfg(feature = "_tls")]
    fn untrusted(&self) -> Status {
        Status::invalid_argument(format!(
            "cannot connect to {self}: nobody is trusted for it yet; set ChannelConfig::tls"
        ))
    }

    async fn open<L: Link>(
        &self,
        link: impl Future<Output = io::Result<L>>,
        attempt: &Try<'_>,
    ) -> Result<Driven, Status> {
        let config = attempt.config;
        let link = timeout(config.connect_timeout, link).await.unwrap_or_else(|_| {
            let text = format!("no answer within {:?}", config.connect_timeout);
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
        });
        let mut link = link.map_err(|error| self.unreachable(&error))?;
        let mut hello = Hello::new(config.limits).with_compression(config.compression.profiles());
        let within = config.limits.handshake_timeout;
        let opening = async {
            if let Some(credentials) = &config.credentials {
                hello.authentication = credentials.fetch().await.map_err(HandshakeError::Refused)?;
            }
            open_client(&mut link, &hello).await
        };
        let opened = timeout(within, opening).await.unwrap_or_else(|_| {
            let text = format!("the handshake did not end within {within:?}");
            Err(OpeningError::Io(io::Error::new(io::ErrorKind::TimedOut, text)))
        });
        let (opened, welcome) = opened.map_err(|error| {
            let status = error.to_status();
            Status::new(status.code(), format!("cannot connect to {self}: {}", status.message()))
        })?;
        let connection = Arc::new((attempt.build)(&opened.agreement, &welcome));
        let driver = Driver::new(link, Arc::clone(&connection), &opened.agreement, opened.rest);
        Ok((connection, Box::pin(driver)))
    }

    /// One line for each way in which nobody is there.
    fn unreachable(&self, error: &io::Error) -> Status {
        let hint = match (self, error.kind()) {
            (Target::Address(Address::Unix(_) | Address::Shm(_)), io::ErrorKind::NotFound) => {
                "there is no such socket file; is the server running?"
            }
            (Target::Address(Address::Unix(_) | Address::Shm(_)), io::ErrorKind::ConnectionRefused) => {
                "the socket file is stale: no process listens on it; start the server"
            }
            // What the opening of shared memory refuses says so itself.
            (Target::Address(Address::Unix(_) | Address::Shm(_)), io::ErrorKind::PermissionDenied)
                if error.raw_os_error().is_some() =>
            {
                "the socket file's permissions do not let this user in"
            }
            (
                Target::Address(Address::Tcp { .. } | Address::Tls { .. }) | Target::Resolved(..),
                io::ErrorKind::ConnectionRefused,
            ) => "nothing listens on that port; is the server running?",
            (Target::Address(Address::UnixAbstract(_)), io::ErrorKind::ConnectionRefused) => {
                "nothing listens under that name; is the server running?"
            }
            _ => {
                let status = link_status(error);
                return Status::new(status.code(), format!("cannot connect to {self}: {}", status.message()));
            }
        };
        Status::unavailable(format!("cannot connect to {self}: {hint}"))
    }
}

const _: fn() = || {
    fn is_role<R: Role>() {}
    is_role::<Connection>();
};
