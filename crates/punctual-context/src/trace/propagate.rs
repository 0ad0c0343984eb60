//! What ties spans to the traces of a tracing system.

use super::TraceContext;
use std::fmt;

/// What ties spans to the traces of a tracing system. The adapter for OpenTelemetry is one.
pub trait Propagate: fmt::Debug + Send + Sync + 'static {
    /// Where in which trace the current span is; `None` outside of any.
    fn current(&self) -> Option<TraceContext>;

    /// Calls `make`, which makes a span: a child of `parent`, who is at the other end of a connection, or was there when a task
    /// was stored.
    fn within(&self, parent: &TraceContext, make: &mut dyn FnMut());
}
