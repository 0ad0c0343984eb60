//! `codecs.json`.

use super::{File, bytes, hex, is_reads_only, text};
use bytes::Bytes;
use punctual_proto::codec::{self, Codec};
use punctual_proto::status::Status;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Serialize, Deserialize)]
struct Order {
    order: u64,
    note: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Mark;

#[derive(Serialize, Deserialize)]
struct Nothing {}

#[derive(Serialize, Deserialize)]
struct Cents(u64);

#[derive(Serialize, Deserialize)]
enum Shape {
    Plain,
    Newtype(u64),
    Pair(u8, bool),
    Named { name: String },
}

#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Nest(Vec<Nest>);

/// The values of the vectors are read and written as they say in each codec, and the bad ones refused for the reason that
/// they say.
#[test]
fn values_are_read_and_written() {
    File::read("codecs.json").each(|case, name| match text(case, "type") {
        "bool" => check::<bool>(case, name),
        "u8" => check::<u8>(case, name),
        "i8" => check::<i8>(case, name),
        "i32" => check::<i32>(case, name),
        "u64" => check::<u64>(case, name),
        "u128" => check_wide::<u128>(case, name),
        "i128" => check_wide::<i128>(case, name),
        "f32" => check::<f32>(case, name),
        "f64" => check::<f64>(case, name),
        "char" => check::<char>(case, name),
        "str" => check::<String>(case, name),
        "bytes" => check::<Bytes>(case, name),
        "unit" => check::<()>(case, name),
        "u64?" => check::<Option<u64>>(case, name),
        "[u16]" => check::<Vec<u16>>(case, name),
        "[unit]" => check::<Vec<()>>(case, name),
        "[u8;2]" => check::<[u8; 2]>(case, name),
        "(u8,str)" => check::<(u8, String)>(case, name),
        "map{str:i64}" => check::<BTreeMap<String, i64>>(case, name),
        "struct" => check::<Mark>(case, name),
        "struct{}" => check::<Nothing>(case, name),
        "struct(u64)" => check::<Cents>(case, name),
        "struct{order:u64,note:str?,tags:[str]}" => check::<Order>(case, name),
        "enum{Plain,Newtype(u64),Pair(u8,bool),Named{name:str}}" => check::<Shape>(case, name),
        "status" => check::<Status>(case, name),
        "[[…]]" => check::<Nest>(case, name),
        other => panic!("{name}: no type {other:?} here"),
    });
}

fn check<T: Serialize + DeserializeOwned>(case: &Value, name: &str) {
    check_with::<T>(
        case,
        name,
        |value| serde_json::to_value(value).unwrap(),
        |json| serde_json::from_value(json).unwrap(),
    );
}

/// For integers that a JSON value in memory does not hold: they go through text.
fn check_wide<T: Serialize + DeserializeOwned + std::str::FromStr<Err: std::fmt::Debug> + ToString>(
    case: &Value,
    name: &str,
) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    check_with::<T>(case, name, |value| value.to_string().into(), |json| text(&json).parse().unwrap());
}

fn check_with<T: Serialize + DeserializeOwned>(
    case: &Value,
    name: &str,
    shown: impl Fn(&T) -> Value,
    parsed: impl Fn(Value) -> T,
) {
    let codec = Codec::ALL.into_iter().find(|codec| case["codec"] == codec.name()).unwrap();
    let body = bytes(case, "hex");
    match codec::decode::<T>(codec, &body) {
        Ok(value) => {
            assert!(case["problem"].is_null(), "{name}: read, where {} was expected", case["problem"]);
            assert_eq!(shown(&value), case["value"], "{name}");
            let mut written = Vec::new();
            codec::encode(codec, &parsed(case["value"].clone()), &mut written).unwrap();
            assert_eq!(written == body, !is_reads_only(case), "{name}: {}", hex(&written));
        }
        Err(error) => assert_eq!(case["problem"], error.problem().name(), "{name}: {error}"),
    }
}
