//! Tests of `codec`.

use super::*;
use crate::status::Code;
use proptest::prelude::*;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

const TYPED: [Codec; 3] = [Codec::Compact, Codec::Named, Codec::Json];

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Colour {
    Plain,
    Rgb(u8, u8, u8),
    Named { name: String },
    Mixed(Box<(i16, u32)>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Wide {
    flag: bool,
    small: (u8, i8),
    middle: (u16, i16, u32, i32),
    large: (u64, i64),
    real: (f32, f64),
    letter: char,
    text: String,
    raw: Bytes,
    maybe: Option<u64>,
    list: Vec<Colour>,
    table: BTreeMap<String, i64>,
    fixed: [u16; 3],
    unit: (),
}

fn colour() -> impl Strategy<Value = Colour> {
    prop_oneof![
        Just(Colour::Plain),
        any::<(u8, u8, u8)>().prop_map(|(r, g, b)| Colour::Rgb(r, g, b)),
        ".{0,8}".prop_map(|name| Colour::Named { name }),
        any::<(i16, u32)>().prop_map(|pair| Colour::Mixed(Box::new(pair))),
    ]
}

fn wide() -> impl Strategy<Value = Wide> {
    let numbers = (
        any::<bool>(),
        any::<(u8, i8)>(),
        any::<(u16, i16, u32, i32)>(),
        any::<(u64, i64)>(),
        (-1e6f32..1e6, -1e9f64..1e9),
    );
    let others = (
        any::<char>(),
        ".{0,40}",
        proptest::collection::vec(any::<u8>(), 0..64),
        any::<Option<u64>>(),
        proptest::collection::vec(colour(), 0..6),
        proptest::collection::btree_map(".{0,6}", any::<i64>(), 0..5),
        any::<[u16; 3]>(),
    );
    (numbers, others).prop_map(
        |((flag, small, middle, large, real), (letter, text, raw, maybe, list, table, fixed))| {
            let raw = Bytes::from(raw);
            Wide { flag, small, middle, large, real, letter, text, raw, maybe, list, table, fixed, unit: () }
        },
    )
}

fn encoded<T: Serialize + ?Sized>(codec: Codec, value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    encode(codec, value, &mut out).unwrap();
    out
}

fn problem<T: DeserializeOwned + fmt::Debug>(codec: Codec, body: &[u8]) -> Problem {
    decode::<T>(codec, body).unwrap_err().problem()
}

proptest! {
    /// What was encoded comes back the same in every codec.
    #[test]
    fn values_round_trip(value in wide()) {
        for codec in TYPED {
            let body = encoded(codec, &value);
            prop_assert_eq!(&decode::<Wide>(codec, &body).unwrap(), &value, "{}", codec);
        }
    }

    /// A body cut anywhere is refused, and so is one with a byte behind its end.
    #[test]
    fn cut_and_extended_bodies_are_refused(value in wide()) {
        for codec in TYPED {
            let mut body = encoded(codec, &value);
            for end in 0..body.len() {
                prop_assert!(decode::<Wide>(codec, &body[..end]).is_err(), "{} cut at {}", codec, end);
            }
            body.push(b'0');
            prop_assert_eq!(problem::<Wide>(codec, &body), Problem::Trailing, "{}", codec);
        }
    }

    /// The reader of the compact format reads what the library that writes it reads, and nothing else: on any bytes, ours
    /// accepts exactly those that the other takes without leaving a rest.
    #[test]
    fn compact_agrees_with_its_oracle(body in proptest::collection::vec(any::<u8>(), 0..48)) {
        let theirs = postcard::take_from_bytes::<Wide>(&body).ok().filter(|(_, rest)| rest.is_empty());
        // NaN is not equal to itself; its bytes are.
        let theirs = theirs.map(|(value, _)| encoded(Codec::Compact, &value));
        prop_assert_eq!(decode::<Wide>(Codec::Compact, &body).ok().map(|value| encoded(Codec::Compact, &value)), theirs);
        type Small = (bool, u16, i32, u64, i128, Option<char>, Vec<i8>, Colour);
        let theirs = postcard::take_from_bytes::<Small>(&body).ok().filter(|(_, rest)| rest.is_empty());
        prop_assert_eq!(decode::<Small>(Codec::Compact, &body).ok(), theirs.map(|(value, _)| value));
    }

    /// One byte changed in a valid body never panics any reader, and where ours accepts, its oracle does too.
    #[test]
    fn damaged_bodies_never_panic(value in wide(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        for codec in TYPED {
            let mut body = encoded(codec, &value);
            let at = at.index(body.len());
            body[at] = byte;
            let ours = decode::<Wide>(codec, &body);
            if codec == Codec::Compact {
                prop_assert_eq!(ours.is_ok(), postcard::take_from_bytes::<Wide>(&body).is_ok_and(|(_, rest)| rest.is_empty()));
            }
        }
    }

    /// Random bytes never panic any reader, whatever the type asks for.
    #[test]
    fn random_bodies_never_panic(body in proptest::collection::vec(any::<u8>(), 0..96)) {
        for codec in Codec::ALL {
            let _ = decode::<Wide>(codec, &body);
            let _ = decode::<serde_json::Value>(codec, &body);
            let _ = decode::<Vec<Vec<String>>>(codec, &body);
            let _ = decode::<Bytes>(codec, &body);
        }
    }
}

/// Six bytes that announce 2^35 elements of nothing are refused at once, and so are more of them than the bound however
/// they are spread; a few are an ordinary value.
#[test]
fn empty_elements_are_bounded() {
    let announced = [0x80, 0x80, 0x80, 0x80, 0x80, 0x01];
    assert_eq!(problem::<Vec<()>>(Codec::Compact, &announced), Problem::Length);
    assert_eq!(problem::<Vec<[u64; 0]>>(Codec::Compact, &announced), Problem::Length);
    assert_eq!(problem::<BTreeMap<(), ()>>(Codec::Compact, &announced), Problem::Length);

    let bound = EMPTY_ELEMENTS_MAX as usize;
    assert_eq!(decode::<Vec<()>>(Codec::Compact, &encoded(Codec::Compact, &vec![(); bound])).unwrap().len(), bound);
    assert_eq!(problem::<Vec<()>>(Codec::Compact, &encoded(Codec::Compact, &vec![(); bound + 1])), Problem::Length);
    // Each inner sequence is within the bound; together they are not. The padding makes their count plausible.
    let spread = (vec![vec![(); bound / 2]; 3], vec![0u8; 4_096]);
    assert_eq!(problem::<(Vec<Vec<()>>, Vec<u8>)>(Codec::Compact, &encoded(Codec::Compact, &spread)), Problem::Length);
}

/// A length over the bytes present is refused before anything is made of it, in every codec that has lengths.
#[test]
fn announced_lengths_are_checked_against_the_bytes_present() {
    let huge = [0xff, 0xff, 0xff, 0xff, 0x0f, 1, 2, 3];
    assert_eq!(problem::<String>(Codec::Compact, &huge), Problem::Length);
    assert_eq!(problem::<Bytes>(Codec::Compact, &huge), Problem::Length);
    assert_eq!(problem::<Vec<u64>>(Codec::Compact, &huge), Problem::Length);
    assert_eq!(problem::<BTreeMap<u8, u8>>(Codec::Compact, &huge), Problem::Length);
    for marker in [0xc6, 0xdb, 0xdd, 0xdf] {
        let body = [marker, 0xff, 0xff, 0xff, 0xff, 1, 2, 3];
        assert_eq!(problem::<Vec<u64>>(Codec::Named, &body), Problem::Length, "marker {marker:#x}");
    }
}

/// Takes a sequence and keeps only what it was told to reserve.
#[derive(Debug)]
struct Hint(usize);

impl<'de> Deserialize<'de> for Hint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Watcher;
        impl<'de> Visitor<'de> for Watcher {
            type Value = Hint;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sequence")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Hint, A::Error> {
                let hint = seq.size_hint().unwrap_or(0);
                while seq.next_element::<u8>()?.is_some() {}
                Ok(Hint(hint))
            }
        }
        deserializer.deserialize_seq(Watcher)
    }
}

