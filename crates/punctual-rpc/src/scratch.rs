//! A buffer for each thread: where bodies are encoded before the lock, and short replies land before they are decoded.

use std::cell::Cell;

/// Room that a thread keeps.
const KEPT_BYTES_MAX: usize = 64 * 1024;

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Runs `work` with an empty buffer. Foreign code in it may come here again: it gets a buffer of its own.
pub(crate) fn with_scratch<R>(work: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    let mut buffer = SCRATCH.take();
    buffer.clear();
    let result = work(&mut buffer);
    if buffer.capacity() <= KEPT_BYTES_MAX {
        SCRATCH.set(buffer);
    }
    result
}
