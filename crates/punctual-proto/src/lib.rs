//! The wire protocol of Punctual as state machines without I/O.

pub mod admission;
pub mod codec;
pub mod contract;
pub mod describe;
pub mod frame;
#[cfg(any(test, feature = "_fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod handshake;
pub mod limits;
pub mod schema;
pub mod session;
pub mod status;
