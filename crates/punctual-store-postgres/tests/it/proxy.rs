//! A way to the server that a test can cut at a chosen moment.

use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// When the way is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The client's bytes with the mark in them do not reach the server.
    Before,
    /// They do, and the server's answer does not reach the client.
    After,
}

/// Set by a test, taken by the connection that it meets.
type Armed = Arc<Mutex<Option<(Cut, &'static [u8])>>>;

/// Connections through it live until they are cut.
#[derive(Debug)]
pub(crate) struct Proxy {
    port: u16,
    armed: Armed,
    /// Counts up with each cut of everything.
    generation: watch::Sender<u64>,
    /// Whether new connections are refused.
    closed: Arc<Mutex<bool>>,
}

impl Proxy {
    /// A way to this address.
    pub(crate) async fn to(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (generation, receiver) = watch::channel(0);
        let proxy = Proxy { port, armed: Armed::default(), generation, closed: Arc::default() };
        let (armed, closed) = (proxy.armed.clone(), proxy.closed.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *closed.lock().unwrap() {
                    continue;
                }
                let (target, armed, receiver) = (target.clone(), armed.clone(), receiver.clone());
                tokio::spawn(async move {
                    if let Ok(server) = TcpStream::connect(target).await {
                        carry(client, server, armed, receiver).await;
                    }
                });
            }
        });
        proxy
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Cuts the connection that next sends these bytes.
    pub(crate) fn arm(&self, cut: Cut, mark: &'static [u8]) {
        *self.armed.lock().unwrap() = Some((cut, mark));
    }

    /// Whether the cut has happened.
    pub(crate) fn has_cut(&self) -> bool {
        self.armed.lock().unwrap().is_none()
    }

    /// Cuts everything, and lets nothing through until told.
    pub(crate) fn close(&self) {
        *self.closed.lock().unwrap() = true;
        self.generation.send_modify(|generation| *generation += 1);
    }

    pub(crate) fn open(&self) {
        *self.closed.lock().unwrap() = false;
    }
}

async fn carry(mut client: TcpStream, mut server: TcpStream, armed: Armed, mut generation: watch::Receiver<u64>) {
    let _ = generation.borrow_and_update();
    let (mut from_client, mut from_server) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            _ = generation.changed() => return,
            read = client.read(&mut from_client) => {
                let Some(bytes) = read.ok().filter(|read| *read > 0).and_then(|read| from_client.get(..read)) else { return };
                let cut = {
                    let mut armed = armed.lock().unwrap();
                    let meets = |(_, mark): &(Cut, &[u8])| bytes.windows(mark.len()).any(|window| window == *mark);
                    if armed.as_ref().is_some_and(meets) { armed.take().map(|(cut, _)| cut) } else { None }
                };
                if cut == Some(Cut::Before) {
                    return;
                }
                if server.write_all(bytes).await.is_err() {
                    return;
                }
                if cut == Some(Cut::After) {
                    // The server is done with all of it when it says that it is ready, outside of a transaction.
                    while let Ok(read) = server.read(&mut from_server).await
                        && read > 0
                        && !from_server.get(..read).is_some_and(|bytes| bytes.ends_with(b"Z\0\0\0\x05I"))
                    {}
                    return;
                }
            }
            read = server.read(&mut from_server) => {
                let Some(bytes) = read.ok().filter(|read| *read > 0).and_then(|read| from_server.get(..read)) else { return };
                if client.write_all(bytes).await.is_err() {
                    return;
                }
            }
        }
    }
}
