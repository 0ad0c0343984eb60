//! How many tasks the rows hold that hold many.

/// How many tasks one row of claims holds: so many fill one page of the file, so that a row needs no second one.
pub(crate) const CLAIM_TASKS_MAX: usize = 90;
/// How many tasks one row of ends holds: two pages, written once and read once by retention.
pub(crate) const ENDED_TASKS_MAX: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_task::rows::HELD_BYTES;

    /// A full row of claims fits a page of the file.
    #[test]
    fn full_rows_stay_short() {
        const { assert!(CLAIM_TASKS_MAX * HELD_BYTES < 4000) };
    }
}
