//! `/api/v1`: each method of the admin contract as a route of its own.
//!
//! A row of [`TABLE`] says where the arguments of a method come from. They go to the same service as a call of the command line
//! does, by an in-process channel: what is checked and refused there is checked and refused here, and nothing is checked twice.

mod arguments;
mod table;

pub(super) use arguments::{fields, parameters};
pub(super) use table::{Call, Source, TABLE};

use table::Page;

use super::answer::{Refusal, json};
use super::app::App;
use super::options;
use axum::http::request::Parts;
use axum::response::Response;
use punctual::contract::{MethodDescription, ServiceDescription};
use punctual::{Bytes, CallError, Code};
use reqwest::Url;
use serde::Serialize;
use serde_json::Value;
use std::sync::LazyLock;

/// The admin contract.
pub(super) static ADMIN: LazyLock<ServiceDescription> =
    LazyLock::new(|| ServiceDescription::from(&punctual_admin::admin::DESCRIPTOR));

/// A list, and where its next page is.
#[derive(Serialize)]
struct Items {
    items: Vec<Value>,
    /// Absent on the last page, and where a list has one page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// The method that a row is about.
///
/// # Errors
/// Where the contract has none of this name: a test sees to it that there is.
pub(super) fn method(call: &Call) -> Result<&'static MethodDescription, Refusal> {
    let unknown = || Refusal::new(Code::Internal, format!("the contract has no method {}", call.method));
    ADMIN.method(call.method).ok_or_else(unknown)
}

/// Does what a row says.
pub(super) async fn answer(
    app: &App,
    call: &Call,
    parts: &Parts,
    path: &[(String, String)],
    body: &Bytes,
) -> Result<Response, Refusal> {
    let method = method(call)?;
    let args = arguments::of(call, method, path, parts.uri.query(), body)?;
    let options = options::of(&parts.headers, options::time_of(method))?;
    let text = Value::Object(args.clone()).to_string();
    let reply = app.channel.call_json(&method.full_name, Bytes::from(text), options).await;
    let reply = reply.map_err(|error| match error {
        CallError::Status(status) => {
            let field = arguments::field_of(method, &status);
            Refusal::from(status).about(field)
        }
        CallError::App(error) => Refusal::application(&method.full_name, super::answer::value(&error)),
    })?;
    let reply: Value = serde_json::from_slice(&reply)
        .map_err(|error| Refusal::new(Code::Internal, format!("the reply is no JSON: {error}")))?;
    let Value::Array(items) = reply else { return Ok(json(&reply)) };
    let next = call.page.as_ref().and_then(|page| next(page, &args, &items, parts));
    Ok(json(&Items { items, next }))
}

/// Where the next page is, if this one is full.
fn next(page: &Page, args: &serde_json::Map<String, Value>, items: &[Value], parts: &Parts) -> Option<String> {
    let limit = args.get("limit").or_else(|| args.get("query")?.get("limit"))?.as_u64()?;
    let last = items.last()?;
    if (items.len() as u64) < limit {
        return None;
    }
    let key = page.of.iter().try_fold(last, |value, part| value.get(part))?.as_str()?;
    let mut url = Url::parse("http://localhost/").ok()?;
    url.set_path(parts.uri.path());
    url.set_query(parts.uri.query());
    let kept: Vec<(String, String)> = url
        .query_pairs()
        .filter(|(name, _)| name != page.key)
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    url.query_pairs_mut().clear().extend_pairs(kept).append_pair(page.key, key);
    Some(format!("{}?{}", url.path(), url.query()?))
}
