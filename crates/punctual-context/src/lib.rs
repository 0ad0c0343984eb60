//! The ambient context of a running handler.
//!
//! A handler is reached by a network call or by a durable task; either way it reads what is left of its budget, its
//! metadata, who called and which attempt this is from [`Context::current`], and what it calls downstream inherits the
//! smaller budget from the same place. The two halves of Punctual never see each other, so the one thing that both must
//! hand to a handler lives here (`docs/adr/0001-context-crate.md`).

mod context;
mod host;
mod identity;
mod metadata;
mod scope;
mod task;
mod trace;

pub use context::Context;
pub use host::{CancelReason, Host, Peer};
pub use identity::Identity;
pub use metadata::{Metadata, MetadataError};
pub use scope::Scoped;
pub use task::{SlotScope, TaskScope};
pub use trace::{Propagate, TRACEPARENT, TRACESTATE, TRACESTATE_BYTES_MAX, TRACESTATE_MEMBERS_MAX, TraceContext};
