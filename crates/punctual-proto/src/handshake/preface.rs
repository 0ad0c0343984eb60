//! The eight bytes in front of everything: seven of magic and the version.

use crate::handshake::HandshakeError;

/// Bytes of a preface.
pub const PREFACE_BYTES: usize = 8;

/// The protocol version that this library speaks.
pub const VERSION: u8 = 1;

/// The first bytes of each direction, whatever the version.
pub const MAGIC: [u8; 7] = *b"PNCTUAL";

/// The preface that both sides send.
pub const PREFACE: [u8; PREFACE_BYTES] = [b'P', b'N', b'C', b'T', b'U', b'A', b'L', VERSION];

/// What a driver has after feeding the first bytes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preface {
    /// All right so far; this many more bytes are needed.
    Incomplete(usize),
    /// The preface of this version was read. Whatever follows its eight bytes belongs to the handshake frame.
    Complete,
}

/// Judges the first bytes of a connection, as few as there are: a peer that is something else is recognised at its first
/// wrong byte, not after a timeout.
///
/// # Errors
/// Where the peer speaks another version, or something else altogether.
pub fn read_preface(bytes: &[u8]) -> Result<Preface, HandshakeError> {
    let shown = bytes.get(..PREFACE_BYTES).unwrap_or(bytes);
    if !shown.iter().zip(MAGIC).all(|(byte, magic)| *byte == magic) {
        return Err(HandshakeError::not_punctual(bytes));
    }
    match shown.get(MAGIC.len()) {
        None => Ok(Preface::Incomplete(PREFACE_BYTES - shown.len())),
        Some(&VERSION) => Ok(Preface::Complete),
        Some(&theirs) => Err(HandshakeError::Version { ours: VERSION, theirs }),
    }
}
