//! The engine's lock-free part.

#[path = "../../../crates/punctual-engine/src/lease.rs"]
#[expect(dead_code, reason = "the models need a part of the file")]
pub(crate) mod lease;
