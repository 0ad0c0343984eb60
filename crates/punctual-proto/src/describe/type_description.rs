//! A shape as plain data.

use crate::schema::{Fields, Type};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The owned form of a [`Type`]. In JSON a plain shape is its word (`"u64"`), another an object with one key
/// (`{"option":"u64"}`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TypeDescription {
    /// `bool`.
    Bool,
    /// `u8`.
    U8,
    /// `u16`.
    U16,
    /// `u32`.
    U32,
    /// `u64`.
    U64,
    /// `u128`.
    U128,
    /// `i8`.
    I8,
    /// `i16`.
    I16,
    /// `i32`.
    I32,
    /// `i64`.
    I64,
    /// `i128`.
    I128,
    /// `f32`.
    F32,
    /// `f64`.
    F64,
    /// `char`.
    Char,
    /// UTF-8 text.
    Str,
    /// Raw bytes.
    Bytes,
    /// Nothing at all.
    Unit,
    /// A status.
    Status,
    /// Any JSON value.
    Json,
    /// A value or none.
    Option(Box<TypeDescription>),
    /// Any number of values.
    Seq(Box<TypeDescription>),
    /// A number of values that both sides know.
    Array {
        /// The values.
        item: Box<TypeDescription>,
        /// Their number.
        len: u64,
    },
    /// Keys and values.
    Map {
        /// The keys.
        key: Box<TypeDescription>,
        /// The values.
        value: Box<TypeDescription>,
    },
    /// Values by position.
    Tuple(Vec<TypeDescription>),
    /// A structure.
    Struct {
        /// Its name in the source, which does not cross the wire.
        name: String,
        /// Its doc comment; empty without one.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        docs: String,
        /// What it holds.
        fields: FieldsDescription,
    },
    /// One of several variants.
    Enum {
        /// Its name in the source, which does not cross the wire.
        name: String,
        /// Its doc comment; empty without one.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        docs: String,
        /// The variants in declaration order.
        variants: Vec<VariantDescription>,
    },
}

/// What a structure or a variant holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldsDescription {
    /// Nothing.
    Unit,
    /// One value without a name.
    Newtype(Box<TypeDescription>),
    /// Several values by position.
    Tuple(Vec<TypeDescription>),
    /// Values by name, in order.
    Named(Vec<FieldDescription>),
}

/// One variant of an enumeration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariantDescription {
    /// Its name on the wire.
    pub name: String,
    /// Its doc comment; empty without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub docs: String,
    /// What it holds.
    pub fields: FieldsDescription,
}

/// A named field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldDescription {
    /// Its name on the wire.
    pub name: String,
    /// Its doc comment; empty without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub docs: String,
    /// Its shape.
    #[serde(rename = "type")]
    pub ty: TypeDescription,
    /// Whether a peer may leave it out in a self-describing codec.
    #[serde(default)]
    pub optional: bool,
}

impl From<&Type> for TypeDescription {
    fn from(shape: &Type) -> Self {
        let boxed = |item: &Type| Box::new(TypeDescription::from(item));
        match shape {
            Type::Bool => TypeDescription::Bool,
            Type::U8 => TypeDescription::U8,
            Type::U16 => TypeDescription::U16,
            Type::U32 => TypeDescription::U32,
            Type::U64 => TypeDescription::U64,
            Type::U128 => TypeDescription::U128,
            Type::I8 => TypeDescription::I8,
            Type::I16 => TypeDescription::I16,
            Type::I32 => TypeDescription::I32,
            Type::I64 => TypeDescription::I64,
            Type::I128 => TypeDescription::I128,
            Type::F32 => TypeDescription::F32,
            Type::F64 => TypeDescription::F64,
            Type::Char => TypeDescription::Char,
            Type::Str => TypeDescription::Str,
            Type::Bytes => TypeDescription::Bytes,
            Type::Unit => TypeDescription::Unit,
            Type::Status => TypeDescription::Status,
            Type::Json => TypeDescription::Json,
            Type::Option(item) => TypeDescription::Option(boxed(item)),
            Type::Seq(item) => TypeDescription::Seq(boxed(item)),
            Type::Array(item, len) => TypeDescription::Array { item: boxed(item), len: *len as u64 },
            Type::Map(key, value) => TypeDescription::Map { key: boxed(key), value: boxed(value) },
            Type::Tuple(items) => TypeDescription::Tuple(all(items)),
            Type::Struct(shape) => TypeDescription::Struct {
                name: shape.name.to_owned(),
                docs: shape.docs.to_owned(),
                fields: (&shape.fields).into(),
            },
            Type::Enum(shape) => TypeDescription::Enum {
                name: shape.name.to_owned(),
                docs: shape.docs.to_owned(),
                variants: shape
                    .variants
                    .iter()
                    .map(|variant| VariantDescription {
                        name: variant.name.to_owned(),
                        docs: variant.docs.to_owned(),
                        fields: (&variant.fields).into(),
                    })
                    .collect(),
            },
        }
    }
}

impl From<&Fields> for FieldsDescription {
    fn from(fields: &Fields) -> Self {
        match fields {
            Fields::Unit => FieldsDescription::Unit,
            Fields::Newtype(item) => FieldsDescription::Newtype(Box::new((*item).into())),
            Fields::Tuple(items) => FieldsDescription::Tuple(all(items)),
            Fields::Named(fields) => FieldsDescription::Named(
                fields
                    .iter()
                    .map(|field| FieldDescription {
                        name: field.name.to_owned(),
                        docs: field.docs.to_owned(),
                        ty: field.ty.into(),
                        optional: field.optional,
                    })
                    .collect(),
            ),
        }
    }
}

fn all(items: &[&Type]) -> Vec<TypeDescription> {
    items.iter().map(|item| (*item).into()).collect()
}

impl fmt::Display for TypeDescription {
    /// For people, in one line and in Rust's manner: names stand for structs and enums.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TypeDescription::Bool => f.write_str("bool"),
            TypeDescription::U8 => f.write_str("u8"),
            TypeDescription::U16 => f.write_str("u16"),
            TypeDescription::U32 => f.write_str("u32"),
            TypeDescription::U64 => f.write_str("u64"),
            TypeDescription::U128 => f.write_str("u128"),
            TypeDescription::I8 => f.write_str("i8"),
            TypeDescription::I16 => f.write_str("i16"),
            TypeDescription::I32 => f.write_str("i32"),
            TypeDescription::I64 => f.write_str("i64"),
            TypeDescription::I128 => f.write_str("i128"),
            TypeDescription::F32 => f.write_str("f32"),
            TypeDescription::F64 => f.write_str("f64"),
            TypeDescription::Char => f.write_str("char"),
            TypeDescription::Str => f.write_str("String"),
            TypeDescription::Bytes => f.write_str("Bytes"),
            TypeDescription::Unit => f.write_str("()"),
            TypeDescription::Status => f.write_str("Status"),
            TypeDescription::Json => f.write_str("Value"),
            TypeDescription::Option(item) => write!(f, "Option<{item}>"),
            TypeDescription::Seq(item) => write!(f, "Vec<{item}>"),
            TypeDescription::Array { item, len } => write!(f, "[{item}; {len}]"),
            TypeDescription::Map { key, value } => write!(f, "Map<{key}, {value}>"),
            TypeDescription::Tuple(items) => {
                f.write_str("(")?;
                for (at, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if at == 0 { "" } else { ", " })?;
                }
                f.write_str(")")
            }
            TypeDescription::Struct { name, .. } | TypeDescription::Enum { name, .. } => f.write_str(name),
        }
    }
}
