//! Tests of `describe`.

use super::*;
use crate::contract::{DurablePolicy, MethodDescriptor};
use crate::schema::{EnumType, Field, Fields, StructType, Type, Variant};
use std::time::Duration;

const ARGS: &Type = &Type::Struct(&StructType {
    name: "Charge",
    docs: "",
    fields: Fields::Named(&[
        Field { name: "order", docs: "Which one.", ty: &Type::U64, optional: false },
        Field { name: "tags", docs: "", ty: &Type::Seq(&Type::Str), optional: false },
        Field { name: "note", docs: "", ty: &Type::Option(&Type::Str), optional: true },
        Field { name: "at", docs: "", ty: &Type::Array(&Type::F64, 2), optional: false },
        Field {
            name: "by",
            docs: "",
            ty: &Type::Map(&Type::Str, &Type::Tuple(&[&Type::U8, &Type::I8])),
            optional: false,
        },
    ]),
});

const ERR: &Type = &Type::Enum(&EnumType {
    name: "Declined",
    docs: "Why not.",
    variants: &[
        Variant { name: "Limit", docs: "", fields: Fields::Newtype(&Type::U64) },
        Variant { name: "Closed", docs: "", fields: Fields::Unit },
        Variant { name: "Pair", docs: "", fields: Fields::Tuple(&[&Type::Bool, &Type::Char]) },
    ],
});

static SERVICE: ServiceDescriptor = ServiceDescriptor::new(
    "Billing",
    "Takes money.",
    &[
        MethodDescriptor::unary("Billing/charge", ARGS, &Type::U64, ERR)
            .docs("Charges an order.")
            .timeout(Duration::from_micros(1_500))
            .durable(DurablePolicy::new().queue("money").attempts(7)),
        MethodDescriptor::oneway("Billing/forget", ARGS),
    ],
);

/// A description survives its JSON form whole, so that a saved one can be compared with a new one.
#[test]
fn survives_json() {
    let described = vec![ServiceDescription::from(&SERVICE)];
    let body = ServiceDescription::encode_all(&described).unwrap();
    assert_eq!(ServiceDescription::decode_all(&body).unwrap(), described);
}

/// The JSON form that tools of other languages read is the one that `docs/protocol.md` shows.
#[test]
fn json_has_the_documented_form() {
    let body = ServiceDescription::encode_all(&[ServiceDescription::from(&SERVICE)]).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let charge = &json[0]["methods"][0];
    assert_eq!(json[0]["contract_hash"].as_str().unwrap().len(), 32);
    assert_eq!(charge["full_name"], "Billing/charge");
    assert_eq!(charge["id"], format!("{:016x}", crate::contract::method_id("Billing/charge")));
    assert_eq!(charge["shape"], "unary");
    assert_eq!(charge["timeout_ms"], 2);
    assert_eq!(charge["durable"], serde_json::json!({"queue": "money", "attempts": 7}));
    assert_eq!(
        charge["args"]["struct"]["fields"]["named"][2],
        serde_json::json!({"name": "note", "type": {"option": "str"}, "optional": true})
    );
    assert_eq!(
        charge["err"]["enum"]["variants"][0],
        serde_json::json!({"name": "Limit", "fields": {"newtype": "u64"}})
    );
}

/// Fields that a newer server adds do not keep an older tool from reading the rest.
#[test]
fn unknown_fields_are_ignored() {
    let body = br#"[{"name":"S","contract_hash":"00","methods":[],"new":{"deep":[1]}}]"#;
    assert_eq!(ServiceDescription::decode_all(body).unwrap()[0].name, "S");
}

/// Types print in one line, the way a Rust signature shows them.
#[test]
fn types_print_like_rust() {
    let shown = |shape: &Type| TypeDescription::from(shape).to_string();
    assert_eq!(shown(&Type::Option(&Type::Seq(&Type::Str))), "Option<Vec<String>>");
    assert_eq!(shown(&Type::Map(&Type::Str, &Type::Tuple(&[&Type::U8, ARGS]))), "Map<String, (u8, Charge)>");
    assert_eq!(shown(&Type::Array(&Type::F64, 2)), "[f64; 2]");
}
