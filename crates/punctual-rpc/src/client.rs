//! The client: a channel over one reconnecting connection, and the call objects that go through it.

mod channel;
mod config;
mod connection;
mod connector;
mod contracts;
mod line;
mod oneway;
mod options;
mod publish;
mod query;
mod reply;
mod target;
mod timer;
mod unary;

pub use channel::Channel;
pub use config::{ChannelBuilder, ChannelConfig};
pub use oneway::OneWay;
pub use options::CallOptions;
pub use unary::Unary;
