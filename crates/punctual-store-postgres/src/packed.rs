//! How many tasks the rows hold that hold many.

/// How many tasks one row of claims holds: a row of more than about 2,000 bytes would be stored out of line, and each change of
/// it would write all of it anew.
pub(crate) const CLAIM_TASKS_MAX: usize = 32;
/// How many tasks one row of ends holds: as much as is stored in line.
pub(crate) const ENDED_TASKS_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_task::rows::HELD_BYTES;

    /// A full row of claims is stored in line.
    #[test]
    fn full_rows_stay_short() {
        const { assert!(CLAIM_TASKS_MAX * HELD_BYTES < 2000) };
    }
}
