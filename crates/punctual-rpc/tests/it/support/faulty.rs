//! A client's side of a Unix socket whose links fail on command.

use punctual_rpc::transport::{BoxFuture, Dial, Link};
use punctual_testkit::Faults;
use std::io;
use std::path::PathBuf;
use tokio::net::UnixStream;

/// Dials a socket file, under faults.
#[derive(Debug)]
pub(crate) struct FaultyDial {
    path: PathBuf,
    faults: Faults,
}

impl FaultyDial {
    /// `address` is a server's (`unix:PATH`).
    pub(crate) fn new(address: &str, faults: Faults) -> Self {
        let path = address.strip_prefix("unix:").expect("a socket file").into();
        FaultyDial { path, faults }
    }
}

impl Dial for FaultyDial {
    fn dial(&self) -> BoxFuture<'_, io::Result<Box<dyn Link>>> {
        Box::pin(async {
            let link = UnixStream::connect(&self.path).await?;
            Ok(Box::new(self.faults.link(link)) as Box<dyn Link>)
        })
    }

    fn address(&self) -> String {
        format!("faulty:{}", self.path.display())
    }
}
