//! Who is let in: the one place that looks at the host, the token, the role and where a write comes from.

use super::answer::Refusal;
use super::role::Role;
use super::tokens::Tokens;
use crate::config::HttpSettings;
use crate::services::AllowedHost;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, StatusCode};
use punctual::Code;
use std::net::SocketAddr;
use std::sync::Arc;

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Caller {
    /// The token's name; `local` where nobody has to show one.
    pub(super) name: String,
    pub(super) role: Role,
}

/// The rules that hold for every request.
#[derive(Debug)]
pub(super) struct Guard {
    /// The names that a request may come in under.
    hosts: Vec<AllowedHost>,
    tokens: Option<Arc<Tokens>>,
}

impl Guard {
    /// For a server at this address.
    pub(super) fn new(settings: &HttpSettings, address: SocketAddr, tokens: Option<Arc<Tokens>>) -> Self {
        let local = ["localhost", "127.0.0.1", "[::1]"];
        let of_address = match address {
            address if address.ip().is_loopback() => local.map(str::to_owned).to_vec(),
            address if address.ip().is_unspecified() => Vec::new(),
            SocketAddr::V4(address) => vec![address.ip().to_string()],
            SocketAddr::V6(address) => vec![format!("[{}]", address.ip())],
        };
        // They are addresses, which are hosts.
        let hosts = of_address.iter().filter_map(|text| text.parse().ok());
        Guard { hosts: hosts.chain(settings.hosts.iter().cloned()).collect(), tokens }
    }

    /// Refuses a request that came in under a name that is not this server's: a page whose own name was made to point here would
    /// else speak to it as if it were its own.
    pub(super) fn host(&self, parts: &Parts) -> Result<(), Refusal> {
        let mut named = parts.headers.get_all(HOST).iter();
        let refused = |message: String| {
            Err(Refusal::with_status(StatusCode::MISDIRECTED_REQUEST, Code::PermissionDenied, message))
        };
        let (Some(host), None) = (named.next(), named.next()) else {
            return refused("a request names its host once, in the header Host".to_owned());
        };
        let host = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
        let Some(host) = host else { return refused("the header Host is not HOST or HOST:PORT".to_owned()) };
        for authority in parts.uri.authority().into_iter().chain([&host]) {
            let name = authority.host().to_ascii_lowercase();
            let plain = !authority.as_str().contains('@');
            if !plain || !self.hosts.iter().any(|allowed| allowed.holds(&name, authority.port_u16())) {
                return refused(format!(
                    "this server does not answer to {}; add it to --http-hosts if it is one of its names",
                    crate::text::shown(&name)
                ));
            }
        }
        Ok(())
    }

    /// Who asks.
    pub(super) fn caller(&self, headers: &HeaderMap) -> Result<Caller, Refusal> {
        let Some(tokens) = &self.tokens else { return Ok(Caller { name: "local".to_owned(), role: Role::Admin }) };
        let refused = |message: &str| Refusal::new(Code::Unauthenticated, message);
        let mut shown = headers.get_all(AUTHORIZATION).iter();
        let (Some(shown), None) = (shown.next(), shown.next()) else {
            return Err(refused("this needs a token: send it as the header Authorization: Bearer TOKEN"));
        };
        let token = shown.to_str().ok().and_then(|text| {
            let (scheme, token) = text.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
        });
        let holder = token.and_then(|token| tokens.holder(token));
        let holder = holder.ok_or_else(|| refused("the token is not known here; `punctual token new` makes one"))?;
        Ok(Caller { name: holder.name, role: holder.role })
    }
}

/// Refuses a write that a page of another site may have made: such a page cannot send JSON, nor hide where it is from.
pub(super) fn write(parts: &Parts) -> Result<(), Refusal> {
    if matches!(parts.method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    let headers = &parts.headers;
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err(Refusal::with_status(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Code::InvalidArgument,
            "a write needs the header Content-Type: application/json",
        ));
    }
    let refused = |why: &str| Err(Refusal::new(Code::PermissionDenied, why));
    if headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none") {
        return refused("this write comes from a page of another site (Sec-Fetch-Site)");
    }
    let Some(origin) = headers.get(ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    let same = match (origin, headers.get(HOST).and_then(|host| host.to_str().ok())) {
        // A proxy may speak TLS in front of this server, so the scheme does not count.
        (Some(("http" | "https", origin)), Some(host)) => origin.eq_ignore_ascii_case(host),
        _ => false,
    };
    if same { Ok(()) } else { refused("this write comes from a page of another site (Origin)") }
}

/// Whether the caller has the role.
pub(super) fn role(caller: &Caller, needed: Role) -> Result<(), Refusal> {
    if caller.role >= needed {
        return Ok(());
    }
    Err(Refusal::new(
        Code::PermissionDenied,
        format!("this needs the role {needed}; the token {} has the role {}", caller.name, caller.role),
    ))
}

#[cfg(test)]
mod tests;
