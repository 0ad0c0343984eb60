//! Where a database is: what a user writes, without the secrets in it once it is read.

use punctual_task::StoreError;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use tokio_postgres::config::{Host, SslMode};

/// The schema that the tables lie in unless the URL names another.
pub const SCHEMA_DEFAULT: &str = "punctual";
/// The longest name of a schema, in bytes: PostgreSQL cuts what is longer.
const SCHEMA_BYTES_MAX: usize = 63;
/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long sent bytes may stay unacknowledged before the connection counts as lost: less than a lease.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(10);

/// Where a database is, and as whom to go there.
#[derive(Clone)]
pub struct Location {
    pub(crate) config: tokio_postgres::Config,
    pub(crate) schema: String,
    /// A file of certificates that are trusted instead of the machine's.
    pub(crate) root_cert: Option<PathBuf>,
}

impl Location {
    /// Reads `postgres://user:password@host:port/database` (or `postgresql://`) with these options behind a `?`:
    ///
    /// - `schema=NAME`, where the tables lie, by default `punctual`;
    /// - `sslmode=disable`, `prefer` or `require`; `verify-full` is `require`, since a certificate is always verified. By
    ///   default `require`, and `disable` for sockets and loopback addresses;
    /// - `sslrootcert=FILE`, trusted certificates in PEM instead of those that the machine trusts;
    /// - `host=/directory` of a Unix socket, and whatever else tokio-postgres takes.
    ///
    /// # Errors
    /// [`StoreErrorKind::Refused`](punctual_task::StoreErrorKind::Refused), naming what is wrong and never the password.
    pub fn parse(text: &str) -> Result<Self, StoreError> {
        let refuse = |what: &str| {
            Err(StoreError::refused(format!(
                "{what}; write postgres://user:password@host:port/database?schema=punctual"
            )))
        };
        let Some((scheme @ ("postgres" | "postgresql"), rest)) = text.split_once("://") else {
            return refuse("this is no address of a PostgreSQL database");
        };
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let mut location =
            Location { config: tokio_postgres::Config::new(), schema: SCHEMA_DEFAULT.to_owned(), root_cert: None };
        let mut ssl_mode = None;
        let mut others = Vec::new();
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            match name {
                "schema" => location.schema = checked_schema(value)?,
                "sslrootcert" => location.root_cert = Some(PathBuf::from(value)),
                "sslmode" => {
                    ssl_mode = Some(match value {
                        "disable" => SslMode::Disable,
                        "prefer" => SslMode::Prefer,
                        "require" | "verify-full" => SslMode::Require,
                        other => {
                            return refuse(&format!(
                                "sslmode={other} is none of disable, prefer, require, verify-full"
                            ));
                        }
                    });
                }
                _ => others.push(option),
            }
        }
        let plain = format!("{scheme}://{place}{}{}", if others.is_empty() { "" } else { "?" }, others.join("&"));
        location.config = match plain.parse() {
            Ok(config) => config,
            // The parser's own message quotes what it does not understand, which may be the password.
            Err(_) => return refuse("the address of the PostgreSQL database cannot be read"),
        };
        let config = &mut location.config;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return refuse("the address of the PostgreSQL database names no host");
        }
        let near = config.get_hosts().iter().all(is_near) && config.get_hostaddrs().iter().all(|ip| ip.is_loopback());
        config.ssl_mode(ssl_mode.unwrap_or(if near { SslMode::Disable } else { SslMode::Require }));
        config.connect_timeout(config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT));
        config.tcp_user_timeout(config.get_tcp_user_timeout().copied().unwrap_or(UNACKNOWLEDGED_MAX));
        config
            .keepalives_idle(Duration::from_secs(10))
            .keepalives_interval(Duration::from_secs(3))
            .keepalives_retries(3);
        if config.get_application_name().is_none() {
            config.application_name("punctual");
        }
        Ok(location)
    }

    /// The schema that the tables lie in.
    #[must_use]
    pub fn schema(&self) -> &str {
        &self.schema
    }

    pub(crate) fn wants_tls(&self) -> bool {
        self.config.get_ssl_mode() != SslMode::Disable
    }
}

impl fmt::Display for Location {
    /// The address without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        if let Some(user) = self.config.get_user() {
            write!(f, "{user}@")?;
        }
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        match self.config.get_hosts().first() {
            Some(Host::Tcp(name)) => write!(f, "{name}:{port}/{database}")?,
            #[cfg(unix)]
            Some(Host::Unix(folder)) => write!(f, "/{database}?host={}&port={port}", folder.display())?,
            None => match self.config.get_hostaddrs().first() {
                Some(address) => write!(f, "{address}:{port}/{database}")?,
                None => write!(f, "/{database}")?,
            },
        }
        if self.schema != SCHEMA_DEFAULT {
            write!(f, " (schema {})", self.schema)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Location({self})")
    }
}

/// Whether nobody but this machine sees what is sent.
fn is_near(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback()),
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

/// Small letters, digits and underscores: such a name needs no quotes anywhere.
fn checked_schema(name: &str) -> Result<String, StoreError> {
    let begins = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_');
    let plain = name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_');
    if begins && plain && name.len() <= SCHEMA_BYTES_MAX && !name.starts_with("pg_") {
        return Ok(name.to_owned());
    }
    Err(StoreError::refused(format!(
        "the schema {name:?} is not 1 to {SCHEMA_BYTES_MAX} small letters, digits and underscores that begin with a letter, \
         or begins with pg_"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Location {
        Location::parse(text).expect(text)
    }

    /// Each written form names the place that it says, and what is shown has no password.
    #[test]
    fn forms() {
        let full = parse("postgres://anna:s3cret@db.example.org:5433/app?schema=jobs");
        assert_eq!(full.to_string(), "postgres://anna@db.example.org:5433/app (schema jobs)");
        assert_eq!(full.config.get_ssl_mode(), SslMode::Require);
        assert_eq!(full.config.get_password(), Some(&b"s3cret"[..]));
        assert!(!format!("{full:?}").contains("s3cret"));
        let near = parse("postgresql://anna@127.0.0.1/app");
        assert_eq!((near.to_string().as_str(), near.wants_tls()), ("postgres://anna@127.0.0.1:5432/app", false));
        assert!(parse("postgres://anna@localhost/app?sslmode=verify-full").wants_tls());
        let socket = parse("postgres:///app?host=/run/postgresql&user=anna");
        assert_eq!(socket.to_string(), "postgres://anna@/app?host=/run/postgresql&port=5432");
        assert!(!socket.wants_tls());
    }

    /// What cannot be used is refused in a line that does not repeat the password.
    #[test]
    fn refusals() {
        for bad in [
            "sqlite://a.db",
            "postgres://",
            "postgres:///app",
            "postgres://anna:s3cret@host:notaport/app",
            "postgres://anna:s3cret@host/app?nonsense=1",
            "postgres://anna:s3cret@host/app?sslmode=allow",
            "postgres://anna:s3cret@host/app?schema=Jobs",
            "postgres://anna:s3cret@host/app?schema=a\"b",
            "postgres://anna:s3cret@host/app?schema=pg_x",
            "postgres://anna:s3cret@host/app?schema=",
        ] {
            let refused = Location::parse(bad).expect_err(bad);
            assert_eq!(refused.kind(), punctual_task::StoreErrorKind::Refused, "{bad}");
            assert!(!refused.to_string().contains("s3cret"), "{refused}");
        }
    }
}
