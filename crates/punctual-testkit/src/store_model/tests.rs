//! The comparison itself, on stores that are equal and on one that is not.

use super::*;
use punctual_task::{Declaration, MemStore};

fn open(clock: Arc<dyn Clock>) -> Opened {
    let store = Arc::new(MemStore::new(clock));
    let same = Arc::clone(&store);
    Opened::new(store, move |schedule, cursor| assert!(same.rewind(schedule, cursor)))
}

/// Equal stores stay equal over many histories, in which every invariant holds.
#[test]
fn equal_stores_stay_equal() {
    for seed in 0..40 {
        compare(open, open, seed, 600);
    }
}

/// A store that holds a schedule more is found out.
#[test]
#[should_panic(expected = "the stores differ")]
fn a_different_store_is_found_out() {
    let tampered = |clock| {
        let opened = open(clock);
        let spec = crate::store_suite::minutely("a");
        let store = opened.store();
        let declared = store.declare(Declaration { spec, revision: 9 });
        tokio::runtime::Handle::current().block_on(declared).unwrap();
        opened
    };
    compare(open, tampered, 1, 600);
}
