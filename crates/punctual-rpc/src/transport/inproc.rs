//! Links inside one process, by name.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};
use tokio::io::DuplexStream;
use tokio::sync::mpsc;

/// Bytes under way in each direction of a link, as a socket's buffer would hold.
const BUFFER_BYTES: usize = 256 * 1024;

/// Links that wait to be accepted, as a socket's backlog.
const BACKLOG: usize = 1_024;

static NAMES: Mutex<BTreeMap<String, mpsc::Sender<DuplexStream>>> = Mutex::new(BTreeMap::new());

/// Opens a link to the listener of this name.
pub(crate) async fn connect(name: &str) -> io::Result<DuplexStream> {
    let sender = NAMES.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
    let gone = || io::Error::new(io::ErrorKind::NotFound, "no server of this process listens under that name");
    let sender = sender.ok_or_else(gone)?;
    let (ours, theirs) = tokio::io::duplex(BUFFER_BYTES);
    sender.send(theirs).await.map_err(|_| gone())?;
    Ok(ours)
}

/// A name that is taken until this is dropped.
#[derive(Debug)]
pub(crate) struct InprocListener {
    name: String,
    links: mpsc::Receiver<DuplexStream>,
}

impl InprocListener {
    pub(crate) fn bind(name: &str) -> io::Result<Self> {
        let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        if names.get(name).is_some_and(|sender| !sender.is_closed()) {
            return Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                "another server of this process listens under that name; choose another one",
            ));
        }
        let (sender, links) = mpsc::channel(BACKLOG);
        names.insert(name.to_owned(), sender);
        Ok(InprocListener { name: name.to_owned(), links })
    }

    pub(crate) async fn accept(&mut self) -> io::Result<DuplexStream> {
        self.links.recv().await.ok_or(io::Error::new(io::ErrorKind::BrokenPipe, "the name was given up"))
    }
}

impl Drop for InprocListener {
    fn drop(&mut self) {
        self.links.close();
        let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        if names.get(&self.name).is_some_and(mpsc::Sender::is_closed) {
            names.remove(&self.name);
        }
    }
}
