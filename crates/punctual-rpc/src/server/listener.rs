//! The listeners of a server.

use crate::address::Address;
use crate::server::config::ServerConfig;
use crate::server::error::ServerError;
#[cfg(feature = "_tls")]
use crate::tls::ServerTls;
use crate::transport::inproc::InprocListener;
use crate::transport::unix::Unlink;
use crate::transport::{Link, Listen, tcp, unix};
#[cfg(all(feature = "shm", target_os = "linux"))]
use punctual_shm::RingBytes;
use std::io;
use tokio::io::DuplexStream;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// A bound listener.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener, String),
    #[cfg(feature = "_tls")]
    Tls(TcpListener, String, ServerTls),
    Unix(UnixListener, String, #[expect(dead_code, reason = "it acts when it is dropped")] Option<Unlink>),
    #[cfg(all(feature = "shm", target_os = "linux"))]
    Shm(UnixListener, String, RingBytes, #[expect(dead_code, reason = "it acts when it is dropped")] Unlink),
    Inproc(InprocListener, String),
    Custom(Box<dyn Listen>),
}

/// A link that was accepted, and where it came from.
pub(crate) enum Accepted {
    Tcp(TcpStream, String),
    /// The peer has not proved anything yet.
    #[cfg(feature = "_tls")]
    Tls(TcpStream, String, ServerTls),
    Unix(UnixStream, String),
    /// The peer is to be met, and handed its memory.
    #[cfg(all(feature = "shm", target_os = "linux"))]
    Shm(UnixStream, String, RingBytes),
    Inproc(DuplexStream, String),
    Custom(Box<dyn Link>, String),
}

impl Listener {
    pub(crate) async fn bind(address: &Address, config: &ServerConfig) -> Result<Self, ServerError> {
        let fail = |error| ServerError::listen(address, error);
        match address {
            Address::Tcp { host, port } => {
                let listener = tcp::listen(host, *port, config.allow_plaintext_off_loopback).await.map_err(fail)?;
                let local = listener.local_addr().map_err(fail)?;
                Ok(Listener::Tcp(listener, format!("tcp://{local}")))
            }
            #[cfg(feature = "_tls")]
            Address::Tls { host, port } => {
                let tls = config.tls.clone().ok_or_else(|| {
                    ServerError::config(format!("{address} needs a certificate; set ServerConfig::tls"))
                })?;
                let listener = tcp::listen(host, *port, true).await.map_err(fail)?;
                let local = listener.local_addr().map_err(fail)?;
                Ok(Listener::Tls(listener, format!("tls://{local}"), tls))
            }
            #[cfg(not(feature = "_tls"))]
            Address::Tls { .. } => Err(fail(tcp::without_tls())),
            Address::Unix(path) => {
                let listener = unix::listen(path, config.unix_mode).await.map_err(fail)?;
                Ok(Listener::Unix(listener, address.to_string(), Some(Unlink::new(path.clone()))))
            }
            Address::UnixAbstract(name) => {
                Ok(Listener::Unix(unix::listen_abstract(name).map_err(fail)?, address.to_string(), None))
            }
            #[cfg(all(feature = "shm", target_os = "linux"))]
            Address::Shm(path) => {
                let ring = config.ring_bytes()?;
                let listener = unix::listen(path, config.unix_mode).await.map_err(fail)?;
                Ok(Listener::Shm(listener, address.to_string(), ring, Unlink::new(path.clone())))
            }
            #[cfg(not(all(feature = "shm", target_os = "linux")))]
            Address::Shm(_) => Err(fail(crate::transport::without_shm())),
            Address::Inproc(name) => {
                Ok(Listener::Inproc(InprocListener::bind(name).map_err(fail)?, address.to_string()))
            }
        }
    }

    pub(crate) fn address(&self) -> String {
        match self {
            #[cfg(feature = "_tls")]
            Listener::Tls(_, address, _) => address.clone(),
            #[cfg(all(feature = "shm", target_os = "linux"))]
            Listener::Shm(_, address, ..) => address.clone(),
            Listener::Tcp(_, address) | Listener::Unix(_, address, _) | Listener::Inproc(_, address) => address.clone(),
            Listener::Custom(listener) => listener.address(),
        }
    }

    pub(crate) async fn accept(&mut self) -> io::Result<Accepted> {
        match self {
            Listener::Tcp(listener, _) => {
                let (stream, peer) = listener.accept().await?;
                // A peer that is gone already is found out by the handshake.
                let _ = tcp::tune(&stream);
                Ok(Accepted::Tcp(stream, format!("tcp://{peer}")))
            }
            #[cfg(feature = "_tls")]
            Listener::Tls(listener, _, tls) => {
                let (stream, peer) = listener.accept().await?;
                let _ = tcp::tune(&stream);
                Ok(Accepted::Tls(stream, format!("tls://{peer}"), tls.clone()))
            }
            Listener::Unix(listener, address, _) => {
                let (stream, _) = listener.accept().await?;
                Ok(Accepted::Unix(stream, address.clone()))
            }
            #[cfg(all(feature = "shm", target_os = "linux"))]
            Listener::Shm(listener, address, ring, _) => {
                let (stream, _) = listener.accept().await?;
                Ok(Accepted::Shm(stream, address.clone(), *ring))
            }
            Listener::Inproc(listener, address) => Ok(Accepted::Inproc(listener.accept().await?, address.clone())),
            Listener::Custom(listener) => {
                let (link, peer) = listener.accept().await?;
                Ok(Accepted::Custom(link, peer))
            }
        }
    }
}
