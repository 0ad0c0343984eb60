//! What the tests of Punctual share: a virtual clock, counting instruments, faulty links, the store suite and the transport suite.

pub mod clock;

pub use clock::{TokioClock, VirtualClock};
