//! HTTP in both directions: where the daemon's own requests may go, and where it serves some itself, to whom.

use super::{Settings, hosts};
use crate::services::AllowedHost;
use crate::text::shown;
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Where the daemon serves HTTP, and to whom.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HttpSettings {
    /// Nowhere without one.
    pub(crate) listen: Option<SocketAddr>,
    /// The names that requests may come in under, beside those of the address itself.
    pub(crate) hosts: Vec<AllowedHost>,
    /// Who may do what. Without a file, everyone who reaches the address may do everything.
    pub(crate) tokens: Option<PathBuf>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HttpSection {
    pub(crate) allow: Option<Vec<String>>,
    pub(crate) listen: Option<String>,
    pub(crate) hosts: Option<Vec<String>>,
    pub(crate) tokens: Option<PathBuf>,
}

impl HttpSection {
    pub(super) fn apply(self, settings: &mut Settings) -> Result<(), String> {
        if let Some(allow) = self.allow {
            settings.http_allow = hosts("[http] allow", &allow)?;
        }
        if let Some(listen) = self.listen {
            settings.http.listen = address(&listen)?;
        }
        if let Some(names) = self.hosts {
            settings.http.hosts = hosts("[http] hosts", &names)?;
        }
        if let Some(tokens) = self.tokens {
            // An empty path is none, as the file with every setting has it.
            settings.http.tokens = Some(tokens).filter(|path| !path.as_os_str().is_empty());
        }
        Ok(())
    }

    /// Refuses what would let other machines in unasked.
    pub(super) fn validate(settings: &Settings) -> Result<(), String> {
        let http = &settings.http;
        let Some(listen) = http.listen.filter(|listen| !listen.ip().is_loopback()) else { return Ok(()) };
        if http.tokens.is_none() {
            return Err(format!(
                "[http] listen is {listen}, which other machines reach, and anyone there could do everything; name a file of \
                 tokens ([http] tokens, lines by `punctual token new`), or listen on 127.0.0.1"
            ));
        }
        if !settings.allow_plaintext_off_loopback {
            return Err(format!(
                "[http] listen is {listen}, where tokens would cross the network in the clear; listen on 127.0.0.1 behind a proxy that \
                 speaks TLS, or set allow_plaintext_off_loopback"
            ));
        }
        Ok(())
    }

    pub(super) fn of(settings: &Settings) -> Self {
        let texts = |hosts: &[AllowedHost]| Some(hosts.iter().map(ToString::to_string).collect());
        HttpSection {
            allow: texts(&settings.http_allow),
            listen: Some(settings.http.listen.map(|listen| listen.to_string()).unwrap_or_default()),
            hosts: texts(&settings.http.hosts),
            tokens: Some(settings.http.tokens.clone().unwrap_or_default()),
        }
    }
}

/// An address to listen on; empty is none.
fn address(text: &str) -> Result<Option<SocketAddr>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let local = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    let parsed = local.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port))).or_else(|| text.parse().ok());
    parsed.map(Some).ok_or_else(|| {
        format!("[http] listen: `{}` is not an address; write 127.0.0.1:8080, [::1]:8080 or 0.0.0.0:8080, port 0 for a free one", shown(text))
    })
}
