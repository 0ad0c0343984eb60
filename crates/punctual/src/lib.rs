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
//! - `postgres`: the store in a PostgreSQL database, for many hosts.
//! - `mysql`: the store on MariaDB and MySQL, for many hosts.
//! - `tls`: `tls://` addresses.
//! - `shm`: `shm:` addresses, memory shared between processes of one user, on Linux.
//! - `tower`: `tower` layers around calls.
//! - `prometheus`: metrics of calls as the text that Prometheus scrapes ([`rpc::telemetry`]).
//! - `testing`: `clock::TokioClock`, which follows tokio's paused time, so that tests let days pass in a moment.
//! - `otel`: traces and metrics of calls for OpenTelemetry ([`rpc::telemetry`]).
//!
//! Without default features this crate is the RPC runtime alone, and compiles no SQL.

/// The examples of the guides, which compile and run with the tests.
#[cfg(all(doctest, feature = "sqlite", feature = "postgres", feature = "mysql"))]
#[doc = include_str!("../../../docs/guides/transactions.md")]
mod guides {}

mod macros;
#[cfg(feature = "engine")]
mod open;

#[doc(hidden)]
pub mod __private;
pub mod prelude;

pub use bytes::Bytes;
pub use punctual_context::{
    CancelReason, Context, Identity, Metadata, MetadataError, Peer, Propagate, SlotScope, TaskScope, TraceContext,
};
/// Gives a type its wire form: serde and a [`Schema`] that agree with each other.
///
/// On structures and enumerations, also generic ones. Everything that is owned and finite can be a message: a type that
/// contains itself does not compile (send a list of nodes that refer to each other by number), nor does a collection of
/// values that take no bytes, or a map whose keys JSON could not say.
///
/// ```
/// use punctual::{Bytes, message};
///
/// /// A document.
/// #[message]
/// #[derive(Debug, Clone)]
/// #[serde(rename_all = "camelCase")]
/// pub struct Document {
///     pub title: String,
///     /// What an older peer does not send takes its default.
///     #[serde(default)]
///     pub tags: Vec<String>,
///     pub body: Bytes,
///     /// A type of somebody else's has no schema of its own: say which one it has.
///     #[message(as = String)]
///     #[serde(with = "as_text")]
///     pub owner: std::net::Ipv4Addr,
/// }
/// # mod as_text {
/// #     use punctual::serde::{Deserialize, Deserializer, Serializer, de::Error};
/// #     use std::net::Ipv4Addr;
/// #     pub fn serialize<S: Serializer>(a: &Ipv4Addr, s: S) -> Result<S::Ok, S::Error> { s.collect_str(a) }
/// #     pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Ipv4Addr, D::Error> {
/// #         String::deserialize(d)?.parse().map_err(D::Error::custom)
/// #     }
/// # }
/// ```
///
/// # Between versions
/// Two sides whose contracts have the same hash speak a compact codec without names. Where they differ, in a rolling
/// upgrade, both go on by name, with serde's rules: a field that the other side does not send needs `serde(default)` (an
/// `Option` has one), one that this side does not know is ignored, a renamed one needs `serde(alias)`. The same holds for
/// tasks that wait in a store.
///
/// # What serde attributes do
/// `rename`, `rename_all`, `rename_all_fields`, `alias`, `default`, `skip` (of a field), `transparent`, `other`, `bound`,
/// `deny_unknown_fields` work as ever. `flatten`, `tag`, `content`, `untagged`, `skip_serializing_if` and one-sided `skip`
/// are refused: the compact codec carries no names. `with` needs `#[message(as = SomeType)]`. A type that writes itself by
/// hand implements serde and [`Schema`] by hand.
///
/// # Argument
/// `crate = "path"`: where this crate is, if not at `::punctual`.
pub use punctual_macros::message;
/// Turns a trait into a contract.
///
/// From `pub trait Billing` come, beside the trait:
/// - `BillingClient`, whose methods give call objects: each is the future of its call and takes options by value before it is
///   awaited ([`Unary`], [`OneWay`], and [`ClientStream`], [`ServerStream`], [`Duplex`], [`OneWayStream`]). It also implements `Billing` itself where every error type is `From<Status>`.
/// - `BillingServer`, which serves an implementation: give it to [`Server::builder`], and to an engine if methods are durable.
/// - the module `billing` with one request structure a method (`billing::Charge { order, cents }`), and `billing::DESCRIPTOR`.
///
/// # Methods
/// `async fn name(&self, argument: Owned, ..) -> Result<T, E>`, without generics, lifetimes, references, patterns and bodies.
/// Implementations write the same `async fn`; their futures must be `Send`. `T`, `E` and the arguments are of types with a
/// [`Schema`]. An error type of the application's own arrives typed ([`CallError::App`]); [`Status`] as the error type is sent
/// as what it is. An argument may carry doc comments and `serde` attributes: they belong to the field of its request.
///
/// A method whose only argument is [`Bytes`] sends it as it is, without a codec; so does one that returns `Bytes`.
///
/// # Streams
/// An argument of type [`Streaming<T>`](Streaming) or `Streaming<T, E>` is a stream that the caller sends, beside the other
/// arguments; there may be several. A method that returns `Result<Streaming<T>, E>` answers with a stream. Both sides send and
/// receive at once, within windows of bytes: what a slow consumer makes either side hold is bounded. An error type of a
/// stream's own is `From<Status>`, for the ends that the application does not choose; without one it is [`Status`].
///
/// # `#[rpc(..)]` on a method
/// | key | means |
/// |---|---|
/// | `oneway` | no reply: the method returns nothing, and success is that the call was queued or sent |
/// | `detached` | the handler runs to its end, also when its caller is gone; its result is then dropped |
/// | `inline` | the handler is polled once in its connection's turn, and gets a task only where it waits then: for methods that neither block nor take long |
/// | `blocking` | the handler runs on a thread that it may block ([below](#handlers-that-block)) |
/// | `idempotent` | the call may be sent twice, so that a retry policy may apply |
/// | `timeout = "2s"` | the call's own timeout where the caller gives none, and the budget of each attempt as a task |
/// | `durable` | the request can be stored and run later: `engine.enqueue(billing::Charge { .. })` |
/// | `queue = "payments"` | of a durable method: its queue; the service's name by default |
/// | `attempts = 8` | of a durable method: tries in all |
/// | `backoff = "exponential(1s, 10m)"` | of a durable method: the first and the longest wait between tries; also `linear(1s, 1m)`, `fixed(5s)` |
/// | `priority = 0` | of a durable method: its level in the queue, 0 (first) to 3 (last) |
///
/// Durations are whole numbers with `us`, `ms`, `s`, `m`, `h` or `d`, also summed: `"1m30s"`.
///
/// # Handlers that block
/// The handler of a `blocking` method runs on a thread of the runtime's blocking pool. Up to
/// [`ServerLimits::blocking_calls_max`](rpc::ServerLimits::blocking_calls_max) of a server have one at once (64); further calls
/// wait for theirs in order, and one that is over before that never runs. Nothing stops a thread in the middle: when the call
/// is cancelled or its deadline passes, its caller waits no longer, and the handler is dropped at its next `.await` that is
/// not ready. Until then it counts among the running calls, and a stop reports it as stuck. Ask [`Context::cancel_reason`] now and
/// then in what takes long. One that returns a stream keeps its thread until the stream ends.
///
/// # Errors of durable methods
/// The error of a durable method decides what becomes of its task: a [`Status`] of `InvalidArgument` or `Unimplemented` is not
/// tried again, one with a `retry_after` is tried then; an error `E` with `impl From<&E> for punctual::Failure` says itself;
/// every other is tried again as the policy says. A handler may also say it itself, whatever its error's type is:
/// `Attempt::current()` and `on_error` with a `Verdict` (try again after a time, snooze without spending an attempt, cancel, dead letter).
///
/// # Names
/// A method's name on the wire is `Service/method`. Renaming either makes another method; its types' names do not count.
///
/// # Arguments
/// - `name = "acme.Billing"`: the service's name on the wire, if not the trait's.
/// - `crate = "path"`: where this crate is, if not at `::punctual`.
///
/// A contract stands in a module, not inside a function: the module of its requests looks for the types beside it.
pub use punctual_macros::service;
pub use punctual_proto::schema::Schema;
pub use punctual_proto::status::{CallError, Code, Status};
pub use punctual_rpc::{
    CallOptions, Channel, ChannelConfig, ClientStream, Clusters, Duplex, Endpoints, OneWay, OneWayStream, Response,
    RetryPolicy, Server, ServerConfig, ServerHandle, ServerStream, Streaming, Unary,
};
#[doc(hidden)]
pub use serde;

