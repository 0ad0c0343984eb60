//! The durable engine of Punctual on tokio: materialise, claim, run, finish, renew, rescue.

mod durable;
mod failure;
mod handlers;

pub use durable::{Durable, service_of};
pub use failure::{Failure, Verdict};
pub use handlers::{DurableMethod, HandlerFuture, Handlers, run_typed};
