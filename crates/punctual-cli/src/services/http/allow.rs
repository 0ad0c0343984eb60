//! Which hosts requests may go to, where an operator bounds them.

use crate::text::{BadText, shown};
use reqwest::Url;
use std::fmt;
use std::str::FromStr;

/// A host, or all hosts under a domain, on one port or on any: `example.org`, `*.example.org`, `10.0.0.7:8080`, `[::1]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AllowedHost {
    /// Lower-case, without the `*.`.
    host: String,
    under: bool,
    port: Option<u16>,
}

impl FromStr for AllowedHost {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Self, BadText> {
        let refused = || {
            BadText::new(format!(
                "`{}` is not a host: write example.org, *.example.org, 10.0.0.7:8080 or [::1]:80, without scheme or path",
                shown(text)
            ))
        };
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port.parse().map_err(|_| refused())?)),
            _ => (text, None),
        };
        let (host, under) = match host.strip_prefix("*.") {
            Some(domain) => (domain, true),
            None => (host, false),
        };
        // What the URL library makes of it is what will be compared.
        let url = Url::parse(&format!("http://{host}/")).map_err(|_| refused())?;
        match url.host_str() {
            Some(parsed)
                if !host.is_empty() && url.path() == "/" && url.username().is_empty() && url.port().is_none() =>
            {
                Ok(AllowedHost { host: parsed.to_owned(), under, port })
            }
            _ => Err(refused()),
        }
    }
}

impl fmt::Display for AllowedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let under = if self.under { "*." } else { "" };
        write!(f, "{under}{}", self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl AllowedHost {
    /// Whether this host, in lower case, and port are meant.
    pub(crate) fn holds(&self, host: &str, port: Option<u16>) -> bool {
        let host = host.trim_end_matches('.');
        let named = if self.under {
            host.strip_suffix(self.host.as_str()).is_some_and(|before| before.ends_with('.'))
        } else {
            host == self.host
        };
        named && self.port.is_none_or(|allowed| port == Some(allowed))
    }
}

/// Whether a request may go there; anywhere if no host is named.
///
/// # Errors
/// Names the host and the setting.
pub(super) fn permit(allowed: &[AllowedHost], url: &Url) -> Result<(), String> {
    let host = url.host_str().unwrap_or_default();
    let port = url.port_or_known_default();
    if allowed.is_empty() || allowed.iter().any(|entry| entry.holds(host, port)) {
        return Ok(());
    }
    Err(format!("this daemon may not send requests to {host}; add it to --http-allow"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permitted(list: &str, url: &str) -> bool {
        let list: Vec<AllowedHost> = list.split_whitespace().map(|entry| entry.parse().unwrap()).collect();
        permit(&list, &Url::parse(url).unwrap()).is_ok()
    }

    /// A list holds exactly the hosts that it names; nothing that only looks like one gets through.
    #[test]
    fn lists_hold_what_they_name() {
        let list = "example.org *.internal.example.org 10.0.0.7:8080 [::1]";
        for url in [
            "https://example.org/a",
            "https://EXAMPLE.org./",
            "http://example.org:8080/",
            "https://a.b.internal.example.org/",
            "http://10.0.0.7:8080/",
            "http://[::1]:9/",
        ] {
            assert!(permitted(list, url), "{url}");
        }
        for url in [
            "https://www.example.org/",
            "https://internal.example.org/",
            "https://notinternal.example.org/",
            "https://example.org.evil.test/",
            "http://10.0.0.7/",
            "http://10.0.0.70:8080/",
            "https://example.org@evil.test/",
            "http://127.0.0.1/",
        ] {
            assert!(!permitted(list, url), "{url}");
        }
        assert!(permitted("", "http://anywhere.test/"));
    }

    /// What is no host is refused when the daemon starts, not when a request finds nothing that it matches.
    #[test]
    fn other_texts_are_refused() {
        for text in ["", "*.", "https://example.org", "example.org/path", "a b", "example.org:port", "user@example.org"]
        {
            assert!(text.parse::<AllowedHost>().is_err(), "{text}");
        }
        assert_eq!("*.Example.org:443".parse::<AllowedHost>().unwrap().to_string(), "*.example.org:443");
    }
}
