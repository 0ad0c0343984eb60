//! One client of the events.

use super::buffer::{Batch, Buffer, Place};
use super::{Event, KINDS, VERSION};
use crate::http::answer::Refusal;
use crate::http::app::{App, stopped};
use crate::http::pipe::{Pipe, pipe};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use punctual::{Bytes, Code};
use reqwest::Url;
use serde_json::json;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// The most clients at once.
const STREAMS_MAX: usize = 1_024;
/// The most events that are written together.
const BATCH_MAX: usize = 64;
/// After how long without an event something is said, so that both sides and what lies between see that the other lives.
const ALIVE_EVERY: Duration = Duration::from_secs(15);
/// When a client whose connection broke should come again, in milliseconds.
const RETRY_MS: u32 = 2_000;

/// How many clients there are.
#[derive(Debug)]
pub(in crate::http) struct Streams(Arc<Semaphore>);

impl Default for Streams {
    fn default() -> Self {
        Streams(Arc::new(Semaphore::new(STREAMS_MAX)))
    }
}

impl Streams {
    /// How many are open.
    pub(in crate::http) fn open(&self) -> usize {
        STREAMS_MAX.saturating_sub(self.0.available_permits())
    }

    fn enter(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        Arc::clone(&self.0).try_acquire_owned().map_err(|_| {
            let text = format!("there are {STREAMS_MAX} streams of events, and no more may be; close some");
            Refusal::with_status(StatusCode::TOO_MANY_REQUESTS, Code::ResourceExhausted, text)
        })
    }
}

/// Which types a client wants.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted(Option<Vec<String>>);

impl Wanted {
    /// `task.failed,schedule.*`.
    fn parse(text: &str) -> Result<Self, Refusal> {
        let words: Vec<String> = text.split(',').map(|word| word.trim().to_owned()).collect();
        for word in &words {
            if !KINDS.iter().any(|(kind, _)| matches(word, kind)) {
                let word = crate::text::shown(word);
                let text = format!("types: there is no `{word}`; write such as task.failed or schedule.*, with commas");
                return Err(Refusal::field("types", text));
            }
        }
        Ok(Wanted(Some(words)))
    }

    fn holds(&self, event: &Event) -> bool {
        self.0.as_ref().is_none_or(|words| words.iter().any(|word| matches(word, event.kind)))
    }
}

fn matches(word: &str, kind: &str) -> bool {
    match word.strip_suffix('*') {
        Some(group) => group.ends_with('.') && kind.starts_with(group),
        None => word == kind,
    }
}

/// Answers with what happens from now on, or from where the client was.
pub(in crate::http) fn answer(app: &App, parts: &Parts) -> Result<Response, Refusal> {
    let (mut wanted, mut after) = (Wanted(None), None);
    let mut url = Url::parse("http://localhost/").map_err(|error| Refusal::new(Code::Internal, error.to_string()))?;
    url.set_query(parts.uri.query());
    for (name, value) in url.query_pairs() {
        match &*name {
            "types" => wanted = Wanted::parse(&value)?,
            "after" => after = Some(value.into_owned()),
            other => {
                let text = format!("there is no parameter `{}`; there is: types, after", crate::text::shown(other));
                return Err(Refusal::field(other, text));
            }
        }
    }
    // A browser that comes again names the last event in the header; a first request can only do it in the query.
    if let Some(id) = parts.headers.get("last-event-id") {
        after = Some(id.to_str().unwrap_or_default().to_owned());
    }
    let place = after.map(|id| {
        let unknown = || Refusal::field("after", format!("`{}` is no event's identifier", crate::text::shown(&id)));
        app.events.place(&id).ok_or_else(unknown)
    });
    let place = place.transpose()?.unwrap_or(Place::After(app.events.newest()));
    let permit = app.streams.enter()?;
    let (pipe, body) = pipe();
    let follow = Follow { pipe, buffer: Arc::clone(&app.events), wanted, place: 0 };
    let stopping = app.stopping();
    tokio::spawn(async move {
        let _permit = permit;
        follow.run(place, stopping).await;
    });
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    Ok(response)
}

struct Follow {
    pipe: Pipe,
    buffer: Arc<Buffer>,
    wanted: Wanted,
    place: u64,
}

impl Follow {
    async fn run(mut self, place: Place, mut stopping: watch::Receiver<bool>) {
        let mut news = self.buffer.news();
        let mut text = format!("retry: {RETRY_MS}\n\n");
        match place {
            Place::After(place) => self.place = place,
            Place::Unknown => {
                said(
                    &mut text,
                    "stream.reset",
                    "the daemon was started anew since that event; what it has kept follows",
                );
            }
        }
        loop {
            news.borrow_and_update();
            let batch = self.buffer.after(self.place, BATCH_MAX);
            self.write(&mut text, &batch);
            if !text.is_empty() && !self.pipe.send(Bytes::from(std::mem::take(&mut text))).await {
                return;
            }
            if !batch.events.is_empty() {
                continue;
            }
            tokio::select! {
                biased;
                () = self.pipe.closed() => return,
                () = stopped(&mut stopping) => return,
                changed = news.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(ALIVE_EVERY) => text.push_str(": alive\n\n"),
            }
        }
    }

    fn write(&mut self, text: &mut String, batch: &Batch) {
        let Some((last, _)) = batch.events.last() else { return };
        if batch.gap {
            said(text, "stream.gap", "events were dropped before you read them; look at the lists for what you missed");
        } else if batch.routine_gap {
            said(
                text,
                "stream.gap",
                "events of tasks that succeeded, were tried again or snoozed were dropped before you read them",
            );
        }
        for (number, event) in batch.events.iter().filter(|(_, event)| self.wanted.holds(event)) {
            let id = self.buffer.id(*number);
            // Writing to a String cannot fail.
            let _ = write!(text, "id: {id}\nevent: {}\ndata: {}\n\n", event.kind, event.data);
        }
        self.place = *last;
    }
}

/// A word about the stream itself. It has no identifier: nobody goes on from it.
fn said(text: &mut String, kind: &str, reason: &str) {
    let data = json!({"v": VERSION, "type": kind, "reason": reason});
    let _ = write!(text, "event: {kind}\ndata: {data}\n\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A filter takes whole types and groups, and refuses what can never come.
    #[test]
    fn filters_take_types_and_groups() {
        let event = |kind| Event { kind, data: String::new() };
        let wanted = Wanted::parse("task.failed, schedule.*").unwrap();
        assert!(wanted.holds(&event("task.failed")) && wanted.holds(&event("schedule.halted")));
        assert!(!wanted.holds(&event("task.succeeded")) && !wanted.holds(&event("worker.lost")));
        assert!(Wanted(None).holds(&event("task.succeeded")));
        for bad in ["", "task", "task.fail", "*", "tas*", "nothing.*"] {
            assert!(Wanted::parse(bad).is_err(), "{bad}");
        }
    }
}
