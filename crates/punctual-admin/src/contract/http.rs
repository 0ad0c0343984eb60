//! HTTP requests as a durable service.

use punctual::engine::{Failure, Verdict};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Sends HTTP requests.
///
/// A request may reach its receiver more than once, since a worker can die between sending and recording. Each carries
/// `Idempotency-Key: punctual-TASK`, the same for every attempt of a task, unless it sets that header itself.
#[punctual::service]
pub trait Http {
    /// Sends one request. It has succeeded if the status is 2xx.
    ///
    /// 408, 429, 5xx and failures to connect are retried, after the time of a `Retry-After` header if there is one; any
    /// other status, a refused host or a malformed request is a dead letter at once.
    #[rpc(durable, attempts = 8, timeout = "1m", backoff = "exponential(2s, 10m)")]
    async fn request(
        &self,
        /// Where to, `http://` or `https://`.
        url: String,
        /// `GET` if absent, or `POST` if there is a body.
        #[serde(default)]
        method: Option<String>,
        /// Headers by name.
        #[serde(default)]
        headers: BTreeMap<String, String>,
        /// The body as text.
        #[serde(default)]
        body: Option<String>,
        /// The body as a JSON value, instead of `body`; sets `Content-Type: application/json`.
        #[serde(default)]
        json: Option<serde_json::Value>,
        /// Whether redirects are followed, up to 5 in a row; they are if absent.
        #[serde(default)]
        follow_redirects: Option<bool>,
    ) -> Result<Response, HttpError>;
}

/// A response that was kept.
#[punctual::message]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// Where it came from, after redirects.
    pub url: String,
    /// The `Content-Type`, if it said one.
    pub content_type: Option<String>,
    /// The body, at most 64 KiB of it; bytes that are no UTF-8 are replaced.
    pub body: String,
    /// Whether the body went on.
    pub cut: bool,
}

/// Why a request did not succeed.
#[punctual::message]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HttpError {
    /// The answer was not 2xx.
    Status {
        /// The answer.
        response: Response,
        /// What its `Retry-After` says, in seconds from when it came.
        retry_after: Option<u64>,
    },
    /// There was no answer: the name does not resolve, nobody listens, the connection broke, the time was up.
    NoAnswer {
        /// How it failed.
        reason: String,
    },
    /// The request cannot be sent, whoever tries: it is malformed, or this worker may not go there.
    Refused {
        /// Why.
        reason: String,
    },
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HttpError::Status { response, .. } => {
                write!(f, "{} answered with status {}", response.url, response.status)
            }
            HttpError::NoAnswer { reason } | HttpError::Refused { reason } => f.write_str(reason),
        }
    }
}

impl std::error::Error for HttpError {}

impl From<&HttpError> for Failure {
    fn from(error: &HttpError) -> Self {
        let verdict = match error {
            HttpError::Status { response, retry_after } => match (response.status, retry_after) {
                (408 | 429 | 500..=599, Some(seconds)) => Verdict::RetryAfter(Duration::from_secs(*seconds)),
                (408 | 429 | 500..=599, None) => Verdict::Retry,
                _ => Verdict::DeadLetter,
            },
            HttpError::NoAnswer { .. } => Verdict::Retry,
            HttpError::Refused { .. } => Verdict::DeadLetter,
        };
        Failure::new(error.to_string()).with_verdict(verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which statuses are worth another try, and when, is the contract's promise.
    #[test]
    fn statuses_have_their_verdicts() {
        let verdict = |status: u16, retry_after: Option<u64>| {
            let response = Response { status, url: String::new(), content_type: None, body: String::new(), cut: false };
            Failure::from(&HttpError::Status { response, retry_after }).verdict
        };
        for status in [408, 429, 500, 502, 503, 599] {
            assert_eq!(verdict(status, None), Verdict::Retry, "{status}");
            assert_eq!(verdict(status, Some(7)), Verdict::RetryAfter(Duration::from_secs(7)), "{status}");
        }
        for status in [301, 304, 400, 401, 404, 410, 451] {
            assert_eq!(verdict(status, Some(7)), Verdict::DeadLetter, "{status}");
        }
        let failure = |error: HttpError| Failure::from(&error).verdict;
        assert_eq!(failure(HttpError::NoAnswer { reason: String::new() }), Verdict::Retry);
        assert_eq!(failure(HttpError::Refused { reason: String::new() }), Verdict::DeadLetter);
    }
}
