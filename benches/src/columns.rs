//! The columns: one module each, with a server and a client that do the same work.

pub mod punctual;
pub mod tarpc;
pub mod tonic;

use crate::case::Case;
use crate::load::Caller;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// The timeout set on each call.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// One product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Column {
    /// This project.
    Punctual,
    /// gRPC.
    Tonic,
    /// tarpc with its bincode transport.
    Tarpc,
}

impl Column {
    /// All of them, in the order of the table.
    pub const ALL: [Column; 3] = [Column::Punctual, Column::Tonic, Column::Tarpc];

    /// The name on the command line and in the table.
    pub fn name(self) -> &'static str {
        match self {
            Column::Punctual => "punctual",
            Column::Tonic => "tonic",
            Column::Tarpc => "tarpc",
        }
    }

    /// Serves on `socket` until the process ends; calls `ready` once it listens.
    pub async fn serve(self, socket: &Path, ready: impl FnOnce()) -> anyhow::Result<()> {
        match self {
            Column::Punctual => punctual::serve(socket, ready).await,
            Column::Tonic => tonic::serve(socket, ready).await,
            Column::Tarpc => tarpc::serve(socket, ready).await,
        }
    }

    /// Connects once and runs every caller as a task of its own until it has had enough.
    pub async fn call(self, socket: &Path, case: Case, callers: Vec<Caller>) -> anyhow::Result<()> {
        match self {
            Column::Punctual => punctual::call(socket, case, callers).await,
            Column::Tonic => tonic::call(socket, case, callers).await,
            Column::Tarpc => tarpc::call(socket, case, callers).await,
        }
    }
}
