//! Two versions of one shape: each difference, with what becomes of values in both directions and both codecs.

use super::conversion::convert;
use super::{ChangeKind, Outcome};
use crate::describe::text::Plain;
use crate::describe::{FieldDescription, FieldsDescription, TypeDescription, VariantDescription};
use std::collections::BTreeMap;
use std::fmt;

/// What becomes of values by codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading {
    /// Between peers of different contracts.
    pub(super) named: Outcome,
    /// From tools, and in stored tasks.
    pub(super) json: Outcome,
}

impl Reading {
    pub(super) const WORKS: Reading = Reading::both(Outcome::Works);
    pub(super) const SOME_FAIL: Reading = Reading::both(Outcome::SomeFail);
    pub(super) const FAILS: Reading = Reading::both(Outcome::Fails);

    pub(super) const fn both(outcome: Outcome) -> Reading {
        Reading { named: outcome, json: outcome }
    }

    /// The same where not every value comes across it.
    fn sometimes(self) -> Reading {
        let capped = |outcome: Outcome| outcome.min(Outcome::SomeFail);
        Reading { named: capped(self.named), json: capped(self.json) }
    }
}

/// One difference between two shapes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Difference {
    /// Where, behind the shape's own place: `.order`, `[].price`.
    pub(super) path: String,
    pub(super) kind: ChangeKind,
    pub(super) text: String,
    /// The old version wrote, the new one reads.
    pub(super) forward: Reading,
    /// The new version wrote, the old one reads.
    pub(super) backward: Reading,
}

/// Every difference that some codec sees. None means that all values pass both ways.
pub(super) fn compare(old: &TypeDescription, new: &TypeDescription) -> Vec<Difference> {
    let mut walk = Walk { path: String::new(), sometimes: false, found: Vec::new() };
    walk.types(old, new);
    walk.found
}

