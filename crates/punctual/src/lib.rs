//! Typed service calls that happen on time: now with a deadline, or later on a schedule, without losing one.
//!
//! One Rust trait is the contract. The same method can be called over the network, stored durably to run in the
//! background, or put on a schedule; whichever way it is reached, it is the same handler, with the same budget, metadata and
//! cancellation in its [`Context`].
//!
//! ```
//! use punctual::prelude::*;
//! use std::time::Duration;
//!
//! /// What crosses the wire: serde and a schema in one attribute.
//! #[message]
//! #[derive(Debug, PartialEq)]
//! pub struct Receipt {
//!     pub order: u64,
//!     pub cents: u64,
//! }
//!
//! #[message]
//! #[derive(Debug, PartialEq)]
//! pub enum BillingError {
//!     UnknownOrder,
//! }
//!
//! #[service]
//! pub trait Billing {
//!     /// A client may send it again by itself, since it is idempotent.
//!     #[rpc(idempotent, timeout = "2s")]
//!     async fn quote(&self, order: u64) -> Result<u64, BillingError>;
//!
//!     /// Called now, or stored for later with `engine.enqueue(billing::Charge { order, cents })`.
//!     #[rpc(durable, queue = "payments", attempts = 8)]
//!     async fn charge(&self, order: u64, cents: u64) -> Result<Receipt, BillingError>;
//!
//!     /// Nobody waits for an answer.
//!     #[rpc(oneway)]
//!     async fn seen(&self, page: String);
//! }
//!
//! struct Shop;
//!
//! impl Billing for Shop {
//!     async fn quote(&self, order: u64) -> Result<u64, BillingError> {
//!         if order == 42 { Ok(995) } else { Err(BillingError::UnknownOrder) }
//!     }
//!
//!     async fn charge(&self, order: u64, cents: u64) -> Result<Receipt, BillingError> {
//!         Ok(Receipt { order, cents })
//!     }
//!
//!     async fn seen(&self, _page: String) {}
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::builder().service(BillingServer::new(Shop)).listen("tcp://127.0.0.1:0").bind().await?;
//! let address = server.local_addrs()[0].clone();
//! let server = server.spawn();
//!
//! let billing = BillingClient::connect(&address).await?;
//! assert_eq!(billing.quote(42).await, Ok(995));
//! assert_eq!(billing.quote(7).await, Err(CallError::App(BillingError::UnknownOrder)));
//! let receipt = billing.charge(42, 995).timeout(Duration::from_secs(2)).metadata("tenant", "a").await;
//! assert_eq!(receipt, Ok(Receipt { order: 42, cents: 995 }));
//! billing.seen("front".to_owned()).await?;
//!
//! server.shutdown(Duration::from_secs(5)).await;
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//! - `engine` (default): durable tasks and schedules.
//! - `sqlite` (default): the embedded store.
//!
//! Without default features this crate is the RPC runtime alone, and compiles no SQL.

mod macros;
#[cfg(feature = "engine")]
mod open;

#[doc(hidden)]
pub mod __private;
pub mod prelude;

pub use bytes::Bytes;
pub use punctual_context::{CancelReason, Context, Metadata, MetadataError, Peer, SlotScope, TaskScope};
pub use punctual_macros::{message, service};
pub use punctual_proto::schema::Schema;
pub use punctual_proto::status::{CallError, Code, Status};
pub use punctual_rpc::{CallOptions, Channel, ChannelConfig, OneWay, Server, ServerConfig, ServerHandle, Unary};
#[doc(hidden)]
pub use serde;

/// Time and chance, as everything here takes them: a test, a simulation or a replay owns both.
pub mod clock {
    pub use punctual_clock::*;
}

/// The RPC runtime: channels, servers and transports.
pub mod rpc {
    pub use punctual_rpc::*;
}

/// Contracts as data: descriptors, schemas, and what a server tells of itself.
pub mod contract {
    pub use punctual_proto::contract::{
        Backoff, DurablePolicy, MethodDescriptor, ServiceDescriptor, Shape, check_unique_ids, method_id,
    };
    pub use punctual_proto::describe::*;
    pub use punctual_proto::schema::{EnumType, Field, Fields, Schema, StructType, Type, Variant};
}

#[cfg(feature = "engine")]
pub use open::{open, open_store};
#[cfg(feature = "engine")]
pub use punctual_engine::{Durable, Engine, Failure, Verdict};

/// The durable engine: tasks that survive a crash, and schedules.
#[cfg(feature = "engine")]
pub mod engine {
    pub use punctual_engine::*;
    pub use punctual_task::{Backoff, Policy};
}

/// Tasks and the stores that keep them.
#[cfg(feature = "engine")]
pub mod task {
    pub use punctual_task::*;
}

/// Schedule time: rules, and the slots that they name.
#[cfg(feature = "engine")]
pub mod schedule {
    pub use punctual_task::schedule::*;
    pub use punctual_task::{Missed, Overflow as MissedOverflow, Overlap};
}

/// The embedded store.
#[cfg(feature = "sqlite")]
pub mod sqlite {
    pub use punctual_store_sqlite::*;
}
