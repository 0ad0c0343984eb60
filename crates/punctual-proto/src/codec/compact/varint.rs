//! Variable-length integers: seven bits a byte, the lowest first, the top bit set where more follow.

/// An integer that does not fit its width, or takes more bytes than the widest value of that width needs.
pub(super) struct TooWide;

/// What reading from the front of some bytes gives: the value and the bytes behind it, or `None` where they end first.
type Read<'a, T> = Option<Result<(T, &'a [u8]), TooWide>>;

macro_rules! readers {
    ($($(#[$doc:meta])* $name:ident -> $int:ty;)*) => {
        $($(#[$doc])*
        #[inline]
        pub(super) fn $name<const BITS: u32>(bytes: &[u8]) -> Read<'_, $int> {
            // Most integers are small, and their one byte needs none of the checks below.
            if let Some((&byte @ 0..0x80, rest)) = bytes.split_first() {
                return Some(Ok((<$int>::from(byte), rest)));
            }
            let bytes_max = BITS.div_ceil(7) as usize;
            let mut value: $int = 0;
            let mut shift = 0;
            for (index, byte) in bytes.iter().take(bytes_max).enumerate() {
                let low = <$int>::from(byte & 0x7f);
                if BITS - shift < 7 && low >> (BITS - shift) != 0 {
                    return Some(Err(TooWide));
                }
                value |= low << shift;
                shift += 7;
                if byte & 0x80 == 0 {
                    return Some(Ok((value, bytes.get(index + 1..).unwrap_or_default())));
                }
            }
            (bytes.len() >= bytes_max).then_some(Err(TooWide))
        })*
    };
}

readers! {
    /// Of 16, 32 or 64 bits.
    read_u64 -> u64;
    /// Of 128 bits.
    read_u128 -> u128;
}
