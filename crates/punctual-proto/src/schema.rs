//! The shape of what crosses the wire, as constants that the compiler builds.
//!
//! [`Schema`] gives a type its [`Type`]; `#[punctual::message]` implements it for a contract's own types, and
//! `schema/std_types.rs` for the ones that everybody uses. Because the shape is a constant, a recursive contract type
//! is a cycle that does not compile (E0391): decoding can never be made to recurse without a bound. Two things are read
//! from it: the canonical text that [`contract`](crate::contract) hashes, and the description that a server gives of
//! itself.

mod canonical;
mod std_types;
#[cfg(test)]
mod tests;

/// A type with a known shape on the wire.
///
/// Derive it with `#[punctual::message]`. The shape must be what the type's `serde` implementation writes: the compact
/// codec carries no names and no kinds, and relies on both sides having the same one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot cross the wire: it has no schema",
    label = "no schema for `{Self}`",
    note = "put `#[punctual::message]` on a type of your own, or `#[message(as = SomeType)]` on a field whose type is somebody else's",
    note = "`usize` and `isize` differ between machines and have none: use `u64` or `i64`; references do not cross: own the data"
)]
pub trait Schema {
    /// The shape.
    const TYPE: &'static Type;
}

/// A shape on the wire. Equality and order of nothing are implied: compare shapes with [`Type::canonical`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Type {
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
    /// A status: a code, a message and bounded details.
    Status,
    /// Any JSON value. Only the self-describing codecs can carry it.
    Json,
    /// A value or none.
    Option(&'static Type),
    /// Any number of values.
    Seq(&'static Type),
    /// A number of values that both sides know.
    Array(&'static Type, usize),
    /// Keys and values.
    Map(&'static Type, &'static Type),
    /// Values by position.
    Tuple(&'static [&'static Type]),
    /// A structure.
    Struct(&'static StructType),
    /// One of several variants.
    Enum(&'static EnumType),
}

/// A structure's shape.
#[derive(Debug, Clone, Copy)]
pub struct StructType {
    /// Its name in the source. It does not cross the wire.
    pub name: &'static str,
    /// Its doc comment, lines joined by `\n`; empty without one.
    pub docs: &'static str,
    /// What it holds.
    pub fields: Fields,
}

/// An enumeration's shape.
#[derive(Debug, Clone, Copy)]
pub struct EnumType {
    /// Its name in the source. It does not cross the wire.
    pub name: &'static str,
    /// Its doc comment, lines joined by `\n`; empty without one.
    pub docs: &'static str,
    /// The variants in declaration order: the compact codec sends the index, the others the name.
    pub variants: &'static [Variant],
}

/// One variant of an enumeration.
#[derive(Debug, Clone, Copy)]
pub struct Variant {
    /// Its name on the wire (after `serde(rename)`).
    pub name: &'static str,
    /// Its doc comment.
    pub docs: &'static str,
    /// What it holds.
    pub fields: Fields,
}

/// What a structure or a variant holds.
#[derive(Debug, Clone, Copy)]
pub enum Fields {
    /// Nothing.
    Unit,
    /// One value without a name; written as that value alone.
    Newtype(&'static Type),
    /// Several values by position.
    Tuple(&'static [&'static Type]),
    /// Values by name, written in this order.
    Named(&'static [Field]),
}

/// A named field.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Its name on the wire (after `serde(rename)`).
    pub name: &'static str,
    /// Its doc comment.
    pub docs: &'static str,
    /// Its shape.
    pub ty: &'static Type,
    /// Whether a peer may leave it out in a self-describing codec: it is an `Option`, or has `serde(default)`.
    pub optional: bool,
}

impl Type {
    /// Whether a value of this shape takes no bytes at all in the compact codec.
    #[must_use]
    pub const fn is_zero_size(&self) -> bool {
        match self {
            Type::Unit => true,
            Type::Array(item, len) => *len == 0 || item.is_zero_size(),
            Type::Tuple(items) => all_zero_size(items),
            Type::Struct(shape) => shape.fields.is_zero_size(),
            _ => false,
        }
    }

    /// Whether the shape holds something that only a self-describing codec can carry.
    #[must_use]
    pub const fn is_self_describing(&self) -> bool {
        match self {
            Type::Json => true,
            Type::Option(item) | Type::Seq(item) | Type::Array(item, _) => item.is_self_describing(),
            Type::Map(key, value) => key.is_self_describing() || value.is_self_describing(),
            Type::Tuple(items) => any_self_describing(items),
            Type::Struct(shape) => shape.fields.is_self_describing(),
            Type::Enum(shape) => {
                let mut at = 0;
                while at < shape.variants.len() {
                    if shape.variants[at].fields.is_self_describing() {
                        return true;
                    }
                    at += 1;
                }
                false
            }
            _ => false,
        }
    }

    /// The sequence of `item`.
    ///
    /// # Panics
    /// Where `item` takes no bytes: six bytes from a peer could then announce thousands of millions of items. In a
    /// constant, where schemas live, that is a compile error.
    #[must_use]
    pub const fn seq_of(item: &'static Type) -> Type {
        assert!(
            !item.is_zero_size(),
            "a collection of zero-size values cannot cross the wire: its length costs nothing to lie about; send a number"
        );
        Type::Seq(item)
    }

    /// The map from `key` to `value`.
    ///
    /// # Panics
    /// Where `key` cannot be a name in JSON, which tools speak and the store keeps. In a constant that is a compile error.
    #[must_use]
    pub const fn map_of(key: &'static Type, value: &'static Type) -> Type {
        assert!(
            key.is_map_key(),
            "a map's key is text, a whole number, a bool, a char, or an enum of plain variants, since JSON has no other \
             names: send a sequence of pairs"
        );
        Type::Map(key, value)
    }

    /// Whether every codec can carry a map with such keys.
    #[must_use]
    pub const fn is_map_key(&self) -> bool {
        match self {
            Type::Str | Type::Char | Type::Bool => true,
            Type::U8 | Type::U16 | Type::U32 | Type::U64 | Type::U128 => true,
            Type::I8 | Type::I16 | Type::I32 | Type::I64 | Type::I128 => true,
            Type::Struct(StructType { fields: Fields::Newtype(inner), .. }) => inner.is_map_key(),
            Type::Enum(shape) => {
                let mut at = 0;
                while at < shape.variants.len() {
                    if !matches!(shape.variants[at].fields, Fields::Unit) {
                        return false;
                    }
                    at += 1;
                }
                true
            }
            _ => false,
        }
    }
}

impl Fields {
    const fn is_zero_size(&self) -> bool {
        match self {
            Fields::Unit => true,
            Fields::Newtype(item) => item.is_zero_size(),
            Fields::Tuple(items) => all_zero_size(items),
            Fields::Named(fields) => {
                let mut at = 0;
                while at < fields.len() {
                    if !fields[at].ty.is_zero_size() {
                        return false;
                    }
                    at += 1;
                }
                true
            }
        }
    }

    const fn is_self_describing(&self) -> bool {
        match self {
            Fields::Unit => false,
            Fields::Newtype(item) => item.is_self_describing(),
            Fields::Tuple(items) => any_self_describing(items),
            Fields::Named(fields) => {
                let mut at = 0;
                while at < fields.len() {
                    if fields[at].ty.is_self_describing() {
                        return true;
                    }
                    at += 1;
                }
                false
            }
        }
    }
}

const fn all_zero_size(items: &[&Type]) -> bool {
    let mut at = 0;
    while at < items.len() {
        if !items[at].is_zero_size() {
            return false;
        }
        at += 1;
    }
    true
}

const fn any_self_describing(items: &[&Type]) -> bool {
    let mut at = 0;
    while at < items.len() {
        if items[at].is_self_describing() {
            return true;
        }
        at += 1;
    }
    false
}
