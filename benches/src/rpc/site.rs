//! Where one trial takes place: its transport, its address, its certificates.

use crate::rpc::transport::Transport;
use anyhow::Context as _;
use clap::Args;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The one name of the in-process transport.
pub const INPROC: &str = "bench";

/// What both sides of a trial are told.
#[derive(Debug, Clone, Args)]
pub struct Site {
    #[arg(long)]
    pub transport: Transport,
    /// Holds the socket and the certificates
    #[arg(long)]
    pub folder: PathBuf,
    /// Where the server said that it listens; not given to the server
    #[arg(long, default_value = "")]
    pub address: String,
}

impl Site {
    /// Where a server is to listen; the kernel chooses ports.
    pub fn to_bind(&self) -> anyhow::Result<String> {
        Ok(match self.transport {
            Transport::Unix | Transport::Shm => {
                let path = self.folder.join("bench.sock");
                // A socket of an earlier trial is nobody's any more: its server has ended.
                let _ = std::fs::remove_file(&path);
                format!("{}:{}", self.transport, path.to_str().context("the temporary folder's name is not UTF-8")?)
            }
            Transport::Tcp => "tcp://127.0.0.1:0".to_owned(),
            Transport::Tls => "tls://127.0.0.1:0".to_owned(),
            Transport::Inproc => format!("inproc:{INPROC}"),
        })
    }

    /// The path of a Unix socket's address.
    pub fn path(address: &str) -> anyhow::Result<&Path> {
        address.strip_prefix("unix:").map(Path::new).with_context(|| format!("{address} is no Unix socket"))
    }

    /// The socket address of a TCP or TLS one.
    pub fn socket_address(address: &str) -> anyhow::Result<SocketAddr> {
        let (_, rest) = address.split_once("://").with_context(|| format!("{address} has no port"))?;
        rest.parse().with_context(|| format!("{address} is no socket address"))
    }
}
