//! What is answered: JSON, and why not.
//!
//! Every refusal is `{"error": {"code", "message", ..}}` with a status code by [`status_of`], the one table from the codes of
//! calls to those of HTTP.

use axum::body::Body;
use axum::http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use punctual::{Code, Status};
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

/// What a client has gone away from before its answer; there is no standard one for it.
const CLIENT_CLOSED: u16 = 499;

/// The code of HTTP for each code of a call.
pub(super) fn status_of(code: Code) -> StatusCode {
    match code {
        Code::Cancelled => StatusCode::from_u16(CLIENT_CLOSED).unwrap_or(StatusCode::BAD_REQUEST),
        Code::InvalidArgument | Code::OutOfRange => StatusCode::BAD_REQUEST,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::FailedPrecondition | Code::Aborted => StatusCode::CONFLICT,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable | Code::ConnectionClosed | Code::HeartbeatLost => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        // Unknown, Internal, DataLoss, ProtocolViolation, and what a later version adds.
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Why a request is not done. One pointer wide: most requests are.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Refusal(Box<Told>);

#[derive(Debug, Clone, PartialEq)]
struct Told {
    status: StatusCode,
    code: &'static str,
    message: String,
    field: Option<String>,
    limit: Option<(String, u64)>,
    retry_after: Option<Duration>,
    detail: Option<Value>,
}

#[derive(Serialize)]
struct Shown<'a> {
    error: ShownError<'a>,
}

#[derive(Serialize)]
struct ShownError<'a> {
    code: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<ShownLimit<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a Value>,
}

#[derive(Serialize)]
struct ShownLimit<'a> {
    name: &'a str,
    value: u64,
}

impl Refusal {
    /// With a status code that no code of calls stands for.
    pub(super) fn with_status(status: StatusCode, code: Code, message: impl Into<String>) -> Self {
        Refusal(Box::new(Told {
            status,
            code: code.name(),
            message: message.into(),
            field: None,
            limit: None,
            retry_after: None,
            detail: None,
        }))
    }

    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self::with_status(status_of(code), code, message)
    }

    /// A field of the request is wrong.
    pub(super) fn field(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message).about(Some(field.into()))
    }

    /// With the field that it is about, unless it names one.
    pub(super) fn about(mut self, field: Option<String>) -> Self {
        self.0.field = self.0.field.take().or(field);
        self
    }

    /// The error of a method's own type.
    pub(super) fn application(method: &str, detail: Value) -> Self {
        let text = format!("{method} returned an error of its own");
        let mut refusal = Self::with_status(StatusCode::UNPROCESSABLE_ENTITY, Code::Unknown, text);
        refusal.0.code = "application";
        refusal.0.detail = Some(detail);
        refusal
    }

    /// The body.
    pub(super) fn json(&self) -> String {
        let told = &self.0;
        let retry_after_ms = told.retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        let error = ShownError {
            code: told.code,
            message: &told.message,
            field: told.field.as_deref(),
            limit: told.limit.as_ref().map(|(name, value)| ShownLimit { name, value: *value }),
            retry_after_ms,
            detail: told.detail.as_ref(),
        };
        // Plain data: JSON can always say it.
        serde_json::to_string(&Shown { error }).unwrap_or_default()
    }

    pub(super) fn answer(self) -> Response {
        let mut response = body(self.0.status, "application/json", self.json());
        let headers = response.headers_mut();
        if let Some(wait) = self.0.retry_after {
            // Whole seconds: the header knows no smaller ones.
            let seconds = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0));
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if matches!(self.0.status, StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT) {
            // What was not read of the body would be taken for the next request.
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if self.0.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        let limit = status.limit().map(|(name, value)| (name.to_owned(), value));
        let message = match status.message() {
            "" => format!("the call failed: {}", status.code()),
            message => message.to_owned(),
        };
        let mut refusal = Self::new(status.code(), message);
        refusal.0.limit = limit;
        refusal.0.retry_after = status.retry_after();
        refusal
    }
}

/// An answer in JSON.
pub(super) fn json(value: &impl Serialize) -> Response {
    match serde_json::to_string(value) {
        Ok(text) => body(StatusCode::OK, "application/json", text),
        Err(error) => Refusal::new(Code::Internal, format!("the answer is no JSON: {error}")).answer(),
    }
}

/// What a call gave, as JSON; raw bytes as text, as far as they are some.
pub(super) fn value(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|_| String::from_utf8_lossy(bytes).into_owned().into())
}

/// An answer of this type.
pub(super) fn body(status: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each code has its status, and what a client must know to go on is in the body and in the headers.
    #[test]
    fn refusals_say_how_to_go_on() {
        let status = Status::resource_exhausted("slow down").with_limit("calls_per_second", 5);
        let refusal = Refusal::from(status.with_retry_after(Duration::from_millis(1_200)));
        let value: Value = serde_json::from_str(&refusal.json()).unwrap();
        assert_eq!(
            value,
            serde_json::json!({"error": {"code": "resource_exhausted", "message": "slow down",
                "limit": {"name": "calls_per_second", "value": 5}, "retry_after_ms": 1200}})
        );
        let answer = refusal.answer();
        assert_eq!((answer.status().as_u16(), &answer.headers()[RETRY_AFTER]), (429, &HeaderValue::from(2)));
        let codes: Vec<u16> = Code::ALL.into_iter().map(|code| status_of(code).as_u16()).collect();
        assert_eq!(
            codes,
            [499, 500, 400, 504, 404, 409, 403, 429, 409, 409, 400, 501, 500, 503, 500, 401, 503, 500, 503]
        );
    }
}
