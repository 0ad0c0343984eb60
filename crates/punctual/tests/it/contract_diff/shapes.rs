//! Edits of structures, enumerations and collections.

use super::row;
use punctual::contract::ChangeKind::{
    FieldAdded, FieldRemoved, FieldRequired, TypeChanged, VariantAdded, VariantRemoved,
};
use std::collections::BTreeMap;

/// What every edit of a structure is made of.
macro_rules! versions {
    ({ $($old:item)* } { $($new:item)* }) => {
        mod old {
            $(#[punctual::message] #[derive(Debug, Clone)] $old)*
        }
        mod new {
            $(#[punctual::message] #[derive(Debug, Clone)] $new)*
        }
    };
}

/// Doc comments, names of types, and `Box` are on no wire.
#[test]
fn names_of_types_are_free() {
    versions!(
        { pub(super) struct Order { pub(super) id: u64 } }
        { /// With words.
          pub(super) struct Renamed { /// Its number.
              pub(super) id: Box<u64> } }
    );
    row("renamed type", &[old::Order { id: 7 }], &[new::Renamed { id: Box::new(7) }], &[], &[]);
}

/// A field that is new and has a default.
#[test]
fn field_added_with_a_default() {
    versions!(
        { pub(super) struct T { pub(super) a: u8 } }
        { pub(super) struct T { pub(super) a: u8, #[serde(default)] pub(super) b: String } }
    );
    let (old, new) = ([old::T { a: 1 }], [new::T { a: 1, b: "x".to_owned() }]);
    row("added with a default", &old, &new, &[], &[(FieldAdded, "args.b")]);
}

/// An option that is new needs no attribute.
#[test]
fn option_added() {
    versions!(
        { pub(super) struct T { pub(super) a: u8 } }
        { pub(super) struct T { pub(super) a: u8, pub(super) b: Option<u8> } }
    );
    let (old, new) = ([old::T { a: 1 }], [new::T { a: 1, b: None }, new::T { a: 1, b: Some(2) }]);
    row("option added", &old, &new, &[], &[(FieldAdded, "args.b")]);
}

/// A field that is new and has no default.
#[test]
fn field_added_without_a_default() {
    versions!(
        { pub(super) struct T { pub(super) a: u8 } }
        { pub(super) struct T { pub(super) b: u8, pub(super) a: u8 } }
    );
    row("added", &[old::T { a: 1 }], &[new::T { a: 1, b: 2 }], &[], &[(FieldAdded, "args.b")]);
}

/// A field that is gone, which had a default or not.
#[test]
fn field_removed() {
    versions!(
        { pub(super) struct T { pub(super) a: u8, #[serde(default)] pub(super) b: u8 } }
        { pub(super) struct T { pub(super) a: u8 } }
    );
    row("removed", &[old::T { a: 1, b: 2 }], &[new::T { a: 1 }], &[], &[(FieldRemoved, "args.b")]);
    row("added", &[new::T { a: 1 }], &[old::T { a: 1, b: 2 }], &[], &[(FieldAdded, "args.b")]);
}

/// The same without a default.
#[test]
fn needed_field_removed() {
    versions!(
        { pub(super) struct T { pub(super) a: u8, pub(super) b: u8 } }
        { pub(super) struct T { pub(super) a: u8 } }
    );
    row("removed", &[old::T { a: 1, b: 2 }], &[new::T { a: 1 }], &[], &[(FieldRemoved, "args.b")]);
}

/// A rename is a removal and an addition; the attribute that keeps the old name makes it none.
#[test]
fn field_renamed() {
    versions!(
        { pub(super) struct T { pub(super) a: u8 } }
        { pub(super) struct T { pub(super) b: u8 }
          pub(super) struct Kept { #[serde(rename = "a")] pub(super) b: u8 } }
    );
    row("renamed", &[old::T { a: 1 }], &[new::T { b: 1 }], &[], &[(FieldRemoved, "args.a"), (FieldAdded, "args.b")]);
    row("renamed in the source", &[old::T { a: 1 }], &[new::Kept { b: 1 }], &[], &[]);
}

/// Fields may stand in another order: the compact codec is not used then.
#[test]
fn fields_reordered() {
    versions!(
        { pub(super) struct T { pub(super) a: u8, pub(super) b: String } }
        { pub(super) struct T { pub(super) b: String, pub(super) a: u8 } }
    );
    let (old, new) = (old::T { a: 1, b: "x".to_owned() }, new::T { a: 1, b: "x".to_owned() });
    let changes = super::changes(<old::T as punctual::Schema>::TYPE, <new::T as punctual::Schema>::TYPE);
    assert_eq!(changes, []);
    for codec in [super::Codec::Named, super::Codec::Json] {
        assert_eq!(super::seen::<_, new::T>(codec, std::slice::from_ref(&old), &[]), super::Outcome::Works);
        assert_eq!(super::seen::<_, old::T>(codec, std::slice::from_ref(&new), &[]), super::Outcome::Works);
    }
}

/// A default that is taken away hurts only who wrote by hand.
#[test]
fn default_taken_away() {
    versions!(
        { pub(super) struct T { #[serde(default)] pub(super) a: u8 } }
        { pub(super) struct T { pub(super) a: u8 } }
    );
    let expected = [(FieldRequired, "args.a")];
    row("no default any more", &[old::T { a: 1 }], &[new::T { a: 1 }], &["{}"], &expected);
    row("a default now", &[new::T { a: 1 }], &[old::T { a: 1 }], &[], &[]);
}

/// A type that became an option, or is none any more.
#[test]
fn option_changed() {
    let (plain, option) = ([1u8, 2], [None, Some(3u8)]);
    row("became an option", &plain, &option, &[], &[(TypeChanged, "args")]);
    row("is no option any more", &option, &plain, &[], &[(TypeChanged, "args")]);
    row("nothing became an option", &[()], &[None, Some(1u8)], &[], &[(TypeChanged, "args")]);
}

/// A change deep inside is told where it is, and concerns the values that reach there.
#[test]
fn nested_changes() {
    versions!(
        { pub(super) struct Line { pub(super) price: u64 }
          pub(super) struct T { pub(super) lines: Vec<Line>, pub(super) by: std::collections::BTreeMap<String, Line>, pub(super) one: Option<Line> } }
        { pub(super) struct Line { pub(super) price: String }
          pub(super) struct T { pub(super) lines: Vec<Line>, pub(super) by: std::collections::BTreeMap<String, Line>, pub(super) one: Option<Line> } }
    );
    let old = [
        old::T { lines: vec![], by: BTreeMap::new(), one: None },
        old::T { lines: vec![old::Line { price: 5 }], by: BTreeMap::new(), one: None },
        old::T { lines: vec![], by: BTreeMap::from([("k".to_owned(), old::Line { price: 5 })]), one: None },
    ];
    let new = [
        new::T { lines: vec![], by: BTreeMap::new(), one: None },
        new::T { lines: vec![], by: BTreeMap::new(), one: Some(new::Line { price: "5".to_owned() }) },
    ];
    let expected =
        [(TypeChanged, "args.lines[].price"), (TypeChanged, "args.by{}.price"), (TypeChanged, "args.one.price")];
    row("price retyped", &old, &new, &[], &expected);
}

/// A variant that is new is known to new readers only.
#[test]
fn variant_added() {
    versions!(
        { pub(super) enum E { A, B(u8) } }
        { pub(super) enum E { New { x: u8 }, A, B(u8) } }
    );
    let (old, new) = ([old::E::A, old::E::B(1)], [new::E::A, new::E::B(1), new::E::New { x: 1 }]);
    row("variant added", &old, &new, &[], &[(VariantAdded, "args.New")]);
    row("variant removed", &new, &old, &[], &[(VariantRemoved, "args.New")]);
}

/// What a variant holds is compared like any type.
#[test]
fn variant_changed() {
    versions!(
        { pub(super) enum E { A, Unit, Full(u8), Named { a: u8 }, Pair(u8, u8), Same((u8, u8)) } }
        { pub(super) enum E { A, Unit(u8), Full, Named { a: u8, #[serde(default)] b: u8 }, Pair(u8, u8, u8), Same(u8, u8) } }
    );
    let old =
        [old::E::A, old::E::Unit, old::E::Full(1), old::E::Named { a: 1 }, old::E::Pair(1, 2), old::E::Same((1, 2))];
    let new = [
        new::E::A,
        new::E::Unit(1),
        new::E::Full,
        new::E::Named { a: 1, b: 2 },
        new::E::Pair(1, 2, 3),
        new::E::Same(1, 2),
    ];
    let expected = [
        (TypeChanged, "args.Unit"),
        (TypeChanged, "args.Full"),
        (FieldAdded, "args.Named.b"),
        (TypeChanged, "args.Pair"),
    ];
    row("variants retyped", &old, &new, &[], &expected);
    // Each for itself.
    for (at, works) in [(1, false), (2, false), (3, true), (4, false), (5, true)] {
        let expected = if works { super::Outcome::Works } else { super::Outcome::Fails };
        for codec in [super::Codec::Named, super::Codec::Json] {
            assert_eq!(super::seen::<_, new::E>(codec, &old[at..=at], &[]), expected, "{codec} {:?}", old[at]);
            assert_eq!(super::seen::<_, old::E>(codec, &new[at..=at], &[]), expected, "{codec} {:?}", new[at]);
        }
    }
}

/// An enumeration whose variants all have other names is another type.
#[test]
fn all_variants_renamed() {
    versions!({ pub(super) enum E { A, B } } { pub(super) enum E { C, D } });
    row("renamed", &[old::E::A, old::E::B], &[new::E::C, new::E::D], &[], &[(TypeChanged, "args")]);
}

/// A text that became an enumeration of names, and back.
#[test]
fn texts_and_names() {
    versions!({ pub(super) enum Plain { A, B } } { pub(super) enum Mixed { A, B(u8) } });
    let texts = ["A".to_owned(), "other".to_owned()];
    row("text became names", &texts, &[old::Plain::A, old::Plain::B], &[], &[(TypeChanged, "args")]);
    row("text became a mixed enum", &texts, &[new::Mixed::A, new::Mixed::B(1)], &[], &[(TypeChanged, "args")]);
}

/// A structure of one value without a name is that value.
#[test]
fn newtypes_are_what_they_hold() {
    versions!({ pub(super) struct Id(pub(super) u64); } { pub(super) struct Pair(pub(super) u8, pub(super) u8); });
    let changes = super::changes(<old::Id as punctual::Schema>::TYPE, <u64 as punctual::Schema>::TYPE);
    assert_eq!(changes, []);
    for codec in [super::Codec::Named, super::Codec::Json] {
        assert_eq!(super::seen::<_, u64>(codec, &[old::Id(7)], &[]), super::Outcome::Works);
        assert_eq!(super::seen::<_, old::Id>(codec, &[7u64], &[]), super::Outcome::Works);
        assert_eq!(super::seen::<_, (u8, u8)>(codec, &[new::Pair(1, 2)], &[]), super::Outcome::Works);
    }
    assert_eq!(super::changes(<new::Pair as punctual::Schema>::TYPE, <(u8, u8) as punctual::Schema>::TYPE), []);
}

/// Sequences, arrays and tuples.
#[test]
fn sequences() {
    let lists = [vec![], vec![1u8, 2], vec![1, 2, 3]];
    row("a list became an array", &lists, &[[1u8, 2]], &[], &[(TypeChanged, "args")]);
    row("an array became a list", &[[1u8, 2]], &lists, &[], &[(TypeChanged, "args")]);
    row("another length", &[[1u8, 2]], &[[1u8, 2, 3]], &[], &[(TypeChanged, "args")]);
    row("longer tuple", &[(1u8, 2u8)], &[(1u8, 2u8, 3u8)], &[], &[(TypeChanged, "args")]);
    row("one of a tuple", &[(1u8, 2u8)], &[(1u8, "x".to_owned())], &[], &[(TypeChanged, "args.1")]);
    row("items of a list", &[vec![], vec![1u8]], &[vec![], vec!["x".to_owned()]], &[], &[(TypeChanged, "args[]")]);
}

/// The keys of a map are text in JSON and what they are between peers.
#[test]
fn keys_of_maps() {
    let map = |keys: &[u32]| keys.iter().map(|key| (*key, 1u8)).collect::<BTreeMap<u32, u8>>();
    let text = |keys: &[&str]| keys.iter().map(|key| ((*key).to_owned(), 1u8)).collect::<BTreeMap<String, u8>>();
    let (old, new) = ([map(&[]), map(&[5])], [text(&[]), text(&["5"]), text(&["x"])]);
    let changes =
        super::changes(<BTreeMap<u32, u8> as punctual::Schema>::TYPE, <BTreeMap<String, u8> as punctual::Schema>::TYPE);
    assert_eq!(super::said(&changes, true), [super::Outcome::SomeFail; 2]);
    assert_eq!(super::seen::<_, BTreeMap<String, u8>>(super::Codec::Named, &old, &[]), super::Outcome::SomeFail);
    assert_eq!(super::seen::<_, BTreeMap<u32, u8>>(super::Codec::Named, &new, &[]), super::Outcome::SomeFail);
    assert_eq!(super::seen::<_, BTreeMap<u32, u8>>(super::Codec::Json, &new, &[]), super::Outcome::SomeFail);
}
