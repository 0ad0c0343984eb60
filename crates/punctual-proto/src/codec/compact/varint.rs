//! Variable-length integers: seven bits a byte, the lowest first, the top bit set where more follow.

/// Reads an integer of at most `BITS` bits from the front of `bytes`; gives it and the bytes behind it. `None` where the
/// bytes end first; `Some(Err)` where the value does not fit or takes more bytes than the widest value needs.
#[inline]
pub(super) fn read<const BITS: u32>(bytes: &[u8]) -> Option<Result<(u128, &[u8]), TooWide>> {
    let bytes_max = BITS.div_ceil(7) as usize;
    let mut value = 0u128;
    for (index, byte) in bytes.iter().take(bytes_max).enumerate() {
        let low = u128::from(byte & 0x7f);
        let shift = 7 * index as u32;
        if BITS - shift < 7 && low >> (BITS - shift) != 0 {
            return Some(Err(TooWide));
        }
        value |= low << shift;
        if byte & 0x80 == 0 {
            return Some(Ok((value, bytes.get(index + 1..).unwrap_or_default())));
        }
    }
    (bytes.len() >= bytes_max).then_some(Err(TooWide))
}

/// An integer that does not fit.
pub(super) struct TooWide;
