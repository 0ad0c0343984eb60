//! Source a request to the arguments of a method: by the contract's own description, and no further than it reaches.

use super::table::{Call, PAGE_DEFAULT, Source};
use crate::http::answer::Refusal;
use crate::text::shown;
use punctual::contract::{FieldDescription, FieldsDescription, MethodDescription, TypeDescription};
use punctual::{Code, Status};
use reqwest::Url;
use serde_json::{Map, Value};

/// The arguments of a call by name.
pub(super) fn of(
    call: &Call,
    method: &MethodDescription,
    path: &[(String, String)],
    query: Option<&str>,
    body: &[u8],
) -> Result<Map<String, Value>, Refusal> {
    let mut args = Map::new();
    let mut query = pairs(query)?;
    let mut body = Some(object(body)?);
    for from in call.from {
        let (Source::Path(name) | Source::Query(name) | Source::QueryFields(name)) = from else { continue };
        let ty = argument(method, name)?;
        let value = match from {
            Source::Path(_) => path.iter().find(|(part, _)| part == name).map(|(_, text)| Value::String(text.clone())),
            Source::Query(_) => take(&mut query, name, ty)?.or_else(|| empty(ty)),
            _ => {
                let mut given = Map::new();
                for field in fields(ty) {
                    let value = take(&mut query, &field.name, &field.ty)?;
                    given.extend(value.map(|value| (field.name.clone(), value)));
                }
                Some(Value::Object(given))
            }
        };
        args.extend(value.map(|value| ((*name).to_owned(), value)));
    }
    if let Some((name, _)) = query.first() {
        let known = parameters(call, method);
        let names: Vec<&str> = known.iter().map(|field| field.name.as_str()).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Err(Refusal::field(name, format!("there is no parameter `{}`; there is: {names}", shown(name))));
    }
    for from in call.from {
        let (Source::Body(name) | Source::Field(name) | Source::FieldOr(name)) = from else { continue };
        let ty = argument(method, name)?;
        let value = match from {
            Source::Body(_) => body.take().map(Value::Object),
            _ => body.as_mut().and_then(|body| body.remove(*name)),
        };
        let value = match (value, from) {
            (Some(value), _) => Some(value),
            (None, Source::FieldOr(_)) => empty(ty),
            (None, _) => return Err(Refusal::field(*name, format!("the body lacks `{name}`"))),
        };
        if let Some(field) = value.as_ref().and_then(|value| unknown(ty, value)) {
            let whole = if matches!(from, Source::Body(_)) { field.clone() } else { format!("{name}.{field}") };
            return Err(Refusal::field(whole, format!("there is no `{}` in {ty}", shown(&field))));
        }
        args.extend(value.map(|value| ((*name).to_owned(), value)));
    }
    if let Some(name) = body.as_ref().and_then(|body| body.keys().next()) {
        return Err(Refusal::field(name, format!("there is no `{}` in what is sent here", shown(name))));
    }
    if call.page.is_some() {
        // Said, so that it is known whether a page is full.
        let limit = match args.get_mut("query").and_then(Value::as_object_mut) {
            Some(query) => query.entry("limit").or_insert(0.into()),
            None => args.entry("limit").or_insert(0.into()),
        };
        if limit.as_u64() == Some(0) {
            *limit = PAGE_DEFAULT.into();
        }
    }
    Ok(args)
}

/// The parameters of the query.
pub(in crate::http) fn parameters<'a>(call: &Call, method: &'a MethodDescription) -> Vec<&'a FieldDescription> {
    let all = fields(&method.args);
    let mut found = Vec::new();
    for from in call.from {
        let named = |name: &str| all.iter().find(|field| field.name == name);
        match from {
            Source::Query(name) => found.extend(named(name)),
            Source::QueryFields(name) => found.extend(named(name).map(|field| fields(&field.ty)).unwrap_or_default()),
            _ => {}
        }
    }
    found
}

/// An argument's type.
fn argument<'a>(method: &'a MethodDescription, name: &str) -> Result<&'a TypeDescription, Refusal> {
    let found = fields(&method.args).iter().find(|field| field.name == name);
    let found = found.ok_or_else(|| Refusal::new(Code::Internal, format!("{} has no {name}", method.full_name)))?;
    Ok(&found.ty)
}

/// The named fields of a structure.
pub(in crate::http) fn fields(ty: &TypeDescription) -> &[FieldDescription] {
    match ty {
        TypeDescription::Struct { fields: FieldsDescription::Named(fields), .. } => fields,
        _ => &[],
    }
}

