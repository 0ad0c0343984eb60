//! The durable engine's core, without I/O: what a task, an attempt, a lease and a schedule are, how time rules give slots,
//! how the planner decides due slots, and the [`Store`] trait with its in-memory reference model.
//!
//! Nothing here asks for the time: instants are arguments. The Store trait is the one async word.

pub mod attempt;
pub mod backfill;
pub mod decide;
pub mod error;
pub mod follow_up;
pub mod id;
mod mem;
pub mod planner;
pub mod policy;
pub mod progress;
pub mod queue;
pub mod retention;
pub mod rows;
pub mod schedule;
pub mod series;
pub mod store;
pub mod task;
pub mod transaction;
pub mod worker;

pub use attempt::*;
pub use backfill::*;
pub use decide::{Start, Terms, Verdict};
pub use error::{StoreError, StoreErrorKind};
pub use follow_up::{FOLLOW_UPS_MAX, FollowOn, FollowUp};
pub use id::{BadTaskId, IdBlock, ScheduleId, TaskId, WorkerId};
pub use mem::{MemStore, MemTransaction};
pub use policy::{Backoff, Growth, Policy, TaskOptions, TaskTrace};
pub use progress::{CHECKPOINT_BYTES_MAX, PROGRESS_MESSAGE_BYTES_MAX, Progress, REPORTS_MAX, Report};
pub use queue::QueueView;
pub use retention::{Pruned, Retention};
pub use series::*;
pub use store::{Reply, Store, StoreInfo};
pub use task::*;
pub use transaction::{BlockingTransactionOf, TransactionOf};
pub use worker::*;
