//! The demo's contract and its one implementation, which every phase uses.

use crate::demo::ledger::{Entry, Ledger};
use punctual::{Bytes, Context, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the demo calls and stores.
#[punctual::service]
pub(crate) trait Demo {
    /// The sum.
    #[rpc(idempotent)]
    async fn add(&self, a: i32, b: i32) -> Result<i32, Status>;

    /// The same bytes.
    #[rpc(idempotent)]
    async fn echo(&self, data: Bytes) -> Result<Bytes, Status>;

    /// Counts, and answers nothing.
    #[rpc(oneway)]
    async fn seen(&self, page: u64);

    /// Writes one line into the ledger.
    #[rpc(durable, attempts = 3)]
    async fn record(&self, number: u64) -> Result<u64, Status>;

    /// Writes the schedule's slot into the ledger.
    #[rpc(durable, attempts = 3)]
    async fn tick(&self) -> Result<u64, Status>;
}

/// The implementation.
#[derive(Debug)]
pub(crate) struct Handlers {
    ledger: Arc<Ledger>,
    pub(crate) seen: AtomicU64,
}

impl Handlers {
    pub(crate) fn new(ledger: Arc<Ledger>) -> Arc<Self> {
        Arc::new(Handlers { ledger, seen: AtomicU64::new(0) })
    }

    fn note(&self, number: u64) -> Result<(), Status> {
        let context = Context::current().ok_or_else(|| Status::internal("there is no context"))?;
        let task = context.task().ok_or_else(|| Status::failed_precondition("only tasks are written down"))?;
        let entry = Entry {
            task: task.id,
            attempt: task.attempt,
            slot: task.slot.as_ref().map(|slot| (slot.schedule.clone(), slot.at.as_micros())),
            number,
        };
        self.ledger.write(&entry).map_err(|error| Status::unavailable(format!("the ledger cannot be written: {error}")))
    }
}

impl Demo for Handlers {
    async fn add(&self, a: i32, b: i32) -> Result<i32, Status> {
        Ok(a.wrapping_add(b))
    }

    async fn echo(&self, data: Bytes) -> Result<Bytes, Status> {
        Ok(data)
    }

    async fn seen(&self, _page: u64) {
        self.seen.fetch_add(1, Ordering::Relaxed);
    }

    async fn record(&self, number: u64) -> Result<u64, Status> {
        self.note(number)?;
        Ok(number)
    }

    async fn tick(&self) -> Result<u64, Status> {
        let run = Context::current().and_then(|context| context.task()?.slot.as_ref().map(|slot| slot.run));
        let run = run.ok_or_else(|| Status::failed_precondition("only occurrences of a schedule are written down"))?;
        self.note(run)?;
        Ok(run)
    }
}