/// The query's parameters, each once.
fn pairs(query: Option<&str>) -> Result<Vec<(String, String)>, Refusal> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut url = Url::parse("http://localhost/")
        .map_err(|error| Refusal::new(Code::Internal, format!("a constant is no URL: {error}")))?;
    url.set_query(query);
    for (name, value) in url.query_pairs() {
        if found.iter().any(|(known, _)| *known == name) {
            return Err(Refusal::field(&*name, format!("`{}` is there twice", shown(&name))));
        }
        found.push((name.into_owned(), value.into_owned()));
    }
    Ok(found)
}

fn take(query: &mut Vec<(String, String)>, name: &str, ty: &TypeDescription) -> Result<Option<Value>, Refusal> {
    let Some(at) = query.iter().position(|(known, _)| known == name) else { return Ok(None) };
    let (_, text) = query.swap_remove(at);
    let number = |max: u64| text.parse().ok().filter(|number: &u64| *number <= max).map(Value::from);
    let value = match inner(ty) {
        TypeDescription::Str => Some(Value::String(text.clone())),
        TypeDescription::Bool => text.parse().ok().map(Value::Bool),
        TypeDescription::U8 => number(u8::MAX.into()),
        TypeDescription::U16 => number(u16::MAX.into()),
        TypeDescription::U32 => number(u32::MAX.into()),
        TypeDescription::U64 => number(u64::MAX),
        _ => None,
    };
    let wanted = || {
        let what = match inner(ty) {
            TypeDescription::Bool => "true or false".to_owned(),
            TypeDescription::U8 => format!("a whole number to {}", u8::MAX),
            TypeDescription::U16 => format!("a whole number to {}", u16::MAX),
            TypeDescription::U32 => format!("a whole number to {}", u32::MAX),
            TypeDescription::U64 => format!("a whole number to {}", u64::MAX),
            other => format!("a {other}"),
        };
        Refusal::field(name, format!("{name} is `{}`; write {what}", shown(&text)))
    };
    value.ok_or_else(wanted).map(Some)
}

fn inner(ty: &TypeDescription) -> &TypeDescription {
    match ty {
        TypeDescription::Option(ty) => inner(ty),
        ty => ty,
    }
}

/// What stands for an argument that nobody gave; nothing does where it may be left out.
fn empty(ty: &TypeDescription) -> Option<Value> {
    match ty {
        TypeDescription::Option(_) => None,
        TypeDescription::Str => Some(Value::String(String::new())),
        TypeDescription::Bool => Some(Value::Bool(false)),
        _ => Some(0.into()),
    }
}

fn object(body: &[u8]) -> Result<Map<String, Value>, Refusal> {
    if body.trim_ascii().is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(Refusal::new(Code::InvalidArgument, "the body is not a JSON object")),
        Err(error) => Err(Refusal::new(Code::InvalidArgument, format!("the body is not JSON: {error}"))),
    }
}

/// The first field, by its whole name, that a type does not have: a misspelt one would go unnoticed.
fn unknown(ty: &TypeDescription, value: &Value) -> Option<String> {
    match (inner(ty), value) {
        (TypeDescription::Seq(item), Value::Array(values)) => values.iter().find_map(|value| unknown(item, value)),
        (TypeDescription::Struct { fields: FieldsDescription::Named(known), .. }, Value::Object(given)) => {
            given.iter().find_map(|(name, value)| match known.iter().find(|field| field.name == *name) {
                None => Some(name.clone()),
                Some(field) => unknown(&field.ty, value).map(|inside| format!("{name}.{inside}")),
            })
        }
        _ => None,
    }
}

/// The field that a refusal is about: its text begins with the field's name, or the method has but one argument.
pub(super) fn field_of(method: &MethodDescription, status: &Status) -> Option<String> {
    fn named(ty: &TypeDescription, word: &str) -> bool {
        fields(inner(ty)).iter().any(|field| field.name == word || named(&field.ty, word))
    }
    if status.code() != Code::InvalidArgument {
        return None;
    }
    let end = |letter: char| !(letter.is_ascii_alphanumeric() || letter == '_');
    let word = status.message().split(end).next().unwrap_or_default();
    if named(&method.args, word) {
        return Some(word.to_owned());
    }
    match fields(&method.args) {
        [only] if fields(&only.ty).is_empty() => Some(only.name.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
