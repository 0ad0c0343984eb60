//! A subscriber that keeps every span and every event at every level, as text.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// A span with everything that was recorded in it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) fields: BTreeMap<String, String>,
}

/// What was seen so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Capture(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    ids: AtomicU64,
    spans: Mutex<BTreeMap<u64, Seen>>,
    events: Mutex<Vec<Seen>>,
}

impl Capture {
    /// From here on, everything of this thread, until the guard is dropped.
    pub(crate) fn start() -> (Capture, tracing::subscriber::DefaultGuard) {
        let capture = Capture::default();
        (capture.clone(), tracing::subscriber::set_default(capture))
    }

    fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
        of.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The spans of this name, in the order of their beginning.
    pub(crate) fn spans(&self, name: &str) -> Vec<Seen> {
        Self::lock(&self.0.spans).values().filter(|span| span.name == name).cloned().collect()
    }

    /// Everything, in one text.
    pub(crate) fn text(&self) -> String {
        format!("{:?}\n{:?}", Self::lock(&self.0.spans), Self::lock(&self.0.events))
    }
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.fields.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name().to_owned(), value.to_owned());
    }
}

impl Subscriber for Capture {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.0.ids.fetch_add(1, Ordering::Relaxed) + 1;
        let mut seen = Seen { name: span.metadata().name().to_owned(), fields: BTreeMap::new() };
        span.record(&mut seen);
        Self::lock(&self.0.spans).insert(id, seen);
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        if let Some(seen) = Self::lock(&self.0.spans).get_mut(&span.into_u64()) {
            values.record(seen);
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut seen = Seen { name: event.metadata().target().to_owned(), fields: BTreeMap::new() };
        event.record(&mut seen);
        Self::lock(&self.0.events).push(seen);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
