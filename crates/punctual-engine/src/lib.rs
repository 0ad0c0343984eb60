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
//! store's business. Why it is built so: `docs/adr/0006-lanes.md`.
//!
//! With `#[punctual::service]` the first half of this example is written by the macro:
//!
//! ```
//! use punctual_clock::SystemClock;
//! use punctual_engine::{
//!     Durable, DurableMethod, Engine, Failure, HandlerFuture, Handlers, TaskEnd, run_typed,
//! };
//! use punctual_task::{MemStore, Policy};
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct Charge {
//!     cents: u64,
//! }
//!
//! impl Durable for Charge {
//!     const METHOD: &'static str = "Billing/charge";
//!     const POLICY: Policy = Policy::DEFAULT;
//!     type Ok = u64;
//!     type Err = String;
//!     fn schema_hash() -> u64 {
//!         1
//!     }
//! }
//!
//! struct Billing;
//!
//! impl Handlers for Billing {
//!     fn service(&self) -> &'static str {
//!         "Billing"
//!     }
//!     fn methods(&self) -> Vec<DurableMethod> {
//!         vec![DurableMethod::of::<Charge>()]
//!     }
//!     fn run(&self, _: &str, args: bytes::Bytes) -> HandlerFuture {
//!         let charge = |call: Charge| async move { Ok::<u64, String>(call.cents) };
//!         run_typed(&args, charge, |error| Failure::new(error.clone()))
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), punctual_engine::Error> {
//! let store = Arc::new(MemStore::new(Arc::new(SystemClock)));
//! let engine = Engine::builder(store).serve(Billing).start().await?;
//! let task = engine.enqueue(Charge { cents: 995 }).key("order 42").attempts(3).await?;
//! assert_eq!(engine.wait(&task).await?, TaskEnd::Succeeded(995));
//! assert!(engine.shutdown(Duration::from_secs(5)).await.is_clean());
//! # Ok(())
//! # }
//! ```

mod attempt;
mod breaker;
mod builder;
mod claimer;
mod completer;
mod completions;
mod conclude;
mod config;
mod current;
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
mod observe;
mod operate;
mod outcome;
mod pacing;
mod pruner;
mod record;
mod reports;
mod rescuer;
mod runner;
mod shared;
mod shutdown;
mod signals;
mod span;
mod stats;
mod sync;
mod waiters;
mod work;
mod zone_check;
mod zones;

pub use builder::EngineBuilder;
pub use config::{EngineConfig, OnDoubt};
pub use current::Attempt;
pub use declare::ScheduleBuilder;
pub use durable::{Durable, service_of};
pub use engine::Engine;
pub use enqueue::{Enqueue, EnqueueMany, Task, Wake};
pub use error::{Error, ErrorKind, Fault};
pub use failure::{Failure, Verdict};
pub use handlers::{DurableMethod, HandlerFuture, Handlers, run_typed};
pub use observe::{AttemptEnd, ObserveAttempts};
pub use outcome::{TaskEnd, TaskError};
pub use shutdown::ShutdownReport;
pub use stats::Stats;
