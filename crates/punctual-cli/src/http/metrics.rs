//! `/metrics`: what Prometheus scrapes.
//!
//! Names are part of the daemon's promise, and `docs/metrics.md` lists them all. What counts up is read from the engine and the
//! server; what lies in the store is read at each scrape, one scrape at a time.

mod engine;
mod store;
mod text;

use super::answer::{Refusal, body};
use super::app::App;
use super::route::Route;
use axum::http::StatusCode;
use axum::response::Response;
use punctual::Code;
use punctual::rpc::telemetry::prometheus::CONTENT_TYPE;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use text::{Kind, Text};

/// How long the store may take for one scrape. What it did not say by then is left out, and `punctual_store_up` says so.
const STORE_WAIT_MAX: Duration = Duration::from_secs(5);

/// How long a scrape waits for those before it.
const LINE_WAIT_MAX: Duration = Duration::from_secs(10);

/// How many requests were answered, by route and status. Both are bounded: routes are those of the table.
#[derive(Debug, Default)]
pub(super) struct Requests {
    answered: Mutex<BTreeMap<(&'static str, u16), u64>>,
    /// Held by the scrape that reads the store.
    scraping: tokio::sync::Mutex<()>,
}

impl Requests {
    pub(super) fn count(&self, route: &'static Route, status: StatusCode) {
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        *answered.entry((route.path, status.as_u16())).or_default() += 1;
    }

    fn write(&self, text: &mut Text) {
        text.family("punctual_http_requests", Kind::Counter, "Requests answered, by route and status");
        for ((route, status), count) in self.answered.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            text.count(&[("route", route), ("status", &status.to_string())], *count);
        }
    }
}

pub(super) async fn answer(app: &App) -> Response {
    // One at a time, in line: scrapers that do not wait for their answers must not all read the store at once.
    let Ok(_scraping) = tokio::time::timeout(LINE_WAIT_MAX, app.requests.scraping.lock()).await else {
        let text = format!("other scrapes were under way for {LINE_WAIT_MAX:?}; scrape less often");
        return Refusal::new(Code::Unavailable, text).answer();
    };
    let mut text = Text::default();
    engine::write(&mut text, app);
    let read = tokio::time::timeout(STORE_WAIT_MAX, store::Readings::read(app.engine.store())).await;
    let readings = match read {
        Ok(Ok(readings)) => Some(readings),
        Ok(Err(error)) => {
            tracing::warn!(%error, "metrics of the database could not be read");
            None
        }
        Err(_) => {
            tracing::warn!(limit = ?STORE_WAIT_MAX, "metrics of the database took too long");
            None
        }
    };
    store::write(&mut text, readings.as_ref());
    app.requests.write(&mut text);
    text.family("punctual_http_event_streams", Kind::Gauge, "Clients that follow the events");
    text.count(&[], app.streams.open() as u64);
    // The other half has the end's mark.
    let text = text.finish(&app.calls.render());
    body(StatusCode::OK, CONTENT_TYPE, text)
}
