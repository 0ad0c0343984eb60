//! The wire protocol of Punctual as state machines without I/O.
