//! Types of a contract as JSON Schema.

use punctual::contract::{FieldsDescription, TypeDescription, VariantDescription};
use serde_json::{Map, Value, json};

/// The named types that were met.
#[derive(Debug, Default)]
pub(super) struct Schemas(Map<String, Value>);

impl Schemas {
    pub(super) fn insert(&mut self, name: &str, schema: Value) {
        self.0.insert(name.to_owned(), schema);
    }

    pub(super) fn into_inner(self) -> Map<String, Value> {
        self.0
    }

    /// A type, as it is or as a reference to one with a name.
    pub(super) fn of(&mut self, ty: &TypeDescription) -> Value {
        use TypeDescription as T;
        let unsigned = |max: u64| json!({"type": "integer", "minimum": 0, "maximum": max});
        match ty {
            T::Bool => json!({"type": "boolean"}),
            T::U8 => unsigned(u8::MAX.into()),
            T::U16 => unsigned(u16::MAX.into()),
            T::U32 => unsigned(u32::MAX.into()),
            T::U64 | T::U128 => json!({"type": "integer", "minimum": 0}),
            T::I8 | T::I16 | T::I32 | T::I64 | T::I128 => json!({"type": "integer"}),
            T::F32 | T::F64 => json!({"type": "number"}),
            T::Char | T::Str => json!({"type": "string"}),
            T::Bytes => json!({"type": "array", "items": unsigned(u8::MAX.into())}),
            T::Unit => json!({"type": "null"}),
            T::Option(inner) => {
                let mut inner = self.of(inner);
                match inner.get("type").and_then(Value::as_str).map(str::to_owned) {
                    Some(word) => {
                        inner["type"] = json!([word, "null"]);
                        inner
                    }
                    None => json!({"anyOf": [inner, {"type": "null"}]}),
                }
            }
            T::Seq(item) => json!({"type": "array", "items": self.of(item)}),
            T::Array { item, len } => {
                json!({"type": "array", "items": self.of(item), "minItems": len, "maxItems": len})
            }
            T::Map { value, .. } => json!({"type": "object", "additionalProperties": self.of(value)}),
            T::Tuple(items) => {
                let items: Vec<Value> = items.iter().map(|item| self.of(item)).collect();
                json!({"type": "array", "prefixItems": items})
            }
            T::Struct { name, docs, fields } => self.named(name, docs, |schemas| schemas.held(fields)),
            T::Enum { name, docs, variants } => self.named(name, docs, |schemas| {
                let variants: Vec<Value> = variants.iter().map(|variant| schemas.variant(variant)).collect();
                json!({"oneOf": variants})
            }),
            // A status, any JSON, and what a later version adds.
            _ => json!({}),
        }
    }

    fn named(&mut self, name: &str, docs: &str, of: impl FnOnce(&mut Self) -> Value) -> Value {
        if !self.0.contains_key(name) {
            let mut schema = of(self);
            if !docs.is_empty() {
                schema["description"] = docs.into();
            }
            self.0.insert(name.to_owned(), schema);
        }
        json!({"$ref": format!("#/components/schemas/{name}")})
    }

    fn held(&mut self, fields: &FieldsDescription) -> Value {
        match fields {
            FieldsDescription::Unit => json!({"type": "null"}),
            FieldsDescription::Newtype(inner) => self.of(inner),
            FieldsDescription::Tuple(items) => {
                let items: Vec<Value> = items.iter().map(|item| self.of(item)).collect();
                json!({"type": "array", "prefixItems": items})
            }
            FieldsDescription::Named(fields) => {
                let mut properties = Map::new();
                let mut required = Vec::new();
                for field in fields {
                    let mut schema = self.of(&field.ty);
                    if !field.docs.is_empty() {
                        schema["description"] = field.docs.clone().into();
                    }
                    properties.insert(field.name.clone(), schema);
                    if !field.optional {
                        required.push(field.name.clone());
                    }
                }
                json!({"type": "object", "properties": properties, "required": required})
            }
        }
    }

    fn variant(&mut self, variant: &VariantDescription) -> Value {
        let mut schema = match &variant.fields {
            FieldsDescription::Unit => json!({"const": variant.name}),
            fields => {
                let held = self.held(fields);
                json!({"type": "object", "properties": {variant.name.clone(): held}, "required": [variant.name]})
            }
        };
        if !variant.docs.is_empty() {
            schema["description"] = variant.docs.clone().into();
        }
        schema
    }
}
