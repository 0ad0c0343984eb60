//! Every plain type read as every other: what the comparison says of each pair is what both codecs do.

use super::{Value, changes, said, seen};
use punctual::contract::Outcome;
use punctual::{Bytes, Status};
use punctual_proto::codec::Codec;
use serde_json::json;

/// A type with values of it: some that other types can say too, and its extremes.
trait Sample: Value {
    fn samples() -> Vec<Self>;
}

macro_rules! samples {
    ($($ty:ty => [$($value:expr),* $(,)?]),* $(,)?) => {
        $(impl Sample for $ty {
            fn samples() -> Vec<Self> {
                vec![$($value),*]
            }
        })*
    };
}

samples! {
    bool => [true, false],
    u8 => [0, 65, u8::MAX], u16 => [0, 65, u16::MAX], u32 => [0, 65, u32::MAX], u64 => [0, 65, u64::MAX],
    u128 => [0, 65, u128::MAX],
    i8 => [0, 65, i8::MIN, i8::MAX], i16 => [0, 65, i16::MIN, i16::MAX], i32 => [0, 65, i32::MIN, i32::MAX],
    i64 => [0, 65, i64::MIN, i64::MAX], i128 => [0, 65, i128::MIN, i128::MAX],
    f32 => [0.0, 65.0, -1.5], f64 => [0.0, 65.0, -1.5e300],
    char => ['A', 'é'],
    String => [String::new(), "A".to_owned(), "two".to_owned(), "65".to_owned()],
    Bytes => [Bytes::new(), Bytes::from_static(b"A"), Bytes::from_static(&[0xff, 0xfe])],
    Vec<u8> => [vec![], vec![65], vec![255, 254]],
    Vec<String> => [vec![], vec!["A".to_owned()]],
    () => [()],
    Status => [Status::internal("x"), Status::not_found("y").with_detail("k", *b"v")],
    serde_json::Value => [
        json!(null), json!(true), json!(65), json!(-1), json!(1.5), json!("A"), json!("two words"), json!([]), json!([65]),
        json!(["A"]), json!({"code": "internal", "message": "x"}), json!({"code": 13, "message": "x"}),
    ],
}

/// A judgement that the codecs do not share.
#[derive(Debug)]
#[expect(dead_code, reason = "for people, where the test fails")]
struct Wrong {
    wrote: String,
    reads: String,
    codec: Codec,
    said: Outcome,
    seen: Outcome,
}

fn pair<W: Sample, R: Sample>(wrong: &mut Vec<Wrong>) {
    let changes = changes(W::TYPE, R::TYPE);
    for (at, codec) in [Codec::Named, Codec::Json].into_iter().enumerate() {
        let (said, seen) = (said(&changes, true)[at], seen::<W, R>(codec, &W::samples(), &[]));
        if said != seen {
            wrong.push(Wrong { wrote: W::TYPE.canonical(), reads: R::TYPE.canonical(), codec, said, seen });
        }
    }
}

macro_rules! pairs {
    ($wrong:ident; $($wrote:ty),*; $reads:tt) => { $(pairs!(@ $wrong $wrote; $reads);)* };
    (@ $wrong:ident $wrote:ty; [$($reads:ty),*]) => { $(pair::<$wrote, $reads>(&mut $wrong);)* };
}

/// The judgement of every pair of plain types is that of the codecs.
#[test]
fn every_pair_of_plain_types() {
    let mut wrong = Vec::new();
    pairs!(wrong;
        bool, u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64, char, String, Bytes, Vec<u8>, Vec<String>, (), Status,
        serde_json::Value;
        [bool, u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64, char, String, Bytes, Vec<u8>, Vec<String>, (), Status,
        serde_json::Value]);
    // What is read by accident is not promised: the bytes of a wide integer, a status from the list of its fields.
    wrong.retain(|pair| match (pair.wrote.as_str(), pair.reads.as_str(), pair.said) {
        ("u128" | "i128", "str" | "bytes" | "[u8]", Outcome::Fails) => pair.codec != Codec::Named,
        ("[u8]" | "[str]", "status", Outcome::Fails) => false,
        _ => true,
    });
    assert!(wrong.is_empty(), "{} pairs:\n{wrong:#?}", wrong.len());
}
