//! The columns: one module each, with a server and a client that do the same work.

#[cfg(feature = "capnp")]
mod capnp;
mod punctual;
mod tarpc;
pub mod tonic;
#[cfg(feature = "ttrpc")]
mod ttrpc;

use crate::rpc::calls::{Calls, pour, work};
use crate::rpc::case::Case;
use crate::rpc::floor;
use crate::rpc::load::{Caller, Load};
use crate::rpc::site::Site;
use crate::rpc::transport::Transport;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Column {
    /// This project, with handlers that do not wait in their connection's turn (`#[rpc(inline)]`)
    Punctual,
    /// This project, with each handler in a task of its own
    Tasks,
    /// The least that is shaped like an RPC runtime on tokio, without any feature
    Floor,
    /// gRPC
    Tonic,
    /// tarpc with its bincode transport; unary calls only
    Tarpc,
    /// Cap'n Proto's RPC; unary calls only (feature `capnp`)
    Capnp,
    /// containerd's ttrpc; unary calls only (feature `ttrpc`)
    Ttrpc,
}

/// The callers of one client process.
pub struct Work {
    pub case: Case,
    pub connections: usize,
    pub callers: Vec<Caller>,
    pub load: Arc<Load>,
}

/// Connects, and runs each caller as a task of its own until it has had enough. A macro, since whether the tasks are `Send`
/// is only seen where the client's type is known.
macro_rules! run {
    ($client:ty, $spawn:path, $site:expr, $work:expr) => {{
        let Work { case, connections, callers, load } = $work;
        let mut clients = Vec::new();
        for _ in 0..connections {
            clients.push(<$client>::connect($site).await?);
        }
        let mut tasks = Vec::new();
        if case == Case::Beside
            && let Some(client) = clients.first()
        {
            tasks.push($spawn(pour(client.clone(), load)));
        }
        for (caller, client) in callers.into_iter().zip(clients.iter().cycle()) {
            tasks.push($spawn(work(client.clone(), case, caller)));
        }
        for task in tasks {
            task.await??;
        }
        Ok(())
    }};
}

/// Opens connections that do one call each and then nothing; they live until `done`.
macro_rules! idle {
    ($client:ty, $site:expr, $connections:expr, $opened:expr, $done:expr) => {{
        let mut clients = Vec::new();
        for index in 0..$connections {
            let mut client = <$client>::connect($site).await?;
            anyhow::ensure!(client.add(1, 7).await? == 8, "a wrong sum");
            clients.push(client);
            $opened(index + 1);
        }
        $done.await;
        drop(clients);
        Ok(())
    }};
}

impl Column {
    /// All that there may be, in the order of the table.
    pub const ALL: [Column; 7] =
        [Column::Punctual, Column::Tasks, Column::Floor, Column::Tonic, Column::Tarpc, Column::Capnp, Column::Ttrpc];

    /// Those of a quick look.
    pub const QUICK: [Column; 4] = [Column::Punctual, Column::Floor, Column::Tonic, Column::Tarpc];

    /// The name on the command line and in the table.
    pub fn name(self) -> &'static str {
        match self {
            Column::Punctual => "punctual",
            Column::Tasks => "tasks",
            Column::Floor => "floor",
            Column::Tonic => "tonic",
            Column::Tarpc => "tarpc",
            Column::Capnp => "capnp",
            Column::Ttrpc => "ttrpc",
        }
    }

    /// Whether it is a product of somebody else's.
    pub fn is_peer(self) -> bool {
        !matches!(self, Column::Punctual | Column::Tasks | Column::Floor)
    }

    /// Whether this build has it.
    pub fn is_built(self) -> bool {
        match self {
            Column::Capnp => cfg!(feature = "capnp"),
            Column::Ttrpc => cfg!(feature = "ttrpc"),
            _ => true,
        }
    }

    /// Whether it has such calls.
    pub fn offers(self, case: Case) -> bool {
        match self {
            Column::Punctual | Column::Tasks | Column::Floor => true,
            Column::Tonic => case != Case::Oneway,
            Column::Tarpc | Column::Capnp | Column::Ttrpc => case != Case::Oneway && !case.has_streams(),
        }
    }

    /// Whether it can be reached so.
    pub fn speaks(self, transport: Transport) -> bool {
        match transport {
            Transport::Unix => true,
            Transport::Shm => self == Column::Punctual,
            Transport::Tcp | Transport::Tls | Transport::Inproc => self != Column::Ttrpc,
        }
    }

    /// Whether its objects stay on one thread.
    pub fn is_local(self) -> bool {
        self == Column::Capnp
    }

    /// Serves until the process ends; calls `ready` with its address once it listens.
    pub async fn serve(self, site: &Site, ready: impl FnOnce(&str)) -> anyhow::Result<()> {
        match self {
            Column::Punctual => punctual::serve(site, punctual::Handlers::Inline, ready).await,
            Column::Tasks => punctual::serve(site, punctual::Handlers::Tasks, ready).await,
            Column::Floor => floor::serve(site, ready).await,
            Column::Tonic => tonic::serve(site, ready).await,
            Column::Tarpc => tarpc::serve(site, ready).await,
            #[cfg(feature = "capnp")]
            Column::Capnp => capnp::serve(site, ready).await,
            #[cfg(feature = "ttrpc")]
            Column::Ttrpc => ttrpc::serve(site, ready).await,
            #[cfg(not(all(feature = "capnp", feature = "ttrpc")))]
            absent => absent.refuse(),
        }
    }

    /// Connects and does the work.
    pub async fn call(self, site: &Site, all: Work) -> anyhow::Result<()> {
        match self {
            Column::Punctual | Column::Tasks => run!(punctual::Client, tokio::spawn, site, all),
            Column::Floor => run!(floor::Client, tokio::spawn, site, all),
            Column::Tonic => run!(tonic::Client, tokio::spawn, site, all),
            Column::Tarpc => run!(tarpc::Client, tokio::spawn, site, all),
            #[cfg(feature = "capnp")]
            Column::Capnp => run!(capnp::Client, tokio::task::spawn_local, site, all),
            #[cfg(feature = "ttrpc")]
            Column::Ttrpc => run!(ttrpc::Client, tokio::spawn, site, all),
            #[cfg(not(all(feature = "capnp", feature = "ttrpc")))]
            absent => absent.refuse(),
        }
    }

    /// Opens `connections` and leaves them alone until `done`; `opened` is told how many there are after each.
    pub async fn idle(
        self,
        site: &Site,
        connections: usize,
        mut opened: impl FnMut(usize),
        done: impl Future<Output = ()>,
    ) -> anyhow::Result<()> {
        match self {
            Column::Punctual | Column::Tasks => idle!(punctual::Client, site, connections, opened, done),
            Column::Floor => idle!(floor::Client, site, connections, opened, done),
            Column::Tonic => idle!(tonic::Client, site, connections, opened, done),
            Column::Tarpc => idle!(tarpc::Client, site, connections, opened, done),
            #[cfg(feature = "capnp")]
            Column::Capnp => idle!(capnp::Client, site, connections, opened, done),
            #[cfg(feature = "ttrpc")]
            Column::Ttrpc => idle!(ttrpc::Client, site, connections, opened, done),
            #[cfg(not(all(feature = "capnp", feature = "ttrpc")))]
            absent => absent.refuse(),
        }
    }

    #[cfg(not(all(feature = "capnp", feature = "ttrpc")))]
    fn refuse(self) -> anyhow::Result<()> {
        anyhow::bail!("this build has no {0}; build it with --features {0}", self.name())
    }
}

#[cfg(test)]
mod tests;
