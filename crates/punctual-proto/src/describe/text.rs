//! A contract as text for people, in the manner of the trait that it came from.
//!
//! The description may come from any server, so nothing in it reaches a terminal with its control characters.

use super::{
    BackoffDescription, DurableDescription, FieldDescription, FieldsDescription, MethodDescription, ServiceDescription,
    TypeDescription,
};
use std::fmt::{self, Write};
use std::time::Duration;

/// Types beyond this many are counted instead of printed.
const TYPES_MAX: usize = 1_000;

impl fmt::Display for ServiceDescription {
    /// The service with its methods, then each structure and enumeration that they use, once, in order of use.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_docs(f, "", &self.docs)?;
        writeln!(f, "service {} {{  // contract {}", Plain(&self.name), Plain(&self.contract_hash))?;
        for (at, method) in self.methods.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            write_method(f, method)?;
        }
        writeln!(f, "}}")?;
        let mut types = Types::default();
        for method in &self.methods {
            // The arguments themselves stand in the method's line.
            types.visit_parts(&method.args);
            for stream in &method.streams {
                types.visit(&stream.item);
                types.visit(&stream.err);
            }
            types.visit(&method.ok);
            types.visit(&method.err);
            if let Some(err) = &method.item_err {
                types.visit(err);
            }
        }
        for ty in &types.found {
            writeln!(f)?;
            write_type(f, ty)?;
        }
        if types.more > 0 {
            writeln!(f, "\n// … and {} more types", types.more)?;
        }
        Ok(())
    }
}

fn write_method(f: &mut fmt::Formatter<'_>, method: &MethodDescription) -> fmt::Result {
    write_docs(f, "    ", &method.docs)?;
    let options = options(method);
    if !options.is_empty() {
        writeln!(f, "    #[rpc({options})]")?;
    }
    write!(f, "    {}(", Plain(&method.name))?;
    let mut separator = "";
    if let TypeDescription::Struct { fields: FieldsDescription::Named(fields), .. } = &method.args {
        for field in fields {
            write!(f, "{separator}{}", Named(field))?;
            separator = ", ";
        }
    }
    for stream in &method.streams {
        write!(f, "{separator}{}: {}", Plain(&stream.name), Streamed(&stream.item, &stream.err))?;
        separator = ", ";
    }
    f.write_char(')')?;
    match &method.item_err {
        Some(err) => write!(f, " -> Result<{}, {}>", Streamed(&method.ok, err), Shown(&method.err))?,
        None if method.shape == "oneway" => {}
        None => write!(f, " -> Result<{}, {}>", Shown(&method.ok), Shown(&method.err))?,
    }
    writeln!(f)
}

/// A stream of items, with what it may fail with where that is no status.
struct Streamed<'a>(&'a TypeDescription, &'a TypeDescription);

impl fmt::Display for Streamed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            TypeDescription::Status => write!(f, "Streaming<{}>", Shown(self.0)),
            err => write!(f, "Streaming<{}, {}>", Shown(self.0), Shown(err)),
        }
    }
}

fn options(method: &MethodDescription) -> String {
    let mut options = Vec::new();
    // The signature shows where streams are; only that nothing is answered does not stand in it.
    if method.shape == "oneway" {
        options.push("oneway".to_owned());
    }
    if method.detached {
        options.push("detached".to_owned());
    }
    if method.idempotent {
        options.push("idempotent".to_owned());
    }
    if let Some(millis) = method.timeout_ms {
        options.push(format!("timeout = \"{}\"", millis_text(millis)));
    }
    if let Some(durable) = &method.durable {
        options.push("durable".to_owned());
        durable_options(durable, &mut options);
    }
    options.join(", ")
}

fn durable_options(durable: &DurableDescription, options: &mut Vec<String>) {
    if let Some(queue) = &durable.queue {
        options.push(format!("queue = {queue:?}"));
    }
    if let Some(attempts) = durable.attempts {
        options.push(format!("attempts = {attempts}"));
    }
    if let Some(backoff) = &durable.backoff {
        let text = match backoff {
            BackoffDescription::Fixed { wait_ms } => format!("fixed({})", millis_text(*wait_ms)),
            BackoffDescription::Linear { first_ms, max_ms } => {
                format!("linear({}, {})", millis_text(*first_ms), millis_text(*max_ms))
            }
            BackoffDescription::Exponential { first_ms, max_ms } => {
                format!("exponential({}, {})", millis_text(*first_ms), millis_text(*max_ms))
            }
        };
        options.push(format!("backoff = \"{text}\""));
    }
    if let Some(priority) = durable.priority {
        options.push(format!("priority = {priority}"));
    }
}

