//! What is sent with a request, within a bound of bytes and one of time.

use super::answer::Refusal;
use axum::body::Body;
use axum::http::StatusCode;
use futures_core::Stream;
use punctual::{Bytes, Code};
use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

/// The most bytes: as much as a message of a call may have by default.
const BYTES_MAX: usize = 4 << 20;
/// How long they may take to come.
const TIME_MAX: Duration = Duration::from_secs(30);

/// All of it.
pub(super) async fn read(body: Body) -> Result<Bytes, Refusal> {
    let slow = || {
        let text = format!("the body did not come within {TIME_MAX:?}");
        Refusal::with_status(StatusCode::REQUEST_TIMEOUT, Code::DeadlineExceeded, text)
    };
    tokio::time::timeout(TIME_MAX, collect(body)).await.map_err(|_| slow())?
}

async fn collect(body: Body) -> Result<Bytes, Refusal> {
    let mut pieces = pin!(body.into_data_stream());
    let mut all = Vec::new();
    while let Some(piece) = poll_fn(|cx| pieces.as_mut().poll_next(cx)).await {
        let piece = piece.map_err(|_| Refusal::new(Code::InvalidArgument, "the body broke off"))?;
        if all.len().saturating_add(piece.len()) > BYTES_MAX {
            let text = format!("the body has more than {BYTES_MAX} bytes, the most that is read; split it");
            return Err(Refusal::with_status(StatusCode::PAYLOAD_TOO_LARGE, Code::ResourceExhausted, text));
        }
        all.extend_from_slice(&piece);
    }
    Ok(all.into())
}
