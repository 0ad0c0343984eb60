//! A method as plain data.

use crate::contract::{Backoff, DurablePolicy, MethodDescriptor, StreamDescriptor};
use crate::describe::TypeDescription;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One method of a service, as plain data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodDescription {
    /// Its name in the trait.
    pub name: String,
    /// `Service/method`, which is how tools call it.
    pub full_name: String,
    /// Its number on the wire, as 16 hexadecimal digits: JSON numbers do not hold 64 bits everywhere.
    pub id: String,
    /// Its doc comment; empty without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub docs: String,
    /// `unary`, `oneway`, `client-stream`, `server-stream` or `duplex`.
    pub shape: String,
    /// Whether a client may send it twice.
    #[serde(default)]
    pub idempotent: bool,
    /// The contract's own timeout in milliseconds, rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How it runs as a durable task; absent where it cannot be stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durable: Option<DurableDescription>,
    /// The hash of what it writes in both directions, as 16 hexadecimal digits.
    pub schema_hash: String,
    /// The arguments that are no streams: a struct with one named field each.
    pub args: TypeDescription,
    /// The arguments that are streams, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamDescription>,
    /// The result; the items of the returned stream where the result is one.
    pub ok: TypeDescription,
    /// What the returned stream may fail with, where the result is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_err: Option<TypeDescription>,
    /// Whether its handler runs to its end, also when its call is over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub detached: bool,
    /// The application's error.
    pub err: TypeDescription,
    /// Whether the only argument is raw bytes, sent without a codec.
    #[serde(default)]
    pub raw_args: bool,
    /// Whether the result is raw bytes, sent without a codec.
    #[serde(default)]
    pub raw_ok: bool,
}

impl From<&MethodDescriptor> for MethodDescription {
    fn from(method: &MethodDescriptor) -> Self {
        MethodDescription {
            name: method.name.to_owned(),
            full_name: method.full_name.to_owned(),
            id: format!("{:016x}", method.id),
            docs: method.docs.to_owned(),
            shape: method.shape.as_str().to_owned(),
            idempotent: method.idempotent,
            timeout_ms: method.timeout.map(millis_up),
            durable: method.durable.as_ref().map(DurableDescription::from),
            schema_hash: format!("{:016x}", method.schema_hash()),
            args: method.args.into(),
            streams: method.streams.iter().map(StreamDescription::from).collect(),
            item_err: method.item_err.map(TypeDescription::from),
            detached: method.detached,
            ok: method.ok.into(),
            err: method.err.into(),
            raw_args: method.raw_args,
            raw_ok: method.raw_ok,
        }
    }
}

/// An argument that is a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamDescription {
    /// The argument's name.
    pub name: String,
    /// What its items are.
    pub item: TypeDescription,
    /// What it may fail with.
    pub err: TypeDescription,
}

impl From<&StreamDescriptor> for StreamDescription {
    fn from(stream: &StreamDescriptor) -> Self {
        StreamDescription { name: stream.name.to_owned(), item: stream.item.into(), err: stream.err.into() }
    }
}

/// How a method runs as a durable task, as far as its contract says so.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DurableDescription {
    /// The queue; absent for the service's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Attempts in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// The wait between attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<BackoffDescription>,
    /// The level inside the queue, 0 (first) to 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
}

impl From<&DurablePolicy> for DurableDescription {
    fn from(policy: &DurablePolicy) -> Self {
        DurableDescription {
            queue: policy.queue.map(str::to_owned),
            attempts: policy.attempts,
            backoff: policy.backoff.map(BackoffDescription::from),
            priority: policy.priority,
        }
    }
}

/// The wait between attempts, in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum BackoffDescription {
    /// Always the same.
    Fixed {
        /// The wait.
        wait_ms: u64,
    },
    /// Grows by the first wait each time.
    Linear {
        /// The first wait.
        first_ms: u64,
        /// The longest.
        max_ms: u64,
    },
    /// Doubles each time.
    Exponential {
        /// The first wait.
        first_ms: u64,
        /// The longest.
        max_ms: u64,
    },
}

impl From<Backoff> for BackoffDescription {
    fn from(backoff: Backoff) -> Self {
        match backoff {
            Backoff::Fixed(wait) => BackoffDescription::Fixed { wait_ms: millis_up(wait) },
            Backoff::Linear { first, max } => {
                BackoffDescription::Linear { first_ms: millis_up(first), max_ms: millis_up(max) }
            }
            Backoff::Exponential { first, max } => {
                BackoffDescription::Exponential { first_ms: millis_up(first), max_ms: millis_up(max) }
            }
        }
    }
}

fn millis_up(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
