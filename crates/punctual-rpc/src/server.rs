//! The server: listeners, connections, and the handlers that they run.

mod accept;
mod admission;
mod answer;
mod builder;
mod config;
mod congestion;
mod connection;
mod draining;
mod error;
mod handshakes;
mod inbound;
mod intercept;
mod lifetime;
mod listener;
mod permits;
mod phase;
mod place;
mod registry;
mod retirement;
mod returned;
mod runs;
mod service;
mod shared;
mod stop;
mod stream_place;

#[cfg(feature = "tower")]
pub use crate::tower::TowerLayer;
pub use admission::{ByMetadata, ByTenant, Partition};
pub use builder::{Server, ServerBuilder};
pub use config::ServerConfig;
pub use error::ServerError;
pub use inbound::Inbound;
pub use intercept::{Handled, SERVER_INTERCEPTORS_MAX, ServerCall, ServerInterceptor, ServerNext};
pub use lifetime::Contract;
pub use phase::{PhaseWatch, ServerPhase};
pub use service::Service;
pub use stop::{ServerHandle, Stopped};
pub(crate) use stream_place::StreamPlace;