proptest! {
    /// What a collection is told to reserve never exceeds the bytes present, whatever length the body announces: memory
    /// grows with what was received.
    #[test]
    fn reservations_are_bounded_by_the_bytes_present(body in proptest::collection::vec(any::<u8>(), 0..64)) {
        for codec in TYPED {
            if let Ok(Hint(hint)) = decode::<Hint>(codec, &body) {
                prop_assert!(hint <= body.len(), "{codec}: {hint} for {} bytes", body.len());
            }
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
struct Nest(Vec<Nest>);

#[derive(Debug, Serialize, Deserialize)]
enum Chain {
    End,
    Link(Box<Chain>),
}

fn nest(levels: u32) -> Nest {
    (1..levels).fold(Nest(Vec::new()), |inner, _| Nest(vec![inner]))
}

/// Nesting up to the bound is read and one more level is refused, for sequences and for enums, in every codec.
#[test]
fn nesting_is_bounded() {
    for codec in TYPED {
        assert!(decode::<Nest>(codec, &encoded(codec, &nest(DEPTH_MAX))).is_ok(), "{codec}");
        assert_eq!(problem::<Nest>(codec, &encoded(codec, &nest(DEPTH_MAX + 1))), Problem::Depth, "{codec}");
        let chain = (0..=DEPTH_MAX).fold(Chain::End, |inner, _| Chain::Link(Box::new(inner)));
        assert_eq!(problem::<Chain>(codec, &encoded(codec, &chain)), Problem::Depth, "{codec}");
    }
}

/// Millions of levels, which would overflow the stack of a reader without a bound, are refused like 65.
#[test]
fn hostile_nesting_cannot_exhaust_the_stack() {
    let levels = 2_000_000;
    assert_eq!(problem::<Nest>(Codec::Compact, &vec![1; levels]), Problem::Depth);
    assert_eq!(problem::<Chain>(Codec::Compact, &vec![1; levels]), Problem::Depth);
    assert_eq!(problem::<Nest>(Codec::Named, &vec![0x91; levels]), Problem::Depth);
    let link = [&[0x81, 0xa4][..], b"Link"].concat();
    assert_eq!(problem::<Chain>(Codec::Named, &link.repeat(levels / 4)), Problem::Depth);
    assert_eq!(problem::<Nest>(Codec::Json, &vec![b'['; levels]), Problem::Depth);
    assert_eq!(problem::<Chain>(Codec::Json, br#"{"Link":"#.repeat(levels / 4).as_slice()), Problem::Depth);
    assert_eq!(problem::<serde_json::Value>(Codec::Json, br#"{"a":["#.repeat(levels / 4).as_slice()), Problem::Depth);
}

/// Brackets inside of JSON strings are text, also behind an escaped quote.
#[test]
fn brackets_in_json_strings_are_not_nesting() {
    let text = format!(r#"\"{}"#, "[{".repeat(100));
    let body = encoded(Codec::Json, &text);
    assert_eq!(decode::<String>(Codec::Json, &body).unwrap(), text);
}

/// Text that is not UTF-8 is refused in every codec.
#[test]
fn bad_utf8_is_refused() {
    assert_eq!(problem::<String>(Codec::Compact, &[2, 0xff, 0xfe]), Problem::Data);
    assert_eq!(problem::<String>(Codec::Named, &[0xa2, 0xff, 0xfe]), Problem::Data);
    assert_eq!(problem::<String>(Codec::Json, b"\"\xff\xfe\""), Problem::Data);
}

/// Integers that do not fit their type, or are padded beyond the widest, are refused.
#[test]
fn wide_integers_are_refused() {
    assert_eq!(problem::<u16>(Codec::Compact, &[0xff, 0xff, 0x04]), Problem::Data);
    assert_eq!(decode::<u16>(Codec::Compact, &[0xff, 0xff, 0x03]).unwrap(), u16::MAX);
    assert_eq!(problem::<u64>(Codec::Compact, &[0x80; 11]), Problem::Data);
    assert_eq!(problem::<u64>(Codec::Compact, &[0xff; 9]), Problem::Truncated);
    assert_eq!(problem::<u8>(Codec::Named, &[0xcd, 1, 0]), Problem::Data);
    assert_eq!(problem::<u8>(Codec::Json, b"256"), Problem::Data);
}

/// An error says where reading stopped.
#[test]
fn compact_errors_name_the_byte() {
    let error = decode::<(u8, bool)>(Codec::Compact, &[7, 9]).unwrap_err();
    assert_eq!(error.to_string(), "compact: 9 for a bool; expected 0 or 1 (byte 2)");
    let error = decode::<(u8, String)>(Codec::Compact, &[7, 200, 1]).unwrap_err();
    assert_eq!(error.to_string(), "compact: a length of 200 bytes where 0 are left (byte 3)");
}

/// Refusals become the status that the design names: the caller's argument is wrong, or the answer is lost.
#[test]
fn errors_become_statuses() {
    let error = || decode::<bool>(Codec::Json, b"7").unwrap_err();
    assert_eq!(error().into_request_status().code(), Code::InvalidArgument);
    assert_eq!(error().into_reply_status().code(), Code::DataLoss);
    assert_eq!(error().into_encode_status().code(), Code::Internal);
}

/// A value that fails half-way leaves the buffer as it was, so that what was batched before it stays whole.
#[test]
fn a_failed_encode_leaves_the_buffer_alone() {
    struct Half;
    impl Serialize for Half {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            use serde::ser::{Error, SerializeTuple};
            let mut tuple = serializer.serialize_tuple(2)?;
            tuple.serialize_element("written")?;
            Err(S::Error::custom("no second half"))
        }
    }
    for codec in Codec::ALL {
        let mut out = b"before".to_vec();
        let error = encode(codec, &Half, &mut out).unwrap_err();
        assert_eq!((error.problem(), out.as_slice()), (Problem::Encode, &b"before"[..]), "{codec}");
    }
}

/// Between peers of different contracts, fields that one does not know are ignored and those that it misses take their
/// default.
#[test]
fn named_and_json_evolve() {
    #[derive(Serialize)]
    struct New {
        order: u64,
        added: Vec<Colour>,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct Old {
        order: u64,
        #[serde(default)]
        dropped: String,
    }
    let new = New { order: 7, added: vec![Colour::Plain, Colour::Rgb(1, 2, 3)] };
    for codec in [Codec::Named, Codec::Json] {
        let old: Old = decode(codec, &encoded(codec, &new)).unwrap();
        assert_eq!(old, Old { order: 7, dropped: String::new() }, "{codec}");
    }
}

/// The raw codec carries bytes, or a struct of one field of bytes, unchanged, and nothing else.
#[test]
fn raw_carries_bytes_and_nothing_else() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Upload {
        chunk: Bytes,
    }
    let bytes = Bytes::from_static(&[0, 1, 255]);
    assert_eq!(encoded(Codec::Raw, &bytes), [0, 1, 255]);
    assert_eq!(encoded(Codec::Raw, &Upload { chunk: bytes.clone() }), [0, 1, 255]);
    assert_eq!(decode::<Bytes>(Codec::Raw, &bytes).unwrap(), bytes);
    assert_eq!(decode::<Upload>(Codec::Raw, &bytes).unwrap(), Upload { chunk: bytes.clone() });
    assert_eq!(problem::<u8>(Codec::Raw, &bytes), Problem::Data);
    assert_eq!(problem::<(Bytes, Bytes)>(Codec::Raw, &bytes), Problem::Data);
    assert!(encode(Codec::Raw, "text", &mut Vec::new()).is_err());
    assert!(encode(Codec::Raw, &(1, 2), &mut Vec::new()).is_err());
}

/// A shared raw body is handed over, not copied.
#[test]
fn a_shared_raw_body_is_not_copied() {
    let body = Bytes::from(vec![1; 100_000]);
    let at = body.as_ptr();
    assert_eq!(decode_shared::<Bytes>(Codec::Raw, body).unwrap().as_ptr(), at);
    assert_eq!(decode_shared::<u64>(Codec::Json, Bytes::from_static(b"7")).unwrap(), 7);
}

/// Encoding compact into a buffer with room does not move it, so it allocates nothing of its own there.
#[test]
fn compact_uses_the_room_it_is_given() {
    let value = (1u64, "text".to_owned(), vec![Some(3i32); 50]);
    let mut out = Vec::with_capacity(1_024);
    let at = out.as_ptr();
    encode(Codec::Compact, &value, &mut out).unwrap();
    assert_eq!((out.as_ptr(), out.capacity()), (at, 1_024));
}

/// The four codecs keep their two bits, which are on the wire.
#[test]
fn codecs_keep_their_bits() {
    for codec in Codec::ALL {
        assert_eq!(Codec::from_bits(codec.bits()), codec);
    }
    assert_eq!(Codec::ALL.map(Codec::bits), [0, 1, 2, 3]);
}
