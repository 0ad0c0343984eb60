//! The client: a channel over one reconnecting connection, and the call objects that go through it.

mod attempts;
mod channel;
mod config;
mod connection;
mod connector;
mod contracts;
mod counters;
mod kept;
mod line;
mod oneway;
mod options;
mod publish;
mod pump;
mod query;
mod reply;
mod response;
mod retry;
mod settings;
mod streams;
mod streams_json;
mod target;
mod timer;
mod unary;

pub use channel::Channel;
pub use config::{ChannelBuilder, ChannelConfig, MethodPolicy};
pub use oneway::OneWay;
pub use options::CallOptions;
pub use response::{Response, WithResponse};
pub use retry::{ATTEMPTS_MAX, RetryBudget, RetryPolicy};
pub(crate) use streams::StreamCallKey;
pub use streams::{ClientStream, Duplex, OneWayStream, ServerStream, StreamCall, Streams};
pub use streams_json::{JsonItems, JsonReply, JsonStream};
pub use unary::Unary;