/// Time and chance, as everything here takes them: a test, a simulation or a replay owns both.
///
/// Channels, servers, engines and the store in memory take a [`Clock`](clock::Clock). In tests under tokio's paused time that is a
/// `TokioClock` (feature `testing`), and `examples/testing` shows how.
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
        Backoff, DurablePolicy, MethodDescriptor, STREAM_ARGUMENTS_MAX, ServiceDescriptor, Shape, StreamDescriptor,
        check_unique_ids, method_id,
    };
    pub use punctual_proto::describe::*;
    pub use punctual_proto::schema::{EnumType, Field, Fields, Schema, StructType, Type, Variant};
}

#[cfg(feature = "engine")]
pub use open::{open, open_store};
#[cfg(feature = "engine")]
pub use punctual_engine::{Attempt, Durable, Engine, Failure, Verdict};

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

/// The store in a PostgreSQL database.
#[cfg(feature = "postgres")]
pub mod postgres {
    pub use punctual_store_postgres::*;
}

/// The store on MariaDB and MySQL.
#[cfg(feature = "mysql")]
pub mod mysql {
    pub use punctual_store_mysql::*;
}

/// The embedded store.
#[cfg(feature = "sqlite")]
pub mod sqlite {
    pub use punctual_store_sqlite::*;
}
