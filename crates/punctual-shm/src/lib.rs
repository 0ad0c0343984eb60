//! Bytes both ways between two processes of one user, through memory that they share: two byte rings in a sealed `memfd`,
//! handed over a Unix socket, and an `eventfd` for each side that is written to only while that side sleeps.
//!
//! ```text
//!  client                                            server
//!    hello ───────────── Unix socket ────────────────▶  same user? same version?
//!          ◀──────────── answer + memfd + 2 eventfds ─
//!    seals, size and header as they must be?
//!    End ═══════════════ ring ═══════════════════════▶ End
//!        ◀══════════════ ring ════════════════════════
//!          the socket stays open: its hang-up is the peer's end
//! ```
//! Everything that the peer can write is looked at as what a stranger says: the indices of the rings are kept privately and
//! the shared ones only compared with what is possible ([`Broken`]); bytes are copied out before anybody reads them; the
//! seals keep the memory from being cut short under us. A `memfd` has no name, so a process that is killed leaves nothing.
//!
//! The crate knows no runtime: an [`End`] says when to sleep, and whoever drives it waits on the bell and on the socket. Linux
//! only; elsewhere there is [`RingBytes`] alone.

#[cfg(target_os = "linux")]
mod end;
#[cfg(target_os = "linux")]
mod indices;
#[cfg(target_os = "linux")]
mod lifeline;
#[cfg(target_os = "linux")]
mod mapping;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(target_os = "linux")]
mod opening;
mod ring_bytes;
#[cfg(target_os = "linux")]
mod sync;

#[cfg(target_os = "linux")]
pub use end::{End, Opened};
#[cfg(target_os = "linux")]
pub use indices::Broken;
#[cfg(target_os = "linux")]
pub use lifeline::{Lifeline, end_writing, look};
#[cfg(target_os = "linux")]
pub use opening::{HELLO, HELLO_BYTES, accept, check_peer, check_reply, offer, refuse};
pub use ring_bytes::{RING_BYTES_DEFAULT, RING_BYTES_MAX, RING_BYTES_MIN, RingBytes};
