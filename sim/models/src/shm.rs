//! The rings of shared memory: all of them but their bytes.

#[path = "../../../crates/punctual-shm/src/indices.rs"]
#[expect(dead_code, unreachable_pub, reason = "the models need a part of the file")]
pub(crate) mod indices;
