//! The server's lock-free parts.

#[path = "../../../crates/punctual-rpc/src/server/congestion.rs"]
pub(crate) mod congestion;
#[path = "../../../crates/punctual-rpc/src/server/draining.rs"]
pub(crate) mod draining;
#[path = "../../../crates/punctual-rpc/src/server/permits.rs"]
#[cfg_attr(not(test), expect(dead_code, reason = "the models need a part of the file"))]
pub(crate) mod permits;
