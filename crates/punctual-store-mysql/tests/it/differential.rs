//! The same random history on the model in memory and on MariaDB: every answer and every row that can be seen are equal.

use crate::stand::{number, opened};
use punctual_testkit::store_model::compare;
use punctual_testkit::store_suite::Opened;

/// MariaDB answers as the model does, whatever is asked in whatever order. `PUNCTUAL_SEEDS` and `PUNCTUAL_FIRST_SEED` set
/// other histories.
#[test]
fn random_histories_give_equal_states() {
    let first = number("PUNCTUAL_FIRST_SEED", 0);
    for seed in first..first + number("PUNCTUAL_SEEDS", 5) {
        compare(Opened::in_memory, opened, seed, 300);
    }
}
