//! The floor's frame: 16 bytes of header, little endian, then the body.
//!
//! Length of the body u32 · kind u8 · method u8 · flags u16 · id u32 · zero u32.

/// Bytes of a header.
pub const HEADER_BYTES: usize = 16;

/// The flag of a stream's last frame.
pub const END: u16 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A call with one message there and one back.
    Request = 1,
    /// Its answer.
    Reply = 2,
    /// A call without an answer.
    Note = 3,
    /// A call with streams.
    Open = 4,
    /// An item of a stream, of either direction.
    Item = 5,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Method {
    Add = 1,
    Nap = 2,
    Note = 3,
    Echo = 4,
    Upload = 5,
    Download = 6,
    Duplex = 7,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub kind: Kind,
    pub method: Method,
    pub flags: u16,
    pub id: u32,
}

impl Header {
    pub fn new(kind: Kind, method: Method, flags: u16, id: u32) -> Self {
        Header { kind, method, flags, id }
    }

    pub fn to_bytes(self, body_bytes: usize) -> [u8; HEADER_BYTES] {
        // Bodies are of this program, and far below 4 GiB.
        let word = body_bytes as u64 & 0xffff_ffff
            | (self.kind as u64) << 32
            | (self.method as u64) << 40
            | u64::from(self.flags) << 48;
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&word.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.id.to_le_bytes());
        bytes
    }

    /// The header and the length of its body; `None` for what no floor writes.
    pub fn read(bytes: &[u8; HEADER_BYTES]) -> Option<(Self, usize)> {
        let (word, id) = bytes.split_first_chunk::<8>()?;
        let word = u64::from_le_bytes(*word);
        let kind = match word >> 32 & 0xff {
            1 => Kind::Request,
            2 => Kind::Reply,
            3 => Kind::Note,
            4 => Kind::Open,
            5 => Kind::Item,
            _ => return None,
        };
        let method = match word >> 40 & 0xff {
            1 => Method::Add,
            2 => Method::Nap,
            3 => Method::Note,
            4 => Method::Echo,
            5 => Method::Upload,
            6 => Method::Download,
            7 => Method::Duplex,
            _ => return None,
        };
        let id = u32::from_le_bytes(*id.first_chunk()?);
        let header = Header { kind, method, flags: u16::try_from(word >> 48).ok()?, id };
        Some((header, usize::try_from(word & 0xffff_ffff).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards that both ends of the floor mean the same by a header.
    #[test]
    fn a_header_is_read_as_it_was_written() {
        for (kind, method) in [(Kind::Request, Method::Add), (Kind::Item, Method::Duplex), (Kind::Note, Method::Note)] {
            let header = Header::new(kind, method, END, 0xdead_beef);
            assert_eq!(Header::read(&header.to_bytes(4_096)), Some((header, 4_096)));
        }
        assert_eq!(Header::read(&[0xff; HEADER_BYTES]), None);
    }
}
