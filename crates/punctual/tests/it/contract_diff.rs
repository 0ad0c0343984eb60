//! What the comparison of contracts says of an edit, held against the bytes that the codecs write and read.
//!
//! Each edit is one row: the two versions of a type, values of both, and the expected changes. What is said to work must work
//! for all values, what is said to fail for none, and what fails for some for some of them, in each direction and codec.

mod methods;
mod plain;
mod shapes;

use punctual::Schema;
use punctual::contract::{
    Change, ChangeKind, MethodDescriptor, Outcome, ServiceDescription, ServiceDescriptor, Type, diff,
};
use punctual_proto::codec::{Codec, decode, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A value of a contract.
pub(crate) trait Value: Schema + Serialize + DeserializeOwned {}
impl<T: Schema + Serialize + DeserializeOwned> Value for T {}

/// What is found between a service whose methods `args` and `result` have the one type and one where they have the other.
fn changes(old: &'static Type, new: &'static Type) -> Vec<Change> {
    diff(&[service(old)], &[service(new)])
}

fn service(ty: &'static Type) -> ServiceDescription {
    let methods = Box::leak(Box::new([
        MethodDescriptor::unary("S/args", ty, &Type::Unit, &Type::Status),
        MethodDescriptor::unary("S/result", &Type::Unit, ty, &Type::Status),
    ]));
    ServiceDescription::from(&ServiceDescriptor::new("S", "", methods))
}

/// The worst of what is said: what the one version wrote and the other reads, in the named codec and in JSON.
fn said(changes: &[Change], old_wrote: bool) -> [Outcome; 2] {
    // Clients write arguments, servers results; JSON callers are of the old version.
    let method = if old_wrote { "S/args" } else { "S/result" };
    let of_method = changes.iter().filter(|change| change.subject == method);
    of_method.fold([Outcome::Works; 2], |[named, json], change| {
        [named.max(change.impact.old_clients), json.max(change.impact.json_callers)]
    })
}

/// What really becomes of these values in a codec.
fn seen<W: Value, R: Value>(codec: Codec, values: &[W], by_hand: &[&str]) -> Outcome {
    let encoded = values.iter().map(|value| {
        let mut body = Vec::new();
        encode(codec, value, &mut body).expect("a value of a contract can be written");
        (body, whole_number(value))
    });
    let by_hand = by_hand.iter().filter(|_| codec == Codec::Json).map(|json| (json.as_bytes().to_vec(), None));
    let bodies: Vec<(Vec<u8>, Option<String>)> = encoded.chain(by_hand).collect();
    let is_read = |(body, number): &&(Vec<u8>, Option<String>)| match (decode::<R>(codec, body), number) {
        // A number that becomes another one is worse than one that is refused.
        (Ok(value), Some(number)) => whole_number(&value).is_none_or(|read| read == *number),
        (read, _) => read.is_ok(),
    };
    match bodies.iter().filter(is_read).count() {
        0 => Outcome::Fails,
        some if some < bodies.len() => Outcome::SomeFail,
        _ => Outcome::Works,
    }
}

/// The digits of a value that is a whole number and nothing else.
fn whole_number(value: &impl Serialize) -> Option<String> {
    let text = serde_json::to_string(value).ok()?;
    text.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit()).then_some(text)
}

/// One row. `by_hand` is JSON that a caller of the old version may write beside what its own types would.
#[track_caller]
fn row<O: Value, N: Value>(edit: &str, old: &[O], new: &[N], by_hand: &[&str], expected: &[(ChangeKind, &str)]) {
    let changes = changes(O::TYPE, N::TYPE);
    let found: Vec<(ChangeKind, &str)> = changes
        .iter()
        .filter(|change| change.subject == "S/args")
        .map(|change| (change.kind, change.place.as_str()))
        .collect();
    assert_eq!(found, expected, "{edit}");
    for (at, codec) in [Codec::Named, Codec::Json].into_iter().enumerate() {
        assert_eq!(seen::<O, N>(codec, old, by_hand), said(&changes, true)[at], "{edit}: old wrote {codec}, new reads");
        assert_eq!(seen::<N, O>(codec, new, &[]), said(&changes, false)[at], "{edit}: new wrote {codec}, old reads");
    }
    // Where nothing is said to differ, the compact codec may be used too: the canonical texts are the same.
    if expected.is_empty() {
        assert_eq!(O::TYPE.canonical(), N::TYPE.canonical(), "{edit}");
    }
}
