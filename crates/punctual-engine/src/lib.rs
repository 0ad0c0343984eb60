//! The durable engine of Punctual on tokio: materialise, claim, run, finish, renew, rescue.
//!
//! [`Engine`] drives the pure half (`punctual_task`) over a [`Store`](punctual_task::Store). Its loops, each in a file of
//! its own, meet in one shared state and know nothing of each other:
//!
//! ```text
//!  materialiser ─▶ store ─▶ claimer ─▶ work (queue, lanes) ─▶ completions ─▶ completer ─▶ store
//!                             ▲             │ runner: one attempt after another on each lane
//!                keeper ──────┴─ lease ─────┘          rescuer, pruner: upkeep
//! ```
//! What a task is, when it is retried and which slots are due is decided in `punctual_task`; what is written is the
//! store's business.

mod attempt;
mod builder;
mod claimer;
mod completer;
mod completions;
mod conclude;
mod config;
mod declare;
mod durable;
mod engine;
mod enqueue;
mod error;
mod failure;
mod handlers;
mod ids;
mod job;
mod keeper;
mod lane;
mod lease;
mod materialiser;
mod methods;
mod operate;
mod outcome;
mod pacing;
mod pruner;
mod record;
mod rescuer;
mod runner;
mod shared;
mod shutdown;
mod signals;
mod stats;
mod waiters;
mod work;
mod zones;

pub use builder::EngineBuilder;
pub use config::{EngineConfig, OnDoubt};
pub use declare::ScheduleBuilder;
pub use durable::{Durable, service_of};
pub use engine::Engine;
pub use enqueue::{Enqueue, EnqueueMany, Task};
pub use error::{Error, ErrorKind, Fault};
pub use failure::{Failure, Verdict};
pub use handlers::{DurableMethod, HandlerFuture, Handlers, run_typed};
pub use outcome::{TaskEnd, TaskError};
pub use shutdown::ShutdownReport;
pub use stats::Stats;
