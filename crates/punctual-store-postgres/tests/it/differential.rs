//! The same random history on the model in memory and on PostgreSQL: every answer and every row that can be seen are equal.

use crate::stand::number;
use crate::suite::open;
use punctual_testkit::store_model::compare;
use punctual_testkit::store_suite::Opened;

/// `PUNCTUAL_HISTORIES` and `PUNCTUAL_HISTORY_STEPS` make it more, `PUNCTUAL_SEED` other ones.
#[test]
fn random_histories_end_in_the_same_state() {
    let first = number("PUNCTUAL_SEED", 1);
    let steps = u32::try_from(number("PUNCTUAL_HISTORY_STEPS", 300)).unwrap();
    for seed in first..first + number("PUNCTUAL_HISTORIES", 6) {
        compare(Opened::in_memory, open, seed, steps);
    }
}
