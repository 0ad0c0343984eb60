//! A TCP proxy that cuts a connection at a chosen word: before it reaches the server, or after the server has answered it
//! and before the answer reaches the client. To a client the two look alike.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// How much is read at once, in bytes.
const CHUNK_BYTES: usize = 64 << 10;

/// How long a word may be to be found across two reads, in bytes.
const WORD_BYTES_MAX: usize = 64;

/// Where a connection is cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cut {
    /// What the client sends with this word in it never reaches the server.
    Before(Vec<u8>),
    /// It reaches the server, which begins to answer; the answer never reaches the client.
    After(Vec<u8>),
}

impl Cut {
    fn word(&self) -> &[u8] {
        match self {
            Cut::Before(word) | Cut::After(word) => word,
        }
    }
}

/// A proxy on a port of its own. It ends when it is dropped.
#[derive(Debug)]
pub struct CutProxy {
    address: SocketAddr,
    plan: Arc<Plan>,
    accepting: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Plan {
    cuts: Mutex<VecDeque<Cut>>,
    made: AtomicUsize,
}

impl Plan {
    /// The next cut, if its word ends in what the client has sent behind `before`.
    fn take(&self, before: &[u8], sent: &[u8]) -> Option<Cut> {
        let mut cuts = self.cuts.lock().unwrap_or_else(PoisonError::into_inner);
        let word = cuts.front()?.word();
        let tail = before.get(before.len().saturating_sub(word.len().saturating_sub(1))..).unwrap_or_default();
        let sent = [tail, sent].concat();
        if !sent.windows(word.len().max(1)).any(|part| part == word) {
            return None;
        }
        self.made.fetch_add(1, Ordering::SeqCst);
        cuts.pop_front()
    }
}

impl CutProxy {
    /// Listens on a port of the kernel's choice and forwards to `server`, written `host:port`.
    ///
    /// # Errors
    /// If no port is to be had.
    pub async fn start(server: &str) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let plan = Arc::new(Plan::default());
        let (server, shared) = (server.to_owned(), Arc::clone(&plan));
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (server, plan) = (server.clone(), Arc::clone(&shared));
                tokio::spawn(async move {
                    if let Ok(server) = TcpStream::connect(&server).await {
                        forward(client, server, &plan).await;
                    }
                });
            }
        });
        Ok(CutProxy { address, plan, accepting })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts once, on whichever connection sends the word first; several cuts come in the order in which they were asked for.
    pub fn cut(&self, cut: Cut) {
        self.plan.cuts.lock().unwrap_or_else(PoisonError::into_inner).push_back(cut);
    }

    /// How many cuts were made.
    #[must_use]
    pub fn cuts(&self) -> usize {
        self.plan.made.load(Ordering::SeqCst)
    }
}

impl Drop for CutProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Forwards both ways until one side is gone or the plan says cut; both connections end with it.
async fn forward(mut client: TcpStream, mut server: TcpStream, plan: &Plan) {
    let (mut from_client, mut from_server) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
    // The end of what was sent before: a word may lie across two reads.
    let mut seen: Vec<u8> = Vec::new();
    loop {
        tokio::select! {
            read = client.read(&mut from_client) => {
                let Some(sent) = read.ok().filter(|count| *count > 0).and_then(|count| from_client.get(..count)) else {
                    return;
                };
                match plan.take(&seen, sent) {
                    Some(Cut::Before(_)) => return,
                    Some(Cut::After(_)) => {
                        if server.write_all(sent).await.is_ok() {
                            // The first byte of the answer says that the server has done what it was asked.
                            let _ = server.read(&mut from_server).await;
                        }
                        return;
                    }
                    None => {}
                }
                seen.extend_from_slice(sent);
                seen.drain(..seen.len().saturating_sub(WORD_BYTES_MAX));
                if server.write_all(sent).await.is_err() {
                    return;
                }
            }
            read = server.read(&mut from_server) => {
                let Some(answer) = read.ok().filter(|count| *count > 0).and_then(|count| from_server.get(..count)) else {
                    return;
                };
                if client.write_all(answer).await.is_err() {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers each line with itself, and tells what it got.
    async fn echo(got: Arc<Mutex<Vec<u8>>>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let got = Arc::clone(&got);
                tokio::spawn(async move {
                    let mut bytes = [0; 64];
                    while let Ok(count @ 1..) = client.read(&mut bytes).await {
                        got.lock().unwrap().extend_from_slice(&bytes[..count]);
                        client.write_all(&bytes[..count]).await.unwrap();
                    }
                });
            }
        });
        address
    }

    /// What is not meant passes; of the two cuts one lets the word through and none the answer.
    #[tokio::test]
    async fn cuts_are_made_where_asked() {
        for (cut, arrives) in [(Cut::Before(b"now".to_vec()), false), (Cut::After(b"now".to_vec()), true)] {
            let got = Arc::default();
            let server = echo(Arc::clone(&got)).await;
            let proxy = CutProxy::start(&server.to_string()).await.unwrap();
            let mut client = TcpStream::connect(proxy.address()).await.unwrap();
            let mut bytes = [0; 64];
            // What was sent before the cut was asked for is no reason to cut.
            client.write_all(b"now").await.unwrap();
            assert_eq!(client.read(&mut bytes).await.unwrap(), 3);
            proxy.cut(cut);
            client.write_all(b"hello").await.unwrap();
            assert_eq!(client.read(&mut bytes).await.unwrap(), 5);
            assert_eq!(proxy.cuts(), 0);
            client.write_all(b"do it now").await.unwrap();
            assert!(matches!(client.read(&mut bytes).await, Ok(0) | Err(_)));
            assert_eq!((proxy.cuts(), got.lock().unwrap().ends_with(b"do it now")), (1, arrives));
            let mut second = TcpStream::connect(proxy.address()).await.unwrap();
            second.write_all(b"now again").await.unwrap();
            assert_eq!(second.read(&mut bytes).await.unwrap(), 9);
        }
    }
}
