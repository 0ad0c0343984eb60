//! A body that is written while it is sent, with room for little: whoever writes waits for whoever reads.

use axum::body::Body;
use punctual::Bytes;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;

/// Pieces that wait for the socket.
const PIECES_MAX: usize = 4;
/// How long a piece may wait for room: a client that reads nothing for so long is gone, or may as well be.
const STALL_MAX: Duration = Duration::from_secs(30);

/// The end that is written to. Dropping it ends the body.
#[derive(Debug)]
pub(super) struct Pipe(mpsc::Sender<Bytes>);

/// Both ends.
pub(super) fn pipe() -> (Pipe, Body) {
    let (sender, receiver) = mpsc::channel(PIECES_MAX);
    (Pipe(sender), Body::from_stream(Pieces(receiver)))
}

impl Pipe {
    /// Sends a piece once there is room. Gives whether somebody still reads.
    pub(super) async fn send(&mut self, piece: Bytes) -> bool {
        matches!(tokio::time::timeout(STALL_MAX, self.0.send(piece)).await, Ok(Ok(())))
    }

    /// Nobody reads any more.
    pub(super) async fn closed(&self) {
        self.0.closed().await;
    }
}

struct Pieces(mpsc::Receiver<Bytes>);

impl futures_core::Stream for Pieces {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|piece| piece.map(Ok))
    }
}
