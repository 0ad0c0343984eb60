//! `openapi.json`: what there is, for tools. Made of the table of routes and of the contract's own description, so that it cannot say
//! anything else; `docs/openapi.json` is a copy that a test holds to it.

mod schema;

use super::answer;
use super::options::{METADATA, TIMEOUT};
use super::rest::{Call, Source, method, parameters};
use super::route::{Access, Action, Route, routes};
use axum::response::Response;
use punctual::contract::{FieldDescription, MethodDescription};
use schema::Schemas;
use serde_json::{Map, Value, json};

/// What stands for every way in which a request is not done.
const ERROR: &str = "Error";

pub(super) fn answer() -> Response {
    answer::json(&document())
}

/// The document.
pub(super) fn document() -> Value {
    let mut schemas = Schemas::default();
    let mut paths: Map<String, Value> = Map::new();
    for route in routes() {
        let operation = operation(route, &mut schemas);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        if let Value::Object(path) = path {
            path.insert(route.verb.as_str().to_lowercase(), operation);
        }
    }
    schemas.insert(ERROR, error());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Punctual",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The admin contract of `punctual serve` over HTTP, and a gateway to every service that it serves.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas.into_inner(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

fn operation(route: &Route, schemas: &mut Schemas) -> Value {
    let mut operation = match route.action {
        Action::Admin(call) => match method(call) {
            Ok(method) => admin(call, method, schemas),
            Err(_) => Map::new(),
        },
        action => plain(action),
    };
    let role = match route.access {
        Access::Open => None,
        Access::Role(role) => Some(role.as_str()),
        Access::OfMethod => Some("that of the method"),
    };
    if let Some(role) = role {
        operation.insert("security".to_owned(), json!([{"token": []}]));
        operation.insert("x-role".to_owned(), role.into());
    }
    let places = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let places = places.map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}));
    let mut all: Vec<Value> = places.collect();
    if let Some(Value::Array(more)) = operation.remove("parameters") {
        all.extend(more);
    }
    if !all.is_empty() {
        operation.insert("parameters".to_owned(), all.into());
    }
    Value::Object(operation)
}

/// A method of the admin contract.
fn admin(call: &Call, method: &MethodDescription, schemas: &mut Schemas) -> Map<String, Value> {
    let mut ok = schemas.of(&method.ok);
    if ok["type"] == "array" {
        let mut page = json!({"type": "object", "properties": {"items": ok}, "required": ["items"]});
        if call.page.is_some() {
            page["properties"]["next"] =
                json!({"type": "string", "description": "Where the next page is; absent on the last."});
        }
        ok = page;
    }
    let parameter = |field: &FieldDescription| {
        let mut schemas = Schemas::default();
        let mut shown = json!({"name": field.name, "in": "query", "required": false, "schema": schemas.of(&field.ty)});
        if !field.docs.is_empty() {
            shown["description"] = field.docs.clone().into();
        }
        shown
    };
    let query: Vec<Value> = parameters(call, method).into_iter().map(parameter).collect();
    let summary = method.docs.split(['.', ':', ';']).next().unwrap_or_default();
    let mut operation = Map::new();
    operation.insert("operationId".to_owned(), method.name.clone().into());
    operation.insert("summary".to_owned(), summary.replace('\n', " ").into());
    operation.insert("description".to_owned(), method.docs.clone().into());
    operation.insert("tags".to_owned(), json!(["admin"]));
    operation.insert("parameters".to_owned(), query.into());
    operation.insert("responses".to_owned(), responses("application/json", &ok));
    if let Some(body) = body(call, method, schemas) {
        let content = json!({"required": true, "content": {"application/json": {"schema": body}}});
        operation.insert("requestBody".to_owned(), content);
    }
    operation
}

