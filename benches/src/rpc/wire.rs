//! The connections of the floor and the peers, which bring no transports of their own or not these. Punctual brings its own.

use crate::rpc::certificate;
use crate::rpc::site::{INPROC, Site};
use crate::rpc::transport::Transport;
use anyhow::Context as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::{TlsAcceptor, TlsStream};

/// Bytes under way in each direction of an in-process connection: what Punctual's own transport holds.
const INPROC_BYTES: usize = 256 * 1024;

/// In-process connections that wait to be accepted.
const INPROC_BACKLOG: usize = 64;

/// The one in-process listener, while there is one.
static INPROC_LISTENER: Mutex<Option<mpsc::Sender<DuplexStream>>> = Mutex::new(None);

/// A connection.
#[derive(Debug)]
pub enum Wire {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    Inproc(DuplexStream),
}

/// A listener.
pub enum Wires {
    Unix(UnixListener),
    Tcp(TcpListener),
    Tls(TcpListener, TlsAcceptor),
    Inproc(mpsc::Receiver<DuplexStream>),
}

impl Wires {
    /// Listens, and says where.
    pub async fn bind(site: &Site) -> anyhow::Result<(Self, String)> {
        let address = site.to_bind()?;
        Ok(match site.transport {
            Transport::Unix => (Wires::Unix(UnixListener::bind(Site::path(&address)?)?), address),
            Transport::Tcp => {
                let listener = TcpListener::bind(Site::socket_address(&address)?).await?;
                let address = format!("tcp://{}", listener.local_addr()?);
                (Wires::Tcp(listener), address)
            }
            Transport::Tls => {
                let listener = TcpListener::bind(Site::socket_address(&address)?).await?;
                let address = format!("tls://{}", listener.local_addr()?);
                (Wires::Tls(listener, certificate::acceptor(&site.folder)?), address)
            }
            Transport::Shm => anyhow::bail!("shared memory is a transport of Punctual's own"),
            Transport::Inproc => {
                let (sender, receiver) = mpsc::channel(INPROC_BACKLOG);
                *INPROC_LISTENER.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
                (Wires::Inproc(receiver), address)
            }
        })
    }

    /// The next connection, its handshake done.
    pub async fn accept(&mut self) -> anyhow::Result<Wire> {
        Ok(match self {
            Wires::Unix(listener) => Wire::Unix(listener.accept().await?.0),
            Wires::Tcp(listener) => Wire::Tcp(undelayed(listener.accept().await?.0)?),
            Wires::Tls(listener, acceptor) => {
                let stream = undelayed(listener.accept().await?.0)?;
                Wire::Tls(Box::new(TlsStream::Server(acceptor.accept(stream).await?)))
            }
            Wires::Inproc(receiver) => Wire::Inproc(receiver.recv().await.context("nobody can connect any more")?),
        })
    }
}

fn undelayed(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    Ok(stream)
}

impl Wire {
    /// Connects to where the site's server listens.
    pub async fn connect(site: &Site) -> anyhow::Result<Self> {
        Ok(match site.transport {
            Transport::Unix => Wire::Unix(UnixStream::connect(Site::path(&site.address)?).await?),
            Transport::Tcp => Wire::Tcp(undelayed(TcpStream::connect(Site::socket_address(&site.address)?).await?)?),
            Transport::Tls => {
                let stream = undelayed(TcpStream::connect(Site::socket_address(&site.address)?).await?)?;
                let name = ServerName::try_from(certificate::HOST)?;
                let stream = certificate::connector(&site.folder)?.connect(name, stream).await?;
                Wire::Tls(Box::new(TlsStream::Client(stream)))
            }
            Transport::Shm => anyhow::bail!("shared memory is a transport of Punctual's own"),
            Transport::Inproc => {
                let sender = INPROC_LISTENER.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let (ours, theirs) = tokio::io::duplex(INPROC_BYTES);
                let sender = sender.with_context(|| format!("nobody listens at inproc:{INPROC}"))?;
                sender.send(theirs).await.context("the listener is gone")?;
                Wire::Inproc(ours)
            }
        })
    }
}

/// Calls the same method of whichever it is.
macro_rules! each {
    ($wire:expr, $stream:ident => $call:expr) => {
        match $wire.get_mut() {
            Wire::Unix($stream) => $call,
            Wire::Tcp($stream) => $call,
            Wire::Tls($stream) => $call,
            Wire::Inproc($stream) => $call,
        }
    };
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_read(cx, buffer))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        each!(self, stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self, stream => Pin::new(stream).poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Wire::Unix(stream) => stream.is_write_vectored(),
            Wire::Tcp(stream) => stream.is_write_vectored(),
            Wire::Tls(stream) => stream.is_write_vectored(),
            Wire::Inproc(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}
