//! The numbered scenarios: what the budget, publication, clock and ownership rules promise.

mod budget;
mod clock;
mod ownership;
mod publication;
mod stream_ownership;
mod streams;
