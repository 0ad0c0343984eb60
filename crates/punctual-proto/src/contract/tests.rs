//! The numbers and texts of contracts.

use super::{MethodDescriptor, ServiceDescriptor, check_unique_ids, method_id};
use crate::schema::{Field, Fields, StructType, Type};

static ORDER: Type = Type::Struct(&StructType {
    name: "Charge",
    docs: "",
    fields: Fields::Named(&[Field { name: "order", docs: "", ty: &Type::U64, optional: false }]),
});
static CHARGE: MethodDescriptor = MethodDescriptor::unary("Billing/charge", &ORDER, &Type::U64, &Type::Str);
static SEEN: MethodDescriptor = MethodDescriptor::oneway("Billing/seen", &ORDER);

/// Ids are FNV-1a 64 of the full name, as the protocol document says; the vectors are the algorithm's own.
#[test]
fn method_ids_are_fnv_1a() {
    assert_eq!(method_id(""), 0xcbf2_9ce4_8422_2325);
    assert_eq!(method_id("a"), 0xaf63_dc4c_8601_ec8c);
    assert_eq!(method_id("foobar"), 0x8594_4171_f739_67e8);
    assert_eq!(CHARGE.id, method_id("Billing/charge"));
    assert_eq!((CHARGE.service(), CHARGE.name), ("Billing", "charge"));
}

/// The canonical text is what peers of another language must reproduce to speak the compact codec.
#[test]
fn canonical_text_of_a_service() {
    let service = ServiceDescriptor::new("Billing", "docs do not count", &[SEEN_FIRST[0], SEEN_FIRST[1]]);
    let mut text = String::new();
    service.write_canonical(&mut text).unwrap();
    assert_eq!(
        text,
        "service Billing\nunary charge struct{order:u64} -> u64 ! str\noneway seen struct{order:u64} -> unit ! unit\n"
    );
}

const SEEN_FIRST: [MethodDescriptor; 2] = [
    MethodDescriptor::oneway("Billing/seen", &ORDER),
    MethodDescriptor::unary("Billing/charge", &ORDER, &Type::U64, &Type::Str),
];

/// Order of declaration and policies keep the hash; a type on the wire, a name or a shape changes it.
#[test]
fn contract_hash_follows_the_wire_only() {
    const BASE: &[MethodDescriptor] = &[MethodDescriptor::unary("Billing/charge", &ORDER, &Type::U64, &Type::Str)];
    const POLICY: &[MethodDescriptor] =
        &[MethodDescriptor::unary("Billing/charge", &ORDER, &Type::U64, &Type::Str).idempotent().docs("x")];
    const OTHER: &[MethodDescriptor] = &[MethodDescriptor::unary("Billing/charge", &ORDER, &Type::U32, &Type::Str)];
    let hash = |methods| ServiceDescriptor::new("Billing", "", methods).contract_hash();
    assert_eq!(hash(BASE), hash(POLICY));
    assert_ne!(hash(BASE), hash(OTHER));
    assert_ne!(hash(BASE), ServiceDescriptor::new("Billings", "", BASE).contract_hash());
    assert_eq!(BASE[0].args_hash(), OTHER[0].args_hash());
    assert_ne!(BASE[0].schema_hash(), OTHER[0].schema_hash());
}

/// Two methods with one id would be dispatched to each other: refused when the descriptor is built.
#[test]
fn shared_ids_are_refused() {
    check_unique_ids(&[CHARGE, SEEN]);
    assert!(std::panic::catch_unwind(|| check_unique_ids(&[CHARGE, SEEN, CHARGE])).is_err());
}
