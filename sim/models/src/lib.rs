//! Models of the parts that share state without one lock around it.
//!
//! The files under test are those of the crates themselves: they are compiled here a second time, against `sync`, whose
//! atomics, locks and cells the model checker moves. Nothing else differs, so a model that passes speaks of the code that
//! runs. What such a part names of its crate beside `sync` stands in `client` as a stub.
//!
//! Each function of [`models`] is one model: every order of its threads' steps that the bound on preemptions allows, and every
//! value that the memory model lets a load give. The tests run them.

mod client;
mod engine;
pub mod models;
mod server;
mod shm;
mod sync;
