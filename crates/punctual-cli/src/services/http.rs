//! [`Http`]: requests, sent with what is left of the attempt's budget.

mod allow;
mod retry_after;

pub(crate) use allow::AllowedHost;

use punctual::Context;
use punctual::clock::{Clock, SystemClock};
use punctual::task::TaskId;
use punctual_admin::{Http, HttpError, Response, http};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Url};
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

/// The most bytes of a body that are kept.
const BODY_BYTES_MAX: usize = 64 << 10;

/// The most redirects in a row: a chain that is longer leads in a circle.
const REDIRECTS_MAX: usize = 5;

/// How long a connection may take to open: a host that does not answer must not use up the whole budget before the next
/// of its addresses is tried.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The most headers of a request.
const HEADERS_MAX: usize = 100;

/// Sends requests.
#[derive(Debug, Clone)]
pub(crate) struct HttpService {
    follow: Client,
    stay: Client,
    allowed: Arc<[AllowedHost]>,
}

impl HttpService {
    /// A service that may send to `allowed`; to every host if there is none.
    ///
    /// # Errors
    /// Where the TLS library does not start.
    pub(crate) fn new(allowed: Vec<AllowedHost>) -> Result<Self, String> {
        let allowed: Arc<[AllowedHost]> = allowed.into();
        let client = |policy: Policy| {
            Client::builder()
                .user_agent(concat!("punctual/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(CONNECT_TIMEOUT)
                .redirect(policy)
                .build()
                .map_err(|error| format!("the HTTP client does not start: {}", chain(&error)))
        };
        let hosts = Arc::clone(&allowed);
        let follow = Policy::custom(move |attempt| {
            if attempt.previous().len() > REDIRECTS_MAX {
                return attempt.error(format!("more than {REDIRECTS_MAX} redirects in a row"));
            }
            match allow::permit(&hosts, attempt.url()) {
                Ok(()) => attempt.follow(),
                Err(why) => attempt.error(why),
            }
        });
        Ok(HttpService { follow: client(follow)?, stay: client(Policy::none())?, allowed })
    }

    /// Checks a request as far as that can be done without sending it, and gives where it goes.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub(crate) fn check(request: &http::Request) -> Result<Url, String> {
        let url = Url::parse(&request.url).map_err(|error| format!("url: {error}; write https://HOST/PATH"))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(format!("url: `{}` is not of http or https; write https://HOST/PATH", url.scheme()));
        }
        if request.body.is_some() && request.json.is_some() {
            return Err("body and json are both given; a request has one body".to_owned());
        }
        method(request)?;
        headers(&request.headers)?;
        Ok(url)
    }

    /// Whether this worker may send there.
    ///
    /// # Errors
    /// Names the host and the setting that leaves it out.
    pub(crate) fn permit(&self, url: &Url) -> Result<(), String> {
        allow::permit(&self.allowed, url)
    }

    async fn send(&self, request: http::Request) -> Result<Response, HttpError> {
        let refused = |reason: String| HttpError::Refused { reason };
        let url = Self::check(&request).map_err(refused)?;
        self.permit(&url).map_err(refused)?;
        let mut headers = headers(&request.headers).map_err(refused)?;
        let context = Context::current();
        if let Some(task) = context.as_ref().and_then(Context::task)
            && let Ok(value) = HeaderValue::try_from(format!("punctual-{}", TaskId(task.id.cast_signed())))
        {
            headers.entry("idempotency-key").or_insert(value);
        }
        let client = if request.follow_redirects.unwrap_or(true) { &self.follow } else { &self.stay };
        let mut call = client.request(method(&request).map_err(refused)?, url).headers(headers.clone());
        if let Some(budget) = context.as_ref().and_then(Context::remaining) {
            call = call.timeout(budget);
        }
        if let Some(json) = &request.json {
            if !headers.contains_key(CONTENT_TYPE) {
                call = call.header(CONTENT_TYPE, "application/json");
            }
            call = call.body(json.to_string());
        } else if let Some(body) = request.body {
            call = call.body(body);
        }
        let answer = call.send().await.map_err(no_answer)?;
        let retry_after = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = retry_after.and_then(|text| retry_after::seconds(text, SystemClock.timestamp()));
        let success = answer.status().is_success();
        let response = match keep(answer).await {
            Ok(response) => response,
            // What an error page says is worth less than that there was one.
            Err((response, _)) if !success => response,
            Err((_, error)) => return Err(no_answer(error)),
        };
        if success { Ok(response) } else { Err(HttpError::Status { response, retry_after }) }
    }
}

