//! A returned stream as an answer: one item a line, or one an event.
//!
//! Each line is an object of one field: `{"item": ..}`, and at last `{"end": true}` or `{"error": {..}}`. An answer without a last line
//! was cut. Events have the same data, under the names `item`, `end` and `error`.

use super::refusal;
use crate::http::answer::{Refusal, value};
use crate::http::app::stopped;
use crate::http::pipe::{Pipe, pipe};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use punctual::rpc::JsonStream;
use punctual::{Bytes, CallError};
use serde_json::json;
use std::time::Duration;
use tokio::sync::watch;

/// How long the answer's head waits for the first item: what is refused at once is refused with a status.
pub(in crate::http) const FIRST_WAIT_MAX: Duration = Duration::from_millis(500);

/// How items are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Lines,
    Events,
}

impl Form {
    fn write(self, event: &str, data: &str) -> Bytes {
        Bytes::from(match self {
            Form::Lines => format!("{data}\n"),
            Form::Events => format!("event: {event}\ndata: {data}\n\n"),
        })
    }
}

type Next = Option<Result<Bytes, CallError<Bytes>>>;

/// Answers with what comes. A client that goes away cancels the call.
pub(super) async fn answer(
    method: &str,
    mut items: JsonStream,
    form: Form,
    first_wait: Duration,
    mut stopping: watch::Receiver<bool>,
) -> Result<Response, Refusal> {
    let first = match tokio::time::timeout(first_wait, items.next()).await {
        Ok(Some(Err(error))) => return Err(refusal(method, error)),
        Ok(first) => Some(first),
        Err(_) => None,
    };
    let (mut pipe, body) = pipe();
    let method = method.to_owned();
    tokio::spawn(async move {
        if let Some(first) = first
            && !pass(&mut pipe, form, &method, first).await
        {
            return;
        }
        loop {
            let next = tokio::select! {
                biased;
                () = pipe.closed() => return,
                () = stopped(&mut stopping) => return,
                next = items.next() => next,
            };
            if !pass(&mut pipe, form, &method, next).await {
                return;
            }
        }
    });
    let mut response = Response::new(body);
    let content_type = match form {
        Form::Lines => "application/x-ndjson",
        Form::Events => "text/event-stream",
    };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    Ok(response)
}

/// Writes what came. Gives whether there is more to come.
async fn pass(pipe: &mut Pipe, form: Form, method: &str, next: Next) -> bool {
    match next {
        Some(Ok(item)) => pipe.send(form.write("item", &json!({"item": value(&item)}).to_string())).await,
        Some(Err(error)) => {
            pipe.send(form.write("error", &refusal(method, error).json())).await;
            false
        }
        None => {
            pipe.send(form.write("end", "{\"end\":true}")).await;
            false
        }
    }
}