/// A shape as the codecs write it: a structure of one value without a name is that value.
#[derive(Clone, Copy)]
enum Written<'a> {
    Plain(&'a TypeDescription),
    Option(&'a TypeDescription),
    Seq(&'a TypeDescription),
    Array(&'a TypeDescription, u64),
    Map(&'a TypeDescription, &'a TypeDescription),
    Tuple(&'a [TypeDescription]),
    Named(&'a [FieldDescription]),
    UnitStruct,
    Enum(&'a [VariantDescription]),
}

impl<'a> Written<'a> {
    fn of(mut ty: &'a TypeDescription) -> Self {
        loop {
            return match ty {
                TypeDescription::Struct { fields: FieldsDescription::Newtype(inner), .. } => {
                    ty = inner;
                    continue;
                }
                TypeDescription::Struct { fields: FieldsDescription::Tuple(items), .. } => Written::Tuple(items),
                TypeDescription::Struct { fields: FieldsDescription::Named(fields), .. } => Written::Named(fields),
                TypeDescription::Struct { fields: FieldsDescription::Unit, .. } => Written::UnitStruct,
                TypeDescription::Enum { variants, .. } => Written::Enum(variants),
                TypeDescription::Tuple(items) => Written::Tuple(items),
                TypeDescription::Option(item) => Written::Option(item),
                TypeDescription::Seq(item) => Written::Seq(item),
                TypeDescription::Array { item, len } => Written::Array(item, *len),
                TypeDescription::Map { key, value } => Written::Map(key, value),
                plain => Written::Plain(plain),
            };
        }
    }

    /// The content of a variant; `None` where it has none.
    fn content(fields: &'a FieldsDescription) -> Option<Self> {
        match fields {
            FieldsDescription::Unit => None,
            FieldsDescription::Newtype(item) => Some(Self::of(item)),
            FieldsDescription::Tuple(items) => Some(Written::Tuple(items)),
            FieldsDescription::Named(fields) => Some(Written::Named(fields)),
        }
    }
}

struct Walk {
    path: String,
    /// Inside of something that not every value has.
    sometimes: bool,
    found: Vec<Difference>,
}

impl Walk {
    fn types(&mut self, old: &TypeDescription, new: &TypeDescription) {
        self.written(Written::of(old), Written::of(new), &Became(old, new));
    }

    fn written(&mut self, old: Written<'_>, new: Written<'_>, shown: &dyn fmt::Display) {
        use Written::{Array, Enum, Map, Named, Option, Plain, Seq, Tuple, UnitStruct};
        match (old, new) {
            (Option(old), Option(new)) => self.inside("", |walk| walk.types(old, new)),
            (Plain(TypeDescription::Json), Plain(TypeDescription::Json)) => {}
            (Plain(TypeDescription::Json), _) | (_, Plain(TypeDescription::Json)) => self.json(old, new, shown),
            (Plain(TypeDescription::Unit), Option(_)) => {
                self.differs(ChangeKind::TypeChanged, shown, Reading::WORKS, Reading::SOME_FAIL);
            }
            (Option(_), Plain(TypeDescription::Unit)) => {
                self.differs(ChangeKind::TypeChanged, shown, Reading::SOME_FAIL, Reading::WORKS);
            }
            (old, Option(new)) => {
                self.differs(ChangeKind::TypeChanged, shown, Reading::WORKS, Reading::SOME_FAIL);
                self.written(old, Written::of(new), shown);
            }
            (Option(old), new) => {
                self.differs(ChangeKind::TypeChanged, shown, Reading::SOME_FAIL, Reading::WORKS);
                self.written(Written::of(old), new, shown);
            }
            (Seq(old), Seq(new)) => self.inside("[]", |walk| walk.types(old, new)),
            (Array(old, length), Array(new, len)) if length == len => self.at("[]", |walk| walk.types(old, new)),
            (Array(old, _), Seq(new)) => {
                self.differs(ChangeKind::TypeChanged, shown, Reading::WORKS, Reading::SOME_FAIL);
                self.at("[]", |walk| walk.types(old, new));
            }
            (Seq(old), Array(new, _)) => {
                self.differs(ChangeKind::TypeChanged, shown, Reading::SOME_FAIL, Reading::WORKS);
                self.at("[]", |walk| walk.types(old, new));
            }
            (Tuple(old), Tuple(new)) if old.len() == new.len() => {
                for (at, (old, new)) in old.iter().zip(new).enumerate() {
                    self.at(&format!(".{at}"), |walk| walk.types(old, new));
                }
            }
            (Map(old_key, old), Map(new_key, new)) => {
                self.inside("{key}", |walk| walk.keys(old_key, new_key));
                self.inside("{}", |walk| walk.types(old, new));
            }
            (Named(old), Named(new)) => self.fields(old, new),
            (Enum(old), Enum(new)) => self.variants(old, new, shown),
            (UnitStruct, UnitStruct) => {}
            (Plain(old), Plain(new)) if old == new => {}
            (old, new) => {
                let (forward, backward) = (converted(old, new), converted(new, old));
                self.differs(ChangeKind::TypeChanged, shown, forward, backward);
            }
        }
    }

    fn fields(&mut self, old: &[FieldDescription], new: &[FieldDescription]) {
        let named: BTreeMap<&str, &FieldDescription> = new.iter().map(|field| (field.name.as_str(), field)).collect();
        let known: BTreeMap<&str, ()> = old.iter().map(|field| (field.name.as_str(), ())).collect();
        for field in old {
            self.at(&format!(".{}", Plain(&field.name)), |walk| match named.get(field.name.as_str()) {
                Some(other) => {
                    if field.optional && !other.optional {
                        // Who is built with a contract writes all fields; who writes JSON by hand may have left it out.
                        let forward = Reading { named: Outcome::Works, json: Outcome::SomeFail };
                        let text = &"it could be left out, and cannot any more";
                        walk.differs(ChangeKind::FieldRequired, text, forward, Reading::WORKS);
                    }
                    walk.types(&field.ty, &other.ty);
                }
                None if field.optional => {
                    let text = &"removed, or renamed; it had a default, and is ignored where it is sent";
                    walk.differs(ChangeKind::FieldRemoved, text, Reading::WORKS, Reading::WORKS);
                }
                None => {
                    let text = &"removed, or renamed; the old version needs it, and the new one ignores it";
                    walk.differs(ChangeKind::FieldRemoved, text, Reading::WORKS, Reading::FAILS);
                }
            });
        }
        for field in new.iter().filter(|field| !known.contains_key(field.name.as_str())) {
            self.at(&format!(".{}", Plain(&field.name)), |walk| {
                let (text, forward) = if field.optional {
                    ("added with a default", Reading::WORKS)
                } else {
                    ("added without a default", Reading::FAILS)
                };
                walk.differs(ChangeKind::FieldAdded, &text, forward, Reading::WORKS);
            });
        }
    }

    fn variants(&mut self, old: &[VariantDescription], new: &[VariantDescription], shown: &dyn fmt::Display) {
        let named: BTreeMap<&str, &VariantDescription> = new.iter().map(|one| (one.name.as_str(), one)).collect();
        let known: BTreeMap<&str, ()> = old.iter().map(|one| (one.name.as_str(), ())).collect();
        if !old.is_empty() && !new.is_empty() && !named.keys().any(|name| known.contains_key(name)) {
            return self.differs(ChangeKind::TypeChanged, shown, Reading::FAILS, Reading::FAILS);
        }
        for variant in old {
            self.inside(&format!(".{}", Plain(&variant.name)), |walk| match named.get(variant.name.as_str()) {
                Some(other) => match (Written::content(&variant.fields), Written::content(&other.fields)) {
                    (None, None) => {}
                    (Some(old), Some(new)) => walk.written(old, new, &"its content changed"),
                    (Some(_), None) => {
                        let text = &"it had a content, and has none any more";
                        walk.differs(ChangeKind::TypeChanged, text, Reading::FAILS, Reading::FAILS);
                    }
                    (None, Some(_)) => {
                        let text = &"it had no content, and has one now";
                        walk.differs(ChangeKind::TypeChanged, text, Reading::FAILS, Reading::FAILS);
                    }
                },
                None => {
                    let text = &"the variant was removed, or renamed";
                    walk.differs(ChangeKind::VariantRemoved, text, Reading::FAILS, Reading::WORKS);
                }
            });
        }
        for variant in new.iter().filter(|variant| !known.contains_key(variant.name.as_str())) {
            self.inside(&format!(".{}", Plain(&variant.name)), |walk| {
                let text = &"the variant was added";
                walk.differs(ChangeKind::VariantAdded, text, Reading::WORKS, Reading::FAILS);
            });
        }
    }

    /// The keys of a map, which JSON writes as text and the named codec as what they are.
    fn keys(&mut self, old: &TypeDescription, new: &TypeDescription) {
        let before = self.found.len();
        self.types(old, new);
        for difference in self.found.iter_mut().skip(before) {
            if difference.kind == ChangeKind::TypeChanged {
                // A number may stand where text stood; which, no description tells.
                difference.forward.json = difference.forward.json.min(Outcome::SomeFail);
                difference.backward.json = difference.backward.json.min(Outcome::SomeFail);
            }
        }
    }

    /// Any JSON value on one side.
    fn json(&mut self, old: Written<'_>, new: Written<'_>, shown: &dyn fmt::Display) {
        let is_json = |written: Written<'_>| matches!(written, Written::Plain(TypeDescription::Json));
        let into_json = |written: Written<'_>| Reading { named: named_into_json(written), json: Outcome::Works };
        let (forward, backward) =
            if is_json(new) { (into_json(old), Reading::SOME_FAIL) } else { (Reading::SOME_FAIL, into_json(new)) };
        self.differs(ChangeKind::TypeChanged, shown, forward, backward);
    }

    /// Something that every value has.
    fn at(&mut self, step: &str, then: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push_str(step);
        then(self);
        self.path.truncate(length);
    }

    /// Something that a value may not have.
    fn inside(&mut self, step: &str, then: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.sometimes, true);
        self.at(step, then);
        self.sometimes = before;
    }

    fn differs(&mut self, kind: ChangeKind, text: &dyn fmt::Display, forward: Reading, backward: Reading) {
        let (forward, backward) =
            if self.sometimes { (forward.sometimes(), backward.sometimes()) } else { (forward, backward) };
        self.found.push(Difference { path: self.path.clone(), kind, text: text.to_string(), forward, backward });
    }
}

/// What becomes of the values of one kind that are read as another.
fn converted(wrote: Written<'_>, reads: Written<'_>) -> Reading {
    match (wrote, reads) {
        (Written::Plain(wrote), Written::Plain(reads)) => convert(wrote, reads),
        (Written::Seq(item), Written::Plain(TypeDescription::Bytes)) => {
            // Bytes take a sequence of small numbers; an empty one is of any type.
            let of_bytes = if *item == TypeDescription::U8 { Outcome::Works } else { Outcome::SomeFail };
            Reading::both(of_bytes)
        }
        (Written::Plain(TypeDescription::Bytes), Written::Seq(item)) => {
            let of_bytes = if *item == TypeDescription::U8 { Outcome::Works } else { Outcome::SomeFail };
            Reading::both(of_bytes)
        }
        // A variant without content is its name.
        (Written::Enum(variants), Written::Plain(TypeDescription::Str)) => {
            let plain = variants.iter().filter(|one| one.fields == FieldsDescription::Unit).count();
            Reading::both(match plain {
                0 => Outcome::Fails,
                some if some < variants.len() => Outcome::SomeFail,
                _ => Outcome::Works,
            })
        }
        (Written::Plain(TypeDescription::Str), Written::Enum(variants)) => {
            let plain = variants.iter().any(|one| one.fields == FieldsDescription::Unit);
            if plain { Reading::SOME_FAIL } else { Reading::FAILS }
        }
        _ => Reading::FAILS,
    }
}

/// What becomes of values that the named codec wrote and that are read as JSON values: it has bytes, and keys that are no
/// text, which those do not have.
fn named_into_json(written: Written<'_>) -> Outcome {
    let of = |item: &TypeDescription| named_into_json(Written::of(item));
    let sometimes = |outcome: Outcome| outcome.min(Outcome::SomeFail);
    let worst = |all: &mut dyn Iterator<Item = Outcome>| all.max().unwrap_or(Outcome::Works);
    match written {
        Written::Plain(TypeDescription::Bytes | TypeDescription::U128 | TypeDescription::I128) => Outcome::Fails,
        Written::Plain(_) | Written::UnitStruct => Outcome::Works,
        Written::Option(item) | Written::Seq(item) => sometimes(of(item)),
        Written::Array(item, _) => of(item),
        Written::Map(TypeDescription::Str, value) => sometimes(of(value)),
        Written::Map(..) => Outcome::SomeFail,
        Written::Tuple(items) => worst(&mut items.iter().map(of)),
        Written::Named(fields) => worst(&mut fields.iter().map(|field| of(&field.ty))),
        Written::Enum(variants) => {
            let contents = variants.iter().filter_map(|variant| Written::content(&variant.fields));
            sometimes(worst(&mut contents.map(named_into_json)))
        }
    }
}

/// `u64 became String`.
struct Became<'a>(&'a TypeDescription, &'a TypeDescription);

impl fmt::Display for Became<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} became {}", self.0, self.1)
    }
}
