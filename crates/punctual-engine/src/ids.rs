//! Task ids, drawn from the store in blocks ahead of the writes that use them.

use punctual_task::{IdBlock, Store, StoreError, StoreErrorKind, TaskId};
use std::sync::{Mutex, PoisonError};

/// A draw is a round trip: a block serves a thousand enqueues.
const BLOCK: u32 = 1_000;

/// The engine's supply of ids.
#[derive(Debug)]
pub(crate) struct Ids {
    block: Mutex<IdBlock>,
    /// Held across a draw, so that many callers who find the block empty draw one block and not one each.
    drawing: tokio::sync::Mutex<()>,
}

impl Default for Ids {
    fn default() -> Self {
        Ids { block: Mutex::new(IdBlock::new(0, 0)), drawing: tokio::sync::Mutex::new(()) }
    }
}

impl Ids {
    fn take_ready(&self) -> Option<TaskId> {
        self.block.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// One id that nobody else has.
    pub(crate) async fn take(&self, store: &dyn Store) -> Result<TaskId, StoreError> {
        if let Some(id) = self.take_ready() {
            return Ok(id);
        }
        let _drawing = self.drawing.lock().await;
        if let Some(id) = self.take_ready() {
            return Ok(id);
        }
        let mut drawn = store.draw_ids(BLOCK).await?;
        let id = drawn.take();
        *self.block.lock().unwrap_or_else(PoisonError::into_inner) = drawn;
        id.ok_or_else(|| StoreError::new(StoreErrorKind::Bug, "the store drew an empty block of ids"))
    }

    /// `count` ids in growing order.
    pub(crate) async fn take_many(&self, store: &dyn Store, count: usize) -> Result<Vec<TaskId>, StoreError> {
        let mut ids = Vec::with_capacity(count);
        while ids.len() < count {
            ids.push(self.take(store).await?);
        }
        Ok(ids)
    }
}
