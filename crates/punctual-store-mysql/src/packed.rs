//! How many tasks the rows hold that hold many.

/// How many tasks one row of claims holds: such a row stays within a page of
/// InnoDB, which puts longer ones elsewhere.
pub(crate) const CLAIM_TASKS_MAX: usize = 128;
/// How many tasks one row of ends holds: two pages, written once and read once by retention.
pub(crate) const ENDED_TASKS_MAX: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_task::rows::HELD_BYTES;

    /// A full row of claims stays within its page.
    #[test]
    fn full_rows_stay_short() {
        const { assert!(CLAIM_TASKS_MAX * HELD_BYTES < 8000) };
    }
}