/// What is sent.
fn body(call: &Call, method: &MethodDescription, schemas: &mut Schemas) -> Option<Value> {
    let of = |name: &str| super::rest::fields(&method.args).iter().find(|field| field.name == name);
    let (mut properties, mut required, mut any) = (Map::new(), Vec::new(), false);
    for from in call.from {
        match from {
            Source::Body(name) => return of(name).map(|field| schemas.of(&field.ty)),
            Source::Field(name) => {
                properties.insert((*name).to_owned(), schemas.of(&of(name)?.ty));
                required.push(*name);
                any = true;
            }
            Source::FieldOr(name) => {
                properties.insert((*name).to_owned(), schemas.of(&of(name)?.ty));
                any = true;
            }
            Source::Path(_) | Source::Query(_) | Source::QueryFields(_) => {}
        }
    }
    any.then(
        || json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false}),
    )
}

fn responses(content_type: &str, schema: &Value) -> Value {
    let error = json!({"$ref": format!("#/components/schemas/{ERROR}")});
    json!({
        "200": {"description": "Done.", "content": {content_type: {"schema": schema}}},
        "default": {"description": "Not done.", "content": {"application/json": {"schema": error}}},
    })
}

/// What has no contract.
fn plain(action: Action) -> Map<String, Value> {
    let object = json!({"type": "object"});
    let text = json!({"type": "string"});
    let (id, summary, content_type, schema) = match action {
        Action::Health => ("healthz", "Whether the daemon lives", "application/json", &object),
        Action::Ready => {
            ("readyz", "Whether the daemon should get work; 503 says what is in the way", "application/json", &object)
        }
        Action::Metrics => {
            ("metrics", "What Prometheus scrapes; docs/metrics.md", "application/openmetrics-text", &text)
        }
        Action::OpenApi => ("openapi", "This document", "application/json", &object),
        Action::Events => ("events", "What happens, as it happens; docs/http.md", "text/event-stream", &text),
        Action::Gateway => {
            ("rpc", "A call of any method that the daemon serves; docs/http.md", "application/json", &json!({}))
        }
        Action::Admin(_) => return Map::new(),
    };
    let mut operation = Map::new();
    operation.insert("operationId".to_owned(), id.into());
    operation.insert("summary".to_owned(), summary.into());
    operation.insert("tags".to_owned(), json!(["daemon"]));
    operation.insert("responses".to_owned(), responses(content_type, schema));
    if matches!(action, Action::Events) {
        let parameters = json!([
            {"name": "types", "in": "query", "required": false, "schema": {"type": "string"},
                "description": "Only these: task.failed,schedule.*"},
            {"name": "after", "in": "query", "required": false, "schema": {"type": "string"},
                "description": "The identifier of the last event that was seen; the header Last-Event-ID says the same, and wins."},
        ]);
        operation.insert("parameters".to_owned(), parameters);
    }
    if matches!(action, Action::Gateway) {
        let body = json!({"required": false, "content": {"application/json": {"schema": {"type": "object"}}}});
        operation.insert("requestBody".to_owned(), body);
        let parameters = json!([
            {"name": TIMEOUT, "in": "header", "required": false, "schema": {"type": "string"},
                "description": "How long the call may take: 2s, 1m 30s."},
            {"name": format!("{METADATA}NAME"), "in": "header", "required": false, "schema": {"type": "string"},
                "description": "Metadata NAME of the call."},
        ]);
        operation.insert("parameters".to_owned(), parameters);
    }
    operation
}

fn error() -> Value {
    json!({
        "type": "object",
        "required": ["error"],
        "properties": {"error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {
                "code": {"type": "string", "description": "The code of the call's status, or `application`."},
                "message": {"type": "string"},
                "field": {"type": "string", "description": "What of the request is wrong."},
                "limit": {
                    "type": "object",
                    "required": ["name", "value"],
                    "properties": {"name": {"type": "string"}, "value": {"type": "integer"}},
                },
                "retry_after_ms": {"type": "integer"},
                "detail": {"description": "The error of the method's own type."},
            },
        }},
    })
}

#[cfg(test)]
mod tests;
