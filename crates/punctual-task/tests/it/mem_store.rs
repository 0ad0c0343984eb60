//! The store in memory under the suite.

use punctual_testkit::store_suite::Opened;

punctual_testkit::store_suite!(mem, Opened::in_memory);
