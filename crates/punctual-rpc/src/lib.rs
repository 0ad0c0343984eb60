//! The RPC runtime of Punctual on tokio: typed calls over TCP, Unix sockets, shared memory or inside one process.
//!
//! The protocol and every decision live in `punctual-proto`; this crate moves bytes, spawns handlers and keeps
//! connections up. [`Channel`] is a client's handle, [`Server`] the other end, [`transport`] what lies between.

pub mod address;
pub mod auth;
pub mod client;
pub mod compression;
mod driver;
mod scratch;
pub mod server;
mod stats;
mod streaming;
mod sync;
pub mod telemetry;
#[cfg(feature = "_tls")]
pub mod tls;
#[cfg(feature = "tower")]
mod tower;
pub mod transport;

pub use address::{Address, AddressError};
pub use client::{
    ATTEMPTS_MAX, BREAKER_WINDOW_MAX, Balance, BreakerPolicy, CLUSTERS_MAX, CallOptions, Candidate, Channel,
    ChannelBuilder, ChannelConfig, ClientInterceptor, ClientStream, Clusters, Drained, Duplex, ENDPOINTS_MAX,
    Endpoints, HEDGES_MAX, HealthWatch, HedgePolicy, JsonItems, JsonReply, JsonStream, MethodPolicy, OneWay,
    OneWayStream, POOL_MAX, Resolver, Response, RetryBudget, RetryPolicy, Select, ServerStream, Snapshots, StreamCall,
    Streams, Unary, WithResponse,
};
pub use punctual_proto::admission::{AdmissionLimits, Rate, ScopeLimits};
pub use punctual_proto::contract::MethodDescriptor;
pub use punctual_proto::describe::{HealthStatus, ServiceDescription};
pub use punctual_proto::limits::{Limits, ServerLimits};
pub use punctual_proto::status::{CallError, Code, Status};
#[cfg(feature = "shm")]
pub use punctual_shm::{RING_BYTES_MAX as SHM_RING_BYTES_MAX, RING_BYTES_MIN as SHM_RING_BYTES_MIN};
pub use server::{
    ByMetadata, ByTenant, Contract, Inbound, Partition, PhaseWatch, Server, ServerBuilder, ServerConfig, ServerError,
    ServerHandle, ServerPhase, Service, Stopped,
};
pub use stats::{ChannelStats, ServerStats};
pub use streaming::Streaming;
pub use telemetry::{CallEnd, CallOutcome, Observe, ObservedCall, Propagate, Side, Telemetry};
