//! `contracts.json`.

use super::{File, hex, text};
use punctual_proto::contract::{MethodDescriptor, ServiceDescriptor, StreamDescriptor, method_id};
use punctual_proto::schema::{EnumType, Field, Fields, StructType, Type, Variant};

const fn field(name: &'static str, ty: &'static Type) -> Field {
    Field { name, docs: "", ty, optional: false }
}

const fn named(fields: &'static [Field]) -> StructType {
    StructType { name: "Any", docs: "", fields: Fields::Named(fields) }
}

const FORGET: &StructType = &named(&[field("order", &Type::U64)]);
const CHARGE: &StructType = &named(&[
    field("order", &Type::U64),
    field("note", &Type::Option(&Type::Str)),
    field("tags", &Type::Seq(&Type::Str)),
]);
const DECLINED: &EnumType = &EnumType {
    name: "Any",
    docs: "",
    variants: &[
        Variant { name: "Declined", docs: "", fields: Fields::Unit },
        Variant { name: "Limit", docs: "", fields: Fields::Newtype(&Type::U64) },
    ],
};

/// The services of the vectors. The methods stand in another order than in the text.
pub(super) static SERVICES: [ServiceDescriptor; 2] = [
    ServiceDescriptor::new(
        "Billing",
        "",
        &[
            MethodDescriptor::oneway("Billing/forget", &Type::Struct(FORGET)),
            MethodDescriptor::unary("Billing/charge", &Type::Struct(CHARGE), &Type::U64, &Type::Enum(DECLINED)),
        ],
    ),
    ServiceDescriptor::new("Empty", "", &[]),
];

static TRADE: MethodDescriptor =
    MethodDescriptor::unary("Billing/trade", &Type::Struct(FORGET), &Type::U64, &Type::Status)
        .streams(&[StreamDescriptor::new("notes", &Type::Str, &Type::Status)])
        .returns_stream(&Type::Enum(DECLINED));

/// Method ids and hashes are those of the vectors: both sides of every connection must compute the same.
#[test]
fn contracts_have_their_numbers() {
    File::read("contracts.json").each(|case, name| {
        if let Some(full_name) = case["text"].as_str() {
            assert_eq!(format!("{:016x}", method_id(full_name)), text(case, "method_id"), "{name}");
            return;
        }
        if let Some(line) = case["method"].as_str() {
            let canonical = |method: &&MethodDescriptor| {
                let mut canonical = String::new();
                method.write_canonical(&mut canonical).unwrap();
                canonical == line
            };
            let mut methods = SERVICES.iter().flat_map(|service| service.methods).chain([&TRADE]);
            let method = methods.find(canonical).unwrap_or_else(|| panic!("{name}: no method here has this text"));
            assert_eq!(format!("{:016x}", method.schema_hash()), text(case, "schema_hash"), "{name}");
            return;
        }
        let canonical = |service: &ServiceDescriptor| {
            let mut canonical = String::new();
            service.write_canonical(&mut canonical).unwrap();
            canonical
        };
        let service = SERVICES.iter().find(|service| canonical(service) == text(case, "canonical"));
        let service = service.unwrap_or_else(|| panic!("{name}: no service here has this text"));
        assert_eq!(hex(&service.contract_hash()), text(case, "hash"), "{name}");
    });
}