impl Http for HttpService {
    async fn request(
        &self,
        url: String,
        method: Option<String>,
        headers: BTreeMap<String, String>,
        body: Option<String>,
        json: Option<serde_json::Value>,
        follow_redirects: Option<bool>,
    ) -> Result<Response, HttpError> {
        let request = http::Request { url, method, headers, body, json, follow_redirects };
        let Some(context) = Context::current() else { return self.send(request).await };
        tokio::select! {
            biased;
            // Dropping the request closes its connection, so that the other side knows as well.
            reason = context.cancelled() => Err(HttpError::NoAnswer { reason: format!("no answer yet: {reason}") }),
            result = self.send(request) => result,
        }
    }
}

fn method(request: &http::Request) -> Result<Method, String> {
    let with_body = request.body.is_some() || request.json.is_some();
    let name = request.method.as_deref().unwrap_or(if with_body { "POST" } else { "GET" });
    match Method::from_bytes(name.to_ascii_uppercase().as_bytes()) {
        Ok(Method::CONNECT) | Err(_) => Err(format!(
            "method: `{}` cannot be sent; write GET, POST, PUT, DELETE or another",
            crate::text::shown(name)
        )),
        Ok(method) => Ok(method),
    }
}

fn headers(pairs: &BTreeMap<String, String>) -> Result<HeaderMap, String> {
    if pairs.len() > HEADERS_MAX {
        return Err(format!("headers: {} are more than the limit of {HEADERS_MAX}", pairs.len()));
    }
    let mut headers = HeaderMap::with_capacity(pairs.len());
    for (name, value) in pairs {
        let shown = crate::text::shown(name);
        let parsed = HeaderName::try_from(name).map_err(|_| format!("headers: `{shown}` is not a header's name"))?;
        let value = HeaderValue::try_from(value)
            .map_err(|_| format!("headers: the value of `{shown}` has a control character"))?;
        headers.insert(parsed, value);
    }
    Ok(headers)
}

/// What is kept of an answer, and the error where its body broke off.
async fn keep(mut answer: reqwest::Response) -> Result<Response, (Response, reqwest::Error)> {
    let content_type = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (status, url) = (answer.status().as_u16(), answer.url().to_string());
    let mut bytes = Vec::new();
    let mut broken = None;
    while bytes.len() <= BODY_BYTES_MAX {
        match answer.chunk().await {
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) => break,
            Err(error) => {
                broken = Some(error);
                break;
            }
        }
    }
    let cut = bytes.len() > BODY_BYTES_MAX;
    bytes.truncate(BODY_BYTES_MAX);
    let response = Response { status, url, content_type, body: String::from_utf8_lossy(&bytes).into_owned(), cut };
    match broken {
        None => Ok(response),
        Some(error) => Err((response, error)),
    }
}

fn no_answer(error: reqwest::Error) -> HttpError {
    let refused = error.is_redirect() || error.is_builder();
    let host = error.url().and_then(Url::host_str).unwrap_or("the host").to_owned();
    let reason = chain(&error.without_url());
    if refused {
        HttpError::Refused { reason: format!("{host}: {reason}") }
    } else {
        HttpError::NoAnswer { reason: format!("no answer from {host}: {reason}") }
    }
}

/// An error and what caused it, on one line, each said once.
fn chain(error: &dyn Error) -> String {
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !told.contains(&text) {
            told.push_str(": ");
            told.push_str(&text);
        }
        cause = error.source();
    }
    told
}

#[cfg(test)]
mod tests;
