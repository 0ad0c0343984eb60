//! A relay between a client and a server that keeps what passed.

use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// What passed so far, both ways.
#[derive(Clone, Default)]
pub(crate) struct Tap(Arc<Mutex<Vec<u8>>>);

impl Tap {
    /// Relays one connection to `server`, and gives the address to connect to.
    pub(crate) async fn before(server: &str) -> (String, Tap) {
        let server = server.strip_prefix("tcp://").expect("a TCP address").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = format!("tcp://{}", listener.local_addr().expect("it is bound"));
        let tap = Tap::default();
        let kept = tap.clone();
        tokio::spawn(async move {
            let (near, _) = listener.accept().await.expect("a client comes");
            let far = TcpStream::connect(server).await.expect("the server listens");
            let ((near_read, near_write), (far_read, far_write)) = (near.into_split(), far.into_split());
            tokio::spawn(kept.clone().copy(near_read, far_write));
            kept.copy(far_read, near_write).await;
        });
        (address, tap)
    }

    async fn copy(self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let mut block = vec![0; 16 * 1024];
        while let Ok(length @ 1..) = from.read(&mut block).await {
            let part = block.get(..length).unwrap_or_default();
            self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(part);
            if to.write_all(part).await.is_err() {
                return;
            }
        }
    }

    /// Whether these bytes passed, in one piece.
    pub(crate) fn saw(&self, text: &str) -> bool {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.windows(text.len()).any(|window| window == text.as_bytes())
    }
}
