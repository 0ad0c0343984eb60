//! The protocol from the outside: the written vectors, and what must hold for every input.

mod vectors;
