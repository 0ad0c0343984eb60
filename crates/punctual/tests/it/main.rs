//! Contracts, from the trait to the other side of a wire and back.

mod agreement;
mod calls;
mod describe;
#[cfg(feature = "engine")]
mod durable;
mod evolution;
mod features;
mod shop;
