//! The schema of a message is what serde writes.
//!
//! The compact codec carries no names and no kinds, so everything rests on this. A serializer walks the schema beside the
//! value and objects where the two part.

use punctual::__private::{Field, Fields, Schema, Type, Variant};
use punctual::{Bytes, message};
use serde::ser::{self, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::time::Duration;

#[message]
struct Unit;

#[message]
struct Newtype(u64);

#[message]
struct Pair(u8, String);

#[message]
#[serde(transparent)]
struct Through {
    only: BTreeMap<String, Vec<i16>>,
}

/// With everything that changes a name.
#[message]
#[serde(rename_all = "camelCase")]
struct Named<T> {
    plain_one: T,
    #[serde(rename = "other")]
    renamed: Option<f32>,
    #[serde(skip)]
    skipped: u8,
    #[serde(default, alias = "older")]
    with_default: [u16; 3],
    #[message(as = String)]
    #[serde(with = "as_text")]
    elsewhere: std::net::Ipv4Addr,
    r#type: char,
}

/// A type that has serde but no schema, written as text in every codec.
mod as_text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::net::Ipv4Addr;

    pub(super) fn serialize<S: Serializer>(address: &Ipv4Addr, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(address)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Ipv4Addr, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[message]
#[serde(rename_all = "SCREAMING-KEBAB-CASE", rename_all_fields = "PascalCase")]
enum Choice {
    PlainOne,
    WithOne(Newtype),
    WithTwo(i8, Unit),
    #[serde(rename = "named")]
    WithNames {
        first_name: bool,
        #[serde(skip)]
        absent: u8,
    },
    #[serde(rename_all = "snake_case")]
    OwnRule {
        first_name: (),
    },
}

/// Each message writes what its schema says, names included.
#[test]
fn messages() {
    check(&Unit);
    check(&Newtype(1));
    check(&Pair(1, "a".to_owned()));
    check(&Through { only: BTreeMap::from([("a".to_owned(), vec![1])]) });
    let elsewhere = std::net::Ipv4Addr::LOCALHOST;
    check(&Named {
        plain_one: Choice::PlainOne,
        renamed: Some(1.0),
        skipped: 0,
        with_default: [1; 3],
        elsewhere,
        r#type: 'x',
    });
    for choice in [
        Choice::PlainOne,
        Choice::WithOne(Newtype(1)),
        Choice::WithTwo(1, Unit),
        Choice::WithNames { first_name: true, absent: 0 },
        Choice::OwnRule { first_name: () },
    ] {
        check(&choice);
    }
}

/// So do the types that contracts borrow from std and elsewhere.
#[test]
fn borrowed_types() {
    check(&(true, 1u8, 2u16, 3u32, 4u64, 5u128, -1i8, -2i16, -3i32, -4i64, -5i128));
    check(&(1.0f32, 2.0f64, 'c', "text".to_owned(), ()));
    check(&(Bytes::from_static(b"x"), Box::new(1u8), std::borrow::Cow::Borrowed("x")));
    check(&(Some(1u8), None::<u8>, vec![1u8], [1u8; 4], (1u8,)));
    check(&(std::num::NonZeroU64::MIN, std::num::NonZeroI8::MIN, std::time::SystemTime::UNIX_EPOCH));
    check(&(BTreeSet::from([1u8]), HashMap::from([(1u8, 'a')])));
    check(&(Duration::from_millis(1), Ok::<u8, String>(1), Err::<u8, String>("e".to_owned())));
}

/// A lie is found: the check can fail.
#[test]
fn a_lie_is_found() {
    static WRONG: Type = Type::Struct(&punctual::__private::StructType {
        name: "Wrong",
        docs: "",
        fields: Fields::Named(&[
            Field { name: "firstName", docs: "", ty: &Type::Bool, optional: false },
            Field { name: "absent", docs: "", ty: &Type::U8, optional: false },
        ]),
    });
    assert!(Newtype(1).serialize(Walker(&WRONG)).is_err());
    assert!(1u8.serialize(Walker(&Type::U16)).is_err());
    assert!(Choice::PlainOne.serialize(Walker(&Type::Str)).is_err());
}

fn check<T: Schema + Serialize>(value: &T) {
    if let Err(error) = value.serialize(Walker(T::TYPE)) {
        panic!("{} is not what serde writes: {error}", T::TYPE.canonical());
    }
}

#[derive(Debug)]
struct Parted(String);

impl fmt::Display for Parted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Parted {}

impl ser::Error for Parted {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Parted(message.to_string())
    }
}

type Walked = Result<(), Parted>;

/// Stands at one place of the schema.
#[derive(Clone, Copy)]
struct Walker(&'static Type);

impl Walker {
    fn expect(self, wrote: &str, fits: bool) -> Walked {
        if fits {
            Ok(())
        } else {
            Err(Parted(format!("serde wrote {wrote} where the schema has {}", self.0.canonical())))
        }
    }

    fn named(self, wrote: &'static str, len: usize) -> Result<NamedParts, Parted> {
        let fields = match self.0 {
            Type::Struct(shape) => match shape.fields {
                Fields::Named(fields) => Some(fields),
                _ => None,
            },
            _ => None,
        };
        let fields = fields.filter(|fields| fields.len() == len);
        fields.map(|fields| NamedParts { fields, at: 0 }).ok_or_else(|| {
            Parted(format!("serde wrote {wrote} of {len} fields where the schema has {}", self.0.canonical()))
        })
    }

    fn tuple_of(self, wrote: &'static str, len: usize) -> Result<Parts, Parted> {
        let parts = match self.0 {
            Type::Tuple(items) if items.len() == len => Some(Parts { items: items.to_vec(), repeat: None, at: 0 }),
            Type::Array(item, count) if *count == len => Some(Parts { items: Vec::new(), repeat: Some(item), at: 0 }),
            Type::Struct(shape) => match shape.fields {
                Fields::Tuple(items) if items.len() == len => {
                    Some(Parts { items: items.to_vec(), repeat: None, at: 0 })
                }
                _ => None,
            },
            _ => None,
        };
        parts.ok_or_else(|| Parted(format!("serde wrote {wrote} of {len} where the schema has {}", self.0.canonical())))
    }

    fn variant(self, index: u32, name: &str) -> Result<&'static Variant, Parted> {
        let Type::Enum(shape) = self.0 else {
            return Err(Parted(format!("serde wrote a variant where the schema has {}", self.0.canonical())));
        };
        let variant = shape.variants.get(index as usize).filter(|variant| variant.name == name);
        variant.ok_or_else(|| Parted(format!("variant {index} is {name:?} to serde, not in {}", self.0.canonical())))
    }
}

struct Parts {
    items: Vec<&'static Type>,
    repeat: Option<&'static Type>,
    at: usize,
}

impl Parts {
    fn next<T: Serialize + ?Sized>(&mut self, value: &T) -> Walked {
        let ty = self.repeat.or_else(|| self.items.get(self.at).copied());
        self.at += 1;
        value.serialize(Walker(ty.ok_or_else(|| Parted("serde wrote more items than the schema has".to_owned()))?))
    }
}

struct NamedParts {
    fields: &'static [Field],
    at: usize,
}

impl NamedParts {
    fn next<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Walked {
        let field = self.fields.get(self.at).filter(|field| field.name == key);
        let field = field.ok_or_else(|| Parted(format!("serde wrote the field {key:?} at {}", self.at)))?;
        self.at += 1;
        value.serialize(Walker(field.ty))
    }
}

struct Entries(&'static Type, &'static Type);

macro_rules! plain {
    ($($method:ident($ty:ty) => $shape:ident;)*) => {
        $(fn $method(self, _: $ty) -> Walked {
            self.expect(stringify!($shape), matches!(self.0, Type::$shape))
        })*
    };
}

impl ser::Serializer for Walker {
    type Ok = ();
    type Error = Parted;
    type SerializeSeq = Parts;
    type SerializeTuple = Parts;
    type SerializeTupleStruct = Parts;
    type SerializeTupleVariant = Parts;
    type SerializeMap = Entries;
    type SerializeStruct = NamedParts;
    type SerializeStructVariant = NamedParts;

    plain! {
        serialize_bool(bool) => Bool; serialize_char(char) => Char; serialize_str(&str) => Str;
        serialize_bytes(&[u8]) => Bytes; serialize_f32(f32) => F32; serialize_f64(f64) => F64;
        serialize_u8(u8) => U8; serialize_u16(u16) => U16; serialize_u32(u32) => U32; serialize_u64(u64) => U64;
        serialize_i8(i8) => I8; serialize_i16(i16) => I16; serialize_i32(i32) => I32; serialize_i64(i64) => I64;
        serialize_u128(u128) => U128; serialize_i128(i128) => I128;
    }

    fn serialize_unit(self) -> Walked {
        self.expect("unit", matches!(self.0, Type::Unit))
    }

    fn serialize_none(self) -> Walked {
        self.expect("none", matches!(self.0, Type::Option(_)))
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Walked {
        match self.0 {
            Type::Option(item) => value.serialize(Walker(item)),
            _ => self.expect("some", false),
        }
    }

    fn serialize_unit_struct(self, _: &'static str) -> Walked {
        self.expect("a unit struct", matches!(self.0, Type::Struct(shape) if matches!(shape.fields, Fields::Unit)))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Walked {
        match self.0 {
            Type::Struct(shape) => match shape.fields {
                Fields::Newtype(item) => value.serialize(Walker(item)),
                _ => self.expect("a newtype", false),
            },
            _ => self.expect("a newtype", false),
        }
    }

    fn serialize_unit_variant(self, _: &'static str, index: u32, name: &'static str) -> Walked {
        self.expect("a unit variant", matches!(self.variant(index, name)?.fields, Fields::Unit))
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        index: u32,
        name: &'static str,
        value: &T,
    ) -> Walked {
        match self.variant(index, name)?.fields {
            Fields::Newtype(item) => value.serialize(Walker(item)),
            _ => self.expect("a newtype variant", false),
        }
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Parts, Parted> {
        match self.0 {
            Type::Seq(item) => Ok(Parts { items: Vec::new(), repeat: Some(item), at: 0 }),
            _ => Err(Parted(format!("serde wrote a sequence where the schema has {}", self.0.canonical()))),
        }
    }

    fn serialize_tuple(self, len: usize) -> Result<Parts, Parted> {
        self.tuple_of("a tuple", len)
    }

    fn serialize_tuple_struct(self, _: &'static str, len: usize) -> Result<Parts, Parted> {
        self.tuple_of("a tuple struct", len)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        index: u32,
        name: &'static str,
        len: usize,
    ) -> Result<Parts, Parted> {
        match self.variant(index, name)?.fields {
            Fields::Tuple(items) if items.len() == len => Ok(Parts { items: items.to_vec(), repeat: None, at: 0 }),
            _ => Err(Parted(format!("the tuple variant {name:?} differs"))),
        }
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Entries, Parted> {
        match self.0 {
            Type::Map(key, value) => Ok(Entries(key, value)),
            _ => Err(Parted(format!("serde wrote a map where the schema has {}", self.0.canonical()))),
        }
    }

    fn serialize_struct(self, _: &'static str, len: usize) -> Result<NamedParts, Parted> {
        self.named("a struct", len)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        index: u32,
        name: &'static str,
        len: usize,
    ) -> Result<NamedParts, Parted> {
        match self.variant(index, name)?.fields {
            Fields::Named(fields) if fields.len() == len => Ok(NamedParts { fields, at: 0 }),
            _ => Err(Parted(format!("the struct variant {name:?} differs"))),
        }
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

macro_rules! parts {
    ($($kind:ident::$method:ident),*) => {
        $(impl ser::$kind for Parts {
            type Ok = ();
            type Error = Parted;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Walked {
                self.next(value)
            }

            fn end(self) -> Walked {
                Ok(())
            }
        })*
    };
}

parts!(
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field
);

macro_rules! named_parts {
    ($($kind:ident),*) => {
        $(impl ser::$kind for NamedParts {
            type Ok = ();
            type Error = Parted;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Walked {
                self.next(key, value)
            }

            fn end(self) -> Walked {
                Ok(())
            }
        })*
    };
}

named_parts!(SerializeStruct, SerializeStructVariant);

impl ser::SerializeMap for Entries {
    type Ok = ();
    type Error = Parted;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Walked {
        key.serialize(Walker(self.0))
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Walked {
        value.serialize(Walker(self.1))
    }

    fn end(self) -> Walked {
        Ok(())
    }
}

/// What each message writes, it reads back, in the codecs that carry names and in the one that does not.
#[test]
fn messages_read_back() {
    let elsewhere = std::net::Ipv4Addr::LOCALHOST;
    let value = Named {
        plain_one: vec![Pair(1, "a".to_owned())],
        renamed: None,
        skipped: 9,
        with_default: [1, 2, 3],
        elsewhere,
        r#type: 'x',
    };
    let check = |back: Named<Vec<Pair>>| {
        assert_eq!((back.plain_one[0].0, back.with_default, back.elsewhere), (1, [1, 2, 3], elsewhere));
        assert_eq!((back.skipped, back.renamed, back.r#type), (0, None, 'x'));
    };
    check(postcard::from_bytes(&postcard::to_stdvec(&value).unwrap()).unwrap());
    check(rmp_serde::from_slice(&rmp_serde::to_vec_named(&value).unwrap()).unwrap());
    check(serde_json::from_str(&serde_json::to_string(&value).unwrap()).unwrap());
    let older = r#"{"plainOne":[[1,"a"]],"older":[1,2,3],"elsewhere":"127.0.0.1","type":"x","unknown":1}"#;
    check(serde_json::from_str(older).unwrap());
}