fn millis_text(millis: u64) -> String {
    format!("{:?}", Duration::from_millis(millis))
}

fn write_type(f: &mut fmt::Formatter<'_>, ty: &TypeDescription) -> fmt::Result {
    match ty {
        TypeDescription::Struct { name, docs, fields } => {
            write_docs(f, "", docs)?;
            write!(f, "struct {}", Plain(name))?;
            write_fields(f, "", fields)?;
            let end = if matches!(fields, FieldsDescription::Named(_)) { "" } else { ";" };
            writeln!(f, "{end}")
        }
        TypeDescription::Enum { name, docs, variants } => {
            write_docs(f, "", docs)?;
            writeln!(f, "enum {} {{", Plain(name))?;
            for variant in variants {
                write_docs(f, "    ", &variant.docs)?;
                write!(f, "    {}", Plain(&variant.name))?;
                write_fields(f, "    ", &variant.fields)?;
                writeln!(f, ",")?;
            }
            writeln!(f, "}}")
        }
        _ => Ok(()),
    }
}

fn write_fields(f: &mut fmt::Formatter<'_>, indent: &str, fields: &FieldsDescription) -> fmt::Result {
    match fields {
        FieldsDescription::Unit => Ok(()),
        FieldsDescription::Newtype(item) => write!(f, "({})", Shown(item)),
        FieldsDescription::Tuple(items) => {
            f.write_char('(')?;
            for (at, item) in items.iter().enumerate() {
                write!(f, "{}{}", if at == 0 { "" } else { ", " }, Shown(item))?;
            }
            f.write_char(')')
        }
        FieldsDescription::Named(fields) => {
            writeln!(f, " {{")?;
            for field in fields {
                write_docs(f, &format!("{indent}    "), &field.docs)?;
                writeln!(f, "{indent}    {},", Named(field))?;
            }
            write!(f, "{indent}}}")
        }
    }
}

fn write_docs(f: &mut fmt::Formatter<'_>, indent: &str, docs: &str) -> fmt::Result {
    for line in docs.lines() {
        let space = if line.is_empty() { "" } else { " " };
        writeln!(f, "{indent}///{space}{}", Plain(line))?;
    }
    Ok(())
}

/// `name: Type`, and whether it may be left out where its type does not say so.
struct Named<'a>(&'a FieldDescription);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FieldDescription { name, ty, optional, .. } = self.0;
        write!(f, "{}: {}", Plain(name), Shown(ty))?;
        if *optional && !matches!(ty, TypeDescription::Option(_)) { f.write_str(" = default") } else { Ok(()) }
    }
}

/// A type in one line.
struct Shown<'a>(&'a TypeDescription);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Printable(f), "{}", self.0)
    }
}

/// A text in one line.
pub(super) struct Plain<'a>(pub(super) &'a str);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printable(f).write_str(self.0)
    }
}

/// Writes control characters as escapes.
struct Printable<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Write for Printable<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            if letter.is_control() {
                write!(self.0, "{}", letter.escape_default())?;
            } else {
                self.0.write_char(letter)?;
            }
        }
        Ok(())
    }
}

/// The structures and enumerations found so far, in order of use.
#[derive(Default)]
struct Types<'a> {
    found: Vec<&'a TypeDescription>,
    more: usize,
}

impl<'a> Types<'a> {
    fn visit(&mut self, ty: &'a TypeDescription) {
        let named = matches!(ty, TypeDescription::Struct { .. } | TypeDescription::Enum { .. });
        if named {
            if self.found.contains(&ty) {
                return;
            }
            if self.found.len() == TYPES_MAX {
                self.more += 1;
                return;
            }
            self.found.push(ty);
        }
        self.visit_parts(ty);
    }

    fn visit_parts(&mut self, ty: &'a TypeDescription) {
        match ty {
            TypeDescription::Option(item) | TypeDescription::Seq(item) | TypeDescription::Array { item, .. } => {
                self.visit(item);
            }
            TypeDescription::Map { key, value } => {
                self.visit(key);
                self.visit(value);
            }
            TypeDescription::Tuple(items) => items.iter().for_each(|item| self.visit(item)),
            TypeDescription::Struct { fields, .. } => self.visit_fields(fields),
            TypeDescription::Enum { variants, .. } => {
                variants.iter().for_each(|variant| self.visit_fields(&variant.fields));
            }
            _ => {}
        }
    }

