//! The ambient context of a running handler, shared by calls and tasks.
