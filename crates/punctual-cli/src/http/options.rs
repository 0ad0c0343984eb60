//! What a request's headers say of its call: how long it may take, and what travels with it.

use super::answer::Refusal;
use crate::text::parse_duration;
use axum::http::HeaderMap;
use punctual::contract::MethodDescription;
use punctual::rpc::CallOptions;
use std::time::Duration;

/// The header that says how long the call may take.
pub(super) const TIMEOUT: &str = "punctual-timeout";
/// What a header's name begins with whose rest is the name of a piece of metadata.
pub(super) const METADATA: &str = "punctual-metadata-";
/// The place in a trace (W3C Trace Context), which travels as metadata of the same names.
const TRACE: [&str; 2] = ["traceparent", "tracestate"];
/// How long a call without streams may take where neither the caller nor the contract says.
const TIME_DEFAULT: Duration = Duration::from_secs(30);

/// How long a call of this method may take unless its caller says.
pub(super) fn time_of(method: &MethodDescription) -> Option<Duration> {
    match method.timeout_ms {
        Some(millis) => Some(Duration::from_millis(millis)),
        // A stream may go on for as long as somebody reads it.
        None if method.item_err.is_some() => None,
        None => Some(TIME_DEFAULT),
    }
}

/// The options of a call.
pub(super) fn of(headers: &HeaderMap, time: Option<Duration>) -> Result<CallOptions, Refusal> {
    let text = |name: &str| match headers.get(name).map(|value| value.to_str()) {
        None => Ok(None),
        Some(Ok(text)) => Ok(Some(text)),
        Some(Err(_)) => Err(Refusal::field(name, format!("the header {name} is not plain text"))),
    };
    let mut options = CallOptions::new();
    let asked = text(TIMEOUT)?.map(parse_duration).transpose();
    let asked = asked.map_err(|error| Refusal::field(TIMEOUT, format!("the header Punctual-Timeout: {error}")))?;
    if asked.is_some_and(|time| time.is_zero()) {
        return Err(Refusal::field(TIMEOUT, "the header Punctual-Timeout leaves no time to call; give at least 1ms"));
    }
    if let Some(time) = asked.or(time) {
        options = options.timeout(time);
    }
    for name in headers.keys() {
        let name = name.as_str();
        let plain = TRACE.contains(&name).then_some(name);
        if let Some(entry) = plain.or_else(|| name.strip_prefix(METADATA))
            && let Some(value) = text(name)?
        {
            options = options.metadata(entry, value);
        }
    }
    Ok(options)
}
