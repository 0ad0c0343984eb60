//! The client: a channel over the reconnecting connections of its endpoints, and the call objects that go through it.

mod attempts;
mod balance;
mod breaker;
mod channel;
mod cluster;
mod clusters;
mod config;
mod connection;
mod connector;
mod contracts;
mod counters;
mod endpoint;
mod endpoints;
mod hedge;
mod intercept;
mod kept;
mod lane;
mod line;
mod oneway;
mod options;
mod publish;
mod pump;
mod query;
mod repeat;
mod reply;
mod response;
mod retry;
mod roster;
mod settings;
mod streams;
mod streams_json;
mod target;
mod timer;
#[cfg(feature = "tower")]
mod tower;
mod trial;
mod unary;
mod wiring;

#[cfg(feature = "tower")]
pub use self::tower::TowerLayer;
pub use balance::{Balance, Candidate, Select};
pub use breaker::{BREAKER_WINDOW_MAX, BreakerPolicy};
pub use channel::{Channel, Drained};
pub use clusters::{CLUSTERS_MAX, Clusters};
pub use config::{ChannelBuilder, ChannelConfig, MethodPolicy, POOL_MAX};
pub use endpoints::{ENDPOINTS_MAX, Endpoints, Resolver, Snapshots};
pub use hedge::{HEDGES_MAX, HedgePolicy};
pub use intercept::{AppError, ClientInterceptor, Failure, INTERCEPTORS_MAX, Incoming, Next, Outgoing};
pub use oneway::OneWay;
pub use options::CallOptions;
pub use response::{Response, WithResponse};
pub use retry::{ATTEMPTS_MAX, RetryBudget, RetryPolicy};
pub(crate) use streams::StreamCallKey;
pub use streams::{ClientStream, Duplex, OneWayStream, ServerStream, StreamCall, Streams};
pub use streams_json::{JsonItems, JsonReply, JsonStream};
pub use unary::Unary;
