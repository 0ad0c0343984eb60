//! The canonical text of a shape: the same text on both sides means the same bytes in every codec.
//!
//! It holds what the codecs write (kinds, order, names of fields and variants) and leaves out what they do not (names of
//! types, doc comments, whether a field may be missing), so that renaming a Rust type keeps a contract.

use super::{EnumType, Field, Fields, Type};
use std::fmt::{self, Write};

impl Type {
    /// The canonical text, without spaces: `struct{order:u64,tags:[str],note:str?}`.
    #[must_use]
    pub fn canonical(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = self.write_canonical(&mut text);
        text
    }

    /// Writes the canonical text to `out`.
    ///
    /// # Errors
    /// Where `out` refuses.
    pub fn write_canonical(&self, out: &mut impl Write) -> fmt::Result {
        match self {
            Type::Option(item) => {
                item.write_canonical(out)?;
                out.write_char('?')
            }
            Type::Seq(item) => {
                out.write_char('[')?;
                item.write_canonical(out)?;
                out.write_char(']')
            }
            Type::Array(item, len) => {
                out.write_char('[')?;
                item.write_canonical(out)?;
                write!(out, ";{len}]")
            }
            Type::Map(key, value) => {
                out.write_str("map{")?;
                key.write_canonical(out)?;
                out.write_char(':')?;
                value.write_canonical(out)?;
                out.write_char('}')
            }
            Type::Tuple(items) => write_tuple(items, out),
            Type::Struct(shape) => {
                out.write_str("struct")?;
                write_fields(&shape.fields, out)
            }
            Type::Enum(shape) => write_enum(shape, out),
            plain => out.write_str(plain.keyword()),
        }
    }

    /// The word for a shape without parts; empty for the others.
    #[must_use]
    pub const fn keyword(&self) -> &'static str {
        match self {
            Type::Bool => "bool",
            Type::U8 => "u8",
            Type::U16 => "u16",
            Type::U32 => "u32",
            Type::U64 => "u64",
            Type::U128 => "u128",
            Type::I8 => "i8",
            Type::I16 => "i16",
            Type::I32 => "i32",
            Type::I64 => "i64",
            Type::I128 => "i128",
            Type::F32 => "f32",
            Type::F64 => "f64",
            Type::Char => "char",
            Type::Str => "str",
            Type::Bytes => "bytes",
            Type::Unit => "unit",
            Type::Status => "status",
            Type::Json => "json",
            _ => "",
        }
    }
}

fn write_tuple(items: &[&Type], out: &mut impl Write) -> fmt::Result {
    out.write_char('(')?;
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.write_char(',')?;
        }
        item.write_canonical(out)?;
    }
    out.write_char(')')
}

fn write_fields(fields: &Fields, out: &mut impl Write) -> fmt::Result {
    match fields {
        Fields::Unit => Ok(()),
        Fields::Newtype(item) => write_tuple(&[item], out),
        Fields::Tuple(items) => write_tuple(items, out),
        Fields::Named(fields) => write_named(fields, out),
    }
}

fn write_named(fields: &[Field], out: &mut impl Write) -> fmt::Result {
    out.write_char('{')?;
    for (at, field) in fields.iter().enumerate() {
        if at > 0 {
            out.write_char(',')?;
        }
        write!(out, "{}:", Name(field.name))?;
        field.ty.write_canonical(out)?;
    }
    out.write_char('}')
}

fn write_enum(shape: &EnumType, out: &mut impl Write) -> fmt::Result {
    out.write_str("enum{")?;
    for (at, variant) in shape.variants.iter().enumerate() {
        if at > 0 {
            out.write_char(',')?;
        }
        write!(out, "{}", Name(variant.name))?;
        write_fields(&variant.fields, out)?;
    }
    out.write_char('}')
}

/// A name as it stands where it is an identifier, else quoted: a rename may hold any text, and two contracts must not
/// share a canonical text by smuggling punctuation in. Not Rust's own escaping, which follows the Unicode tables of the
/// compiler.
struct Name<'a>(&'a str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.is_empty() && self.0.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return f.write_str(self.0);
        }
        f.write_char('"')?;
        for letter in self.0.chars() {
            if matches!(letter, '"' | '\\') {
                f.write_char('\\')?;
            }
            f.write_char(letter)?;
        }
        f.write_char('"')
    }
}
