//! Where a database is: what a user writes, and how it is shown without its password.

use mysql_async::{Opts, OptsBuilder, UrlError};
use punctual_task::StoreError;
use std::fmt;
use std::time::Duration;

/// How long a connection is idle before the system asks whether the other side is still there, in milliseconds.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Where a database is.
#[derive(Clone)]
pub(crate) struct Address {
    opts: Opts,
    text: String,
    database: String,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Address").field(&self.text).finish()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Options of a URL that this store takes; the others are of the driver's pool, which it does not use, or would change what
/// its statements mean.
const OPTIONS: [&str; 6] = ["require_ssl", "verify_ca", "verify_identity", "built_in_roots", "socket", SSL_CA];
/// The option that is this store's own: a file of certificates in PEM that are trusted instead of the public authorities'.
const SSL_CA: &str = "ssl_ca";

impl Address {
    /// Reads `mysql://user:password@host:port/database` or the same with `mariadb://`, and the [`OPTIONS`] behind a `?`.
    pub(crate) fn parse(url: &str) -> Result<Self, StoreError> {
        let rest = url.strip_prefix("mysql://").or_else(|| url.strip_prefix("mariadb://"));
        let rest = rest.ok_or_else(|| StoreError::refused(format!("this is no URL of a MySQL database: {HINT}")))?;
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (mut authorities, mut others) = (None, Vec::new());
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            match name {
                SSL_CA if value.is_empty() => return Err(StoreError::refused("ssl_ca in the URL names no file")),
                SSL_CA => {
                    let read = std::fs::read(value);
                    let named = |error: std::io::Error| StoreError::refused(format!("ssl_ca={value}: {error}"));
                    authorities = Some(read.map_err(named)?);
                }
                name if OPTIONS.contains(&name) => others.push(option),
                name => {
                    return Err(StoreError::refused(format!(
                        "the URL has the option {name:?}, which this store does not take; it takes {}",
                        OPTIONS.join(", ")
                    )));
                }
            }
        }
        // What the driver says of a URL names an option and its value, never the password.
        let refused = |error: &UrlError| StoreError::refused(format!("the URL cannot be used ({error}): {HINT}"));
        let opts = Opts::from_url(&format!("mysql://{place}?{}", others.join("&"))).map_err(|error| refused(&error))?;
        let Some(database) = opts.db_name().filter(|name| !name.is_empty()).map(str::to_owned) else {
            return Err(StoreError::refused(format!("the URL names no database: {HINT}")));
        };
        let user = opts.user().map(|user| [user, "@"].concat()).unwrap_or_default();
        let host = opts.ip_or_hostname();
        let host =
            if host.contains(':') && !host.starts_with('[') { ["[", host, "]"].concat() } else { host.to_owned() };
        let text = match opts.socket() {
            Some(socket) => format!("mysql://{user}{host}/{database}?socket={socket}"),
            None => format!("mysql://{user}{host}:{}/{database}", opts.tcp_port()),
        };
        let mut ssl = opts.ssl_opts().cloned();
        if let Some(authorities) = authorities {
            let trusting = ssl.unwrap_or_default().with_root_certs(vec![authorities.into()]);
            ssl = Some(trusting.with_disable_built_in_roots(true));
        }
        let opts = OptsBuilder::from_opts(opts)
            .ssl_opts(ssl)
            // The driver would leave the address that was asked for and go to the server's own socket.
            .prefer_socket(false)
            .stmt_cache_size(0)
            .tcp_nodelay(true)
            .tcp_keepalive(Some(KEEPALIVE))
            .into();
        Ok(Address { opts, text, database })
    }

    pub(crate) fn opts(&self) -> Opts {
        self.opts.clone()
    }

    pub(crate) fn database(&self) -> &str {
        &self.database
    }
}

const HINT: &str = "write mysql://user:password@host:3306/database";

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_task::StoreErrorKind;

    /// Both schemes name the same place, which is shown without its password, also for debugging.
    #[test]
    fn passwords_are_never_shown() {
        for (url, text) in [
            ("mysql://u:geheim@h:3307/d", "mysql://u@h:3307/d"),
            ("mariadb://u:geheim@h/d", "mysql://u@h:3306/d"),
            ("mysql://u:ge%68eim@[::1]/d?require_ssl=true", "mysql://u@[::1]:3306/d"),
            ("mysql://u:geheim@h/d?require_ssl=true&verify_identity=true", "mysql://u@h:3306/d"),
            ("mysql://u:geheim@localhost/d?socket=/run/s", "mysql://u@localhost/d?socket=/run/s"),
        ] {
            let address = Address::parse(url).expect("a URL");
            assert_eq!(address.to_string(), text);
            assert!(!format!("{address:?}").contains("geheim"));
            assert_eq!(address.database(), "d");
        }
    }

    /// What is wrong is said, without the password.
    #[test]
    fn wrong_urls_are_refused() {
        for (url, word) in [
            ("postgres://u:geheim@h/d", "mysql://"),
            ("mysql://u:geheim@h", "names no database"),
            ("mysql://u:geheim@h/", "names no database"),
            ("mysql://u:geheim@h:port/d", "cannot be used"),
            ("mysql://u:geheim@h/d?pool_min=3", "pool_min"),
            ("mysql://u:geheim@h/d?client_found_rows=true", "client_found_rows"),
            ("mysql://u:geheim@h/d?require_ssl=perhaps", "require_ssl"),
            ("mysql://u:geheim@h/d?ssl_ca=", "ssl_ca"),
            ("mysql://u:geheim@h/d?ssl_ca=/nowhere/ca.pem", "/nowhere/ca.pem"),
        ] {
            let error = Address::parse(url).expect_err(url);
            assert_eq!(error.kind(), StoreErrorKind::Refused);
            assert!(error.to_string().contains(word) && !error.to_string().contains("geheim"), "{error}");
        }
    }
}
