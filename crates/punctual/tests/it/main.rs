//! Contracts, from the trait to the other side of a wire and back.

mod agreement;
mod calls;
mod contract_diff;
mod describe;
#[cfg(feature = "engine")]
mod durable;
mod evolution;
mod features;
#[cfg(all(unix, feature = "sqlite"))]
mod kills;
mod runs;
mod shop;
mod streams;
mod telemetry;
