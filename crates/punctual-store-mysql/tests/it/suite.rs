//! The store suite.

use crate::stand::opened;

punctual_testkit::store_suite!(mariadb, opened);
