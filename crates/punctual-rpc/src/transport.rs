//! Transports: how bytes get from one side to the other.
//!
//! TCP, Unix sockets, shared memory and in-process links are built in. Anything else that carries bytes both ways in order can be one:
//! implement [`Dial`] for the client's side and [`Listen`] for the server's.

pub(crate) mod inproc;
#[cfg(all(feature = "shm", target_os = "linux"))]
pub(crate) mod shm;
pub(crate) mod tcp;
pub(crate) mod unix;

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::pin::Pin;
use tokio::io::{AsyncRead, AsyncWrite};

/// The error where a `shm:` address is used in a build without shared memory.
#[cfg(not(all(feature = "shm", target_os = "linux")))]
pub(crate) fn without_shm() -> io::Error {
    let text = if cfg!(target_os = "linux") {
        "this program was built without shared memory; build it with the feature `shm`, or use a Unix socket"
    } else {
        "shared memory exists on Linux only; use a Unix socket"
    };
    io::Error::new(io::ErrorKind::Unsupported, text)
}

/// A future in a box, as the two transport traits return it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A link: bytes both ways, in order. Vectored writes help where it has them.
///
/// # Cancel safety
/// Both directions are polled by one task, and a poll that returns pending must have taken nothing.
pub trait Link: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Link for T {}

/// The client's side of a transport of your own.
pub trait Dial: Debug + Send + Sync + 'static {
    /// Opens one link. It is called again for each try to reconnect, and dropped when a try takes too long.
    fn dial(&self) -> BoxFuture<'_, io::Result<Box<dyn Link>>>;

    /// The address for messages.
    fn address(&self) -> String;
}

/// The server's side of a transport of your own.
pub trait Listen: Debug + Send + 'static {
    /// The next link, and the peer's address for messages.
    ///
    /// # Cancel safety
    /// Dropping the future must lose no link.
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Box<dyn Link>, String)>>;

    /// The address that clients connect to, for messages.
    fn address(&self) -> String;
}
