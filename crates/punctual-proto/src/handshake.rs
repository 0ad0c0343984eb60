//! The opening of a connection: a preface each way, then one handshake frame each way, the client's first.
//!
//! Nothing here waits or reads a socket; a driver feeds what it has. What a peer says before it is known is bounded by
//! [`HELLO_BYTES_MAX`] and [`REPLY_BYTES_MAX`] before anything is made of it.

mod capabilities;
mod compression;
mod error;
mod hello;
mod item;
mod negotiate;
mod preface;
mod reply;
#[cfg(test)]
mod tests;

pub use capabilities::Capabilities;
pub use compression::{PROFILES_MAX, Profile};
pub use error::HandshakeError;
pub use hello::Hello;
pub use negotiate::{Agreement, Windows, accept, confirm};
pub use preface::{MAGIC, PREFACE, PREFACE_BYTES, Preface, VERSION, read_preface};
pub use reply::{Reply, ServiceEntry, Welcome};

/// The most payload bytes of the client's handshake frame, and so what an unproven peer may make a server hold.
pub const HELLO_BYTES_MAX: u32 = 4_096;

/// The most payload bytes of the server's handshake frame.
pub const REPLY_BYTES_MAX: u32 = 65_536;

/// The most bytes of a service's name.
pub const SERVICE_NAME_BYTES_MAX: u32 = 255;

/// The most services that a server lists.
pub const SERVICES_MAX: usize = 1_024;

/// Bytes of a hello or a welcome without items.
pub(crate) const PAYLOAD_BYTES_MIN: u32 = 16;

/// The server's handshake frame carries a status instead of a welcome.
pub(crate) const FLAG_REFUSED: u8 = 1;