    fn visit_fields(&mut self, fields: &'a FieldsDescription) {
        match fields {
            FieldsDescription::Unit => {}
            FieldsDescription::Newtype(item) => self.visit(item),
            FieldsDescription::Tuple(items) => items.iter().for_each(|item| self.visit(item)),
            FieldsDescription::Named(fields) => fields.iter().for_each(|field| self.visit(&field.ty)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ServiceDescription;
    use crate::contract::{Backoff, DurablePolicy, MethodDescriptor, ServiceDescriptor};
    use crate::schema::{EnumType, Field, Fields, StructType, Type, Variant};
    use std::time::Duration;

    const fn field(name: &'static str, ty: &'static Type, optional: bool) -> Field {
        Field { name, docs: "", ty, optional }
    }

    const PLACE: &Type = &Type::Struct(&StructType { name: "Place", docs: "", fields: Fields::Newtype(&Type::U8) });
    const LINE: &Type = &Type::Struct(&StructType {
        name: "Line",
        docs: "One line.\n\nOf many.",
        fields: Fields::Named(&[
            Field { name: "cents", docs: "In cents.", ty: &Type::U64, optional: true },
            field("at", PLACE, false),
        ]),
    });
    const FAILED: &Type = &Type::Enum(&EnumType {
        name: "Failed",
        docs: "",
        variants: &[
            Variant { name: "Closed", docs: "Come again.", fields: Fields::Unit },
            Variant { name: "Limit", docs: "", fields: Fields::Named(&[field("of", &Type::U8, false)]) },
            Variant { name: "Pair", docs: "", fields: Fields::Tuple(&[&Type::Bool, &Type::Char]) },
        ],
    });
    const ARGS: &Type = &Type::Struct(&StructType {
        name: "Charge",
        docs: "",
        fields: Fields::Named(&[
            field("lines", &Type::Seq(LINE), false),
            field("note", &Type::Option(&Type::Str), true),
        ]),
    });
    static SERVICE: ServiceDescriptor = ServiceDescriptor::new(
        "Billing",
        "Takes money.",
        &[
            MethodDescriptor::unary("Billing/charge", ARGS, &Type::U64, FAILED)
                .docs("Charges.")
                .idempotent()
                .timeout(Duration::from_secs(2))
                .durable(
                    DurablePolicy::new()
                        .queue("money")
                        .attempts(7)
                        .backoff(Backoff::Fixed(Duration::from_millis(500)))
                        .priority(0),
                ),
            MethodDescriptor::oneway("Billing/forget", ARGS),
        ],
    );

    /// What `punctual describe` prints reads like the trait and shows each type once.
    #[test]
    fn reads_like_the_trait() {
        let hash = ServiceDescription::from(&SERVICE).contract_hash;
        let expected = r#"/// Takes money.
service Billing {  // contract HASH
    /// Charges.
    #[rpc(idempotent, timeout = "2s", durable, queue = "money", attempts = 7, backoff = "fixed(500ms)", priority = 0)]
    charge(lines: Vec<Line>, note: Option<String>) -> Result<u64, Failed>

    #[rpc(oneway)]
    forget(lines: Vec<Line>, note: Option<String>)
}

/// One line.
///
/// Of many.
struct Line {
    /// In cents.
    cents: u64 = default,
    at: Place,
}

struct Place(u8);

enum Failed {
    /// Come again.
    Closed,
    Limit {
        of: u8,
    },
    Pair(bool, char),
}
"#;
        assert_eq!(ServiceDescription::from(&SERVICE).to_string(), expected.replace("HASH", &hash));
    }

    /// A server cannot write to the terminal of who describes it.
    #[test]
    fn control_characters_are_escaped() {
        let mut service = ServiceDescription::from(&SERVICE);
        service.docs = "\u{1b}[2J".to_owned();
        service.name = "B\u{7}\n".to_owned();
        service.methods.iter_mut().for_each(|method| method.name = "m\r".to_owned());
        let text = service.to_string();
        assert!(text.chars().all(|letter| letter == '\n' || !letter.is_control()), "{text:?}");
        assert!(text.contains("\\u{1b}[2J"), "{text}");
    }
}
