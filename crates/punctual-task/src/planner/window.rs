//! A window under compare-and-swap.

use super::{Plan, Snapshot, Walk};
use crate::error::StoreError;
use crate::schedule::SlotKey;
use crate::series::Window;

/// Decides a window, in the order inactive, version, cursor, exists, created.
///
/// # Errors
/// If a slot of the window is none of the rule's, or one is left out between: the caller computed it from something else.
pub fn decide_window(
    snapshot: &Snapshot<'_>,
    window: &Window,
    walk: &Walk,
    taken: &[SlotKey],
    live: u32,
) -> Result<Plan, StoreError> {
    let _ = (snapshot, window, walk, taken, live);
    unreachable!("being written")
}
