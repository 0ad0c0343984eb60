//! The outline of a MessagePack body: exactly one value, every length within the bytes present, nesting within the bound.

use crate::codec::{Codec, CodecError, DEPTH_MAX, Problem};

/// Walks the values without recursion: per open container, how many values it still waits for.
pub(super) fn check(body: &[u8]) -> Result<(), CodecError> {
    let mut walk = Walk { body, at: 0 };
    let mut open = [0u64; DEPTH_MAX as usize + 1];
    let mut depth = 0usize;
    let mut waiting = 1u64;
    while waiting > 0 {
        waiting -= 1;
        let inside = walk.value()?;
        if let Some(children) = inside {
            let hole = open
                .get_mut(depth)
                .filter(|_| depth < DEPTH_MAX as usize)
                .ok_or_else(|| walk.fail(Problem::Depth, format_args!("nesting is deeper than {DEPTH_MAX} levels")))?;
            *hole = waiting;
            waiting = children;
            depth += 1;
        }
        while waiting == 0 && depth > 0 {
            depth -= 1;
            waiting = open.get(depth).copied().unwrap_or_default();
        }
    }
    match body.len() - walk.at {
        0 => Ok(()),
        extra => Err(walk.fail(Problem::Trailing, format_args!("{extra} bytes follow the value"))),
    }
}

struct Walk<'a> {
    body: &'a [u8],
    at: usize,
}

impl Walk<'_> {
    #[cold]
    fn fail(&self, problem: Problem, text: impl std::fmt::Display) -> CodecError {
        CodecError::new(Codec::Named, problem, Some(self.at), text)
    }

    fn left(&self) -> u64 {
        (self.body.len() - self.at) as u64
    }

    fn skip(&mut self, len: u64) -> Result<(), CodecError> {
        let left = self.left();
        match usize::try_from(len) {
            Ok(step) if len <= left => {
                self.at += step;
                Ok(())
            }
            _ => Err(self.fail(Problem::Length, format_args!("a length of {len} bytes where {left} are left"))),
        }
    }

    /// A big-endian number of `width` bytes.
    fn number(&mut self, width: usize) -> Result<u64, CodecError> {
        let end = self.at.saturating_add(width);
        let Some(bytes) = self.body.get(self.at..end) else {
            return Err(self.fail(Problem::Truncated, "the body ends inside a value"));
        };
        self.at = end;
        Ok(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn content(&mut self, len: u64) -> Result<Option<u64>, CodecError> {
        self.skip(len).map(|()| None)
    }

    fn sized(&mut self, width: usize, extra: u64) -> Result<Option<u64>, CodecError> {
        let len = self.number(width)?;
        self.content(len + extra)
    }

    /// Each value takes at least a byte, so a container with more than the bytes left cannot be whole.
    fn container(&self, values: u64) -> Result<Option<u64>, CodecError> {
        if values > self.left() {
            let left = self.left();
            return Err(self.fail(Problem::Length, format_args!("{values} values where {left} bytes are left")));
        }
        Ok(Some(values))
    }

    /// Passes one value's own bytes; for a container, says how many values are inside.
    fn value(&mut self) -> Result<Option<u64>, CodecError> {
        let marker = self.number(1)?;
        match marker {
            0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => Ok(None),
            0x80..=0x8f => self.container(2 * (marker & 0x0f)),
            0x90..=0x9f => self.container(marker & 0x0f),
            0xa0..=0xbf => self.content(marker & 0x1f),
            0xc4 | 0xd9 => self.sized(1, 0),
            0xc5 | 0xda => self.sized(2, 0),
            0xc6 | 0xdb => self.sized(4, 0),
            0xc7 => self.sized(1, 1),
            0xc8 => self.sized(2, 1),
            0xc9 => self.sized(4, 1),
            0xcc | 0xd0 => self.content(1),
            0xcd | 0xd1 => self.content(2),
            0xca | 0xce | 0xd2 => self.content(4),
            0xcb | 0xcf | 0xd3 => self.content(8),
            0xd4..=0xd8 => self.content(1 + (1 << (marker - 0xd4))),
            0xdc => {
                let values = self.number(2)?;
                self.container(values)
            }
            0xdd => {
                let values = self.number(4)?;
                self.container(values)
            }
            0xde => {
                let entries = self.number(2)?;
                self.container(2 * entries)
            }
            0xdf => {
                let entries = self.number(4)?;
                self.container(2 * entries)
            }
            _ => Err(self.fail(Problem::Data, "0xc1 is no MessagePack value")),
        }
    }
}
