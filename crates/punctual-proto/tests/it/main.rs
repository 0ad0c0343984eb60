//! The protocol from the outside: the written vectors, and what must hold for every input.

#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod vectors;
