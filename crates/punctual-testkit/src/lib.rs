//! What the tests of Punctual share: a virtual clock, counting instruments, faulty links, the store suite and the transport suite.

pub mod clock;
pub mod crowd;
pub mod cut_proxy;
pub mod faulty_link;
pub mod faulty_store;
pub mod one_by_one;
pub mod private_server;
pub mod store_model;
pub mod store_suite;
pub mod turnover;

pub use clock::{CountingClock, SteppedClock};
pub use cut_proxy::{Cut, CutProxy};
pub use faulty_link::{Faults, FaultyLink, Way};
pub use faulty_store::{Fault, FaultyStore, Op};
pub use one_by_one::OneByOne;
pub use private_server::{PrivateServer, ServerKind};
pub use punctual_clock::{TokioClock, VirtualClock};
