//! Contracts, from the trait to the other side of a wire and back.

mod agreement;
