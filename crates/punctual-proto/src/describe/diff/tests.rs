//! Tests of `diff` on descriptions that nobody wrote. What is said of single edits is held against real bytes by the facade's
//! tests, where contracts have types.

use super::shape::{Difference, compare};
use super::*;
use crate::contract::{MethodDescriptor, ServiceDescriptor};
use crate::describe::{FieldDescription, FieldsDescription, TypeDescription, VariantDescription};
use crate::schema::Type;
use proptest::prelude::*;

fn plain() -> impl Strategy<Value = TypeDescription> {
    prop::sample::select(vec![
        TypeDescription::U8,
        TypeDescription::I64,
        TypeDescription::U128,
        TypeDescription::F64,
        TypeDescription::Str,
        TypeDescription::Bytes,
        TypeDescription::Unit,
        TypeDescription::Json,
        TypeDescription::Status,
    ])
}

fn named(ty: impl Strategy<Value = TypeDescription>) -> impl Strategy<Value = Vec<FieldDescription>> {
    let field = ("[ab]", ty, any::<bool>());
    prop::collection::vec(field, 0..3).prop_map(|fields| {
        let fields: BTreeMap<_, _> = fields.into_iter().map(|(name, ty, optional)| (name, (ty, optional))).collect();
        let field = |(name, (ty, optional))| FieldDescription { name, docs: String::new(), ty, optional };
        fields.into_iter().map(field).collect()
    })
}

fn fields(ty: impl Strategy<Value = TypeDescription> + Clone) -> impl Strategy<Value = FieldsDescription> {
    prop_oneof![
        Just(FieldsDescription::Unit),
        ty.clone().prop_map(|item| FieldsDescription::Newtype(Box::new(item))),
        prop::collection::vec(ty.clone(), 2..4).prop_map(FieldsDescription::Tuple),
        named(ty).prop_map(FieldsDescription::Named),
    ]
}

fn types() -> impl Strategy<Value = TypeDescription> {
    plain().prop_recursive(3, 24, 3, |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        prop_oneof![
            boxed.clone().prop_map(TypeDescription::Option),
            boxed.clone().prop_map(TypeDescription::Seq),
            (boxed.clone(), 1..3u64).prop_map(|(item, len)| TypeDescription::Array { item, len }),
            boxed.prop_map(|value| TypeDescription::Map { key: Box::new(TypeDescription::Str), value }),
            fields(inner.clone()).prop_map(|fields| TypeDescription::Struct {
                name: "S".to_owned(),
                docs: String::new(),
                fields
            }),
            prop::collection::vec(("[AB]", fields(inner)), 1..3).prop_map(|variants| {
                let variants: BTreeMap<_, _> = variants.into_iter().collect();
                let variant = |(name, fields)| VariantDescription { name, docs: String::new(), fields };
                TypeDescription::Enum {
                    name: "E".to_owned(),
                    docs: String::new(),
                    variants: variants.into_iter().map(variant).collect(),
                }
            }),
        ]
    })
}

/// The worst that is said of both directions, by codec.
fn worst(differences: &[Difference]) -> [Outcome; 4] {
    differences.iter().fold([Outcome::Works; 4], |[a, b, c, d], difference| {
        let Difference { forward, backward, .. } = difference;
        [a.max(forward.named), b.max(forward.json), c.max(backward.named), d.max(backward.json)]
    })
}

proptest! {
    /// A contract does not differ from itself.
    #[test]
    fn nothing_differs_from_itself(ty in types()) {
        prop_assert_eq!(compare(&ty, &ty), vec![]);
    }

    /// What happens to values does not depend on which version is called the old one. Only a default that is taken away is
    /// seen in one direction: what callers wrote by hand is of the old version.
    #[test]
    fn both_directions_agree(left in types(), right in types()) {
        let except = |found: Vec<Difference>| -> Vec<Difference> {
            found.into_iter().filter(|difference| difference.kind != ChangeKind::FieldRequired).collect()
        };
        let [a, b, c, d] = worst(&except(compare(&left, &right)));
        prop_assert_eq!(worst(&except(compare(&right, &left))), [c, d, a, b]);
    }
}

/// A name from a server's description cannot steer the terminal of who compares it.
#[test]
fn control_characters_are_escaped() {
    static EVIL: ServiceDescriptor = ServiceDescriptor::new(
        "S\u{1b}[2J",
        "",
        &[MethodDescriptor::unary("S\u{1b}[2J/m", &Type::Unit, &Type::Unit, &Type::Status)],
    );
    let changes = diff(&[ServiceDescription::from(&EVIL)], &[]);
    assert_eq!(changes.len(), 1);
    let line = changes[0].to_string();
    assert!(line.chars().all(|letter| !letter.is_control()) && line.contains("\\u{1b}"), "{line:?}");
}

/// What a change amounts to follows from whom it hurts, and the worst counts.
#[test]
fn verdicts_follow_from_impacts() {
    assert_eq!(Impact::NONE.verdict(), Verdict::Compatible);
    let new_clients = Impact { new_clients: Outcome::SomeFail, ..Impact::NONE };
    assert_eq!(new_clients.verdict(), Verdict::ServersFirst);
    for impact in [
        Impact { old_clients: Outcome::SomeFail, ..new_clients },
        Impact { json_callers: Outcome::Fails, ..new_clients },
        Impact { stored_tasks: Outcome::SomeFail, ..new_clients },
    ] {
        assert_eq!(impact.verdict(), Verdict::Breaks);
    }
}
