//! The comparison itself, on stores that are equal and on one that is not.

use super::*;
use punctual_task::Declaration;

/// Equal stores stay equal over many histories, in which every invariant holds.
#[test]
fn equal_stores_stay_equal() {
    for seed in 0..40 {
        compare(Opened::in_memory, Opened::in_memory, seed, 600);
    }
}

/// A store that holds a schedule more is found out.
#[test]
#[should_panic(expected = "the stores differ")]
fn a_different_store_is_found_out() {
    let tampered = |clock| {
        let opened = Opened::in_memory(clock);
        let spec = crate::store_suite::minutely("a");
        let store = opened.store();
        let declared = store.declare(Declaration { spec, revision: 9 });
        tokio::runtime::Handle::current().block_on(declared).unwrap();
        opened
    };
    compare(Opened::in_memory, tampered, 1, 600);
}
