//! `POST /rpc/Service/method`: a call of any method that the daemon serves, with JSON.
//!
//! The call goes through an in-process channel, so that it is met as any call is: admission, limits, budgets, interceptors. What
//! returns a stream is answered by [`lines`], one item a line or an event. Methods that take streams are refused by name: HTTP/1.1
//! has no way to speak while it listens.

mod lines;

use super::answer::{Refusal, body, value};
use super::app::App;
use super::options;
use super::role::Role;
use super::route::{Access, routes};
use axum::http::header::ACCEPT;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
pub(super) use lines::FIRST_WAIT_MAX;
use lines::Form;
use punctual::contract::MethodDescription;
use punctual::rpc::JsonReply;
use punctual::{Bytes, CallError, Code};

/// The method that a path names.
pub(super) fn method<'a>(app: &'a App, path: &[(String, String)]) -> Result<&'a MethodDescription, Refusal> {
    let part = |name: &str| path.iter().find(|(part, _)| part == name).map_or("", |(_, text)| text.as_str());
    let (service, method) = (part("service"), part("method"));
    let list = |names: Vec<&str>| names.join(", ");
    let found = app.services.iter().find(|known| known.name == service).ok_or_else(|| {
        let names = list(app.services.iter().map(|known| known.name.as_str()).collect());
        let service = crate::text::shown(service);
        Refusal::new(Code::NotFound, format!("there is no service `{service}` here; there is: {names}"))
    })?;
    found.method(method).ok_or_else(|| {
        let names = list(found.methods.iter().map(|known| known.name.as_str()).collect());
        let method = crate::text::shown(method);
        Refusal::new(Code::NotFound, format!("{service} has no method `{method}`; it has: {names}"))
    })
}

/// Who may call a method: of the admin contract those who may ask for its route, of everything else those who may do everything.
pub(super) fn role_of(method: &MethodDescription) -> Role {
    let admin = method.full_name.strip_prefix("Admin/");
    let role = admin.and_then(|name| {
        routes().find_map(|route| match (route.action.call(), route.access) {
            (Some(call), Access::Role(role)) if call.method == name => Some(role),
            _ => None,
        })
    });
    role.unwrap_or(Role::Admin)
}

pub(super) async fn answer(
    app: &App,
    method: &MethodDescription,
    parts: &Parts,
    sent: Bytes,
) -> Result<Response, Refusal> {
    let name = &method.full_name;
    if !method.streams.is_empty() {
        let text = format!("{name} takes streams, which this gateway has no way to send; call it with `punctual call`");
        return Err(Refusal::new(Code::Unimplemented, text));
    }
    let args = if sent.trim_ascii().is_empty() { Bytes::from_static(b"{}") } else { sent };
    if !matches!(serde_json::from_slice(&args), Ok(serde_json::Value::Object(_))) {
        let text = format!("the body is not a JSON object; name the arguments of {name}, such as {{\"order\": 42}}");
        return Err(Refusal::new(Code::InvalidArgument, text));
    }
    let options = options::of(&parts.headers, options::time_of(method))?;
    let failed = |error: CallError<Bytes>| refusal(name, error);
    if method.shape == "oneway" {
        app.channel.send_json(name, args, options).await?;
        return Ok(body(StatusCode::ACCEPTED, "application/json", "null"));
    }
    if method.item_err.is_none() {
        let reply = app.channel.call_json(name, args, options).await.map_err(failed)?;
        return Ok(body(StatusCode::OK, "application/json", reply));
    }
    match app.channel.stream_json(name, args, Vec::new(), true, options).await.map_err(failed)? {
        JsonReply::Stream(items) => {
            lines::answer(name, items, form(&parts.headers), app.first_wait, app.stopping()).await
        }
        _ => Err(Refusal::new(Code::Internal, format!("{name} did not answer with the stream that it has"))),
    }
}

/// Why a call did not do what it was asked.
fn refusal(method: &str, error: CallError<Bytes>) -> Refusal {
    match error {
        CallError::Status(status) => Refusal::from(status),
        CallError::App(error) => Refusal::application(method, value(&error)),
    }
}

/// Lines, unless events are asked for.
fn form(headers: &HeaderMap) -> Form {
    let accepts = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut kinds = accepts.flat_map(|value| value.split(',')).filter_map(|kind| kind.split(';').next());
    if kinds.any(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream")) { Form::Events } else { Form::Lines }
}

#[cfg(test)]
mod tests;
