//! The store in memory under the suite.

use punctual_task::MemStore;
use punctual_testkit::store_suite::Opened;
use std::sync::Arc;

punctual_testkit::store_suite!(mem, |clock| {
    let store = Arc::new(MemStore::new(clock));
    let (same, other) = (Arc::clone(&store), Arc::clone(&store));
    Opened::new(store, move |schedule, cursor| assert!(same.rewind(schedule, cursor)))
        .restamped_by(move |schedule, stamp| assert!(other.restamp(schedule, stamp)))
});
