//! The shapes of borrowed types, and what no shape may be.

use super::{Field, Fields, Schema, StructType, Type};
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

fn check<T: Schema + ?Sized>(expected: &str) {
    assert_eq!(T::TYPE.canonical(), expected);
}

/// The canonical text of the types that contracts borrow never changes: it is hashed into every handshake.
#[test]
fn canonical_texts_of_std_types() {
    check::<u8>("u8");
    check::<String>("str");
    check::<Box<str>>("str");
    check::<bytes::Bytes>("bytes");
    check::<Vec<u8>>("[u8]");
    check::<[i16; 4]>("[i16;4]");
    check::<Option<Vec<f64>>>("[f64]?");
    check::<BTreeMap<String, u64>>("map{str:u64}");
    check::<HashSet<u32>>("[u32]");
    check::<(u8, (bool, char))>("(u8,(bool,char))");
    check::<(u8,)>("(u8)");
    check::<()>("unit");
    check::<Duration>("struct{secs:u64,nanos:u32}");
    check::<Result<u8, String>>("enum{Ok(u8),Err(str)}");
    check::<serde_json::Value>("json");
}

/// A name that is no identifier cannot pose as more of the text, and is spelled the same by every compiler.
#[test]
fn renamed_names_are_quoted() {
    let field = |name| Field { name, docs: "", ty: &Type::U8, optional: false };
    for (name, expected) in [
        ("plain_1", "struct{plain_1:u8}"),
        ("a-b", r#"struct{"a-b":u8}"#),
        ("", r#"struct{"":u8}"#),
        ("a:u8,b", r#"struct{"a:u8,b":u8}"#),
        (r#"q"\"#, r#"struct{"q\"\\":u8}"#),
        ("é\u{301}", "struct{\"é\u{301}\":u8}"),
    ] {
        let fields: &'static [Field] = Vec::leak(vec![field(name)]);
        let shape = Box::leak(Box::new(StructType { name: "T", docs: "", fields: Fields::Named(fields) }));
        assert_eq!(Type::Struct(shape).canonical(), expected);
    }
}

/// What takes no bytes is seen through every wrapper, so that no collection of it can be declared.
#[test]
fn zero_size_is_seen_through_wrappers() {
    assert!(<((), [u8; 0], [(); 9])>::TYPE.is_zero_size());
    assert!(!<Option<()>>::TYPE.is_zero_size());
    assert!(!<((), u8)>::TYPE.is_zero_size());
    assert!(std::panic::catch_unwind(|| Type::seq_of(&Type::Unit)).is_err());
    assert!(std::panic::catch_unwind(|| Type::map_of(&Type::Unit, &Type::U8)).is_err());
}

/// Keys that JSON could not say are refused where the type is declared, not when a tool first meets one.
#[test]
fn map_keys_are_names() {
    for key in [<String>::TYPE, <i128>::TYPE, <bool>::TYPE, <char>::TYPE] {
        assert!(key.is_map_key(), "{}", key.canonical());
    }
    for key in [
        <()>::TYPE,
        <(u8, u8)>::TYPE,
        <Result<u8, u8>>::TYPE,
        <Option<u8>>::TYPE,
        <Vec<u8>>::TYPE,
        <f64>::TYPE,
        <bytes::Bytes>::TYPE,
    ] {
        assert!(!key.is_map_key(), "{}", key.canonical());
    }
}

/// A JSON value anywhere inside keeps a type out of the compact codec.
#[test]
fn json_is_seen_through_wrappers() {
    assert!(<Option<Vec<(u8, Result<u8, serde_json::Value>)>>>::TYPE.is_self_describing());
    assert!(<BTreeMap<String, serde_json::Value>>::TYPE.is_self_describing());
    assert!(!<Option<Vec<(u8, Result<u8, String>)>>>::TYPE.is_self_describing());
}
