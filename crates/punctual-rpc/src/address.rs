//! Addresses: where a server listens and a channel connects to.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The longest path of a Unix socket that the kernel takes (the 108 bytes of `sun_path` less the closing zero).
pub const UNIX_PATH_BYTES_MAX: usize = 107;

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Address {
    /// `tcp://host:port`. The host is a name, an IPv4 address, or an IPv6 address in brackets.
    Tcp {
        /// The host, without brackets.
        host: String,
        /// The port; 0 asks a listener for a free one.
        port: u16,
    },
    /// `tls://host:port`: TLS over TCP. The host is what the server's certificate must name.
    Tls {
        /// The host, without brackets.
        host: String,
        /// The port; 0 asks a listener for a free one.
        port: u16,
    },
    /// `unix:/path/to/socket`.
    Unix(PathBuf),
    /// `unix:@name`: Linux's abstract namespace, without a file.
    UnixAbstract(String),
    /// `shm:/path/to/socket`: memory shared with a process of the same user. The socket file is where the two meet. Linux only.
    Shm(PathBuf),
    /// `inproc:name`: a server of this process.
    Inproc(String),
}

impl Address {
    /// The text as [`FromStr`] reads it.
    ///
    /// # Errors
    /// Where the text is none of the forms.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let refuse = |why| AddressError { text: text.to_owned(), why };
        if let Some(rest) = text.strip_prefix("tcp://") {
            return host_and_port(rest).map(|(host, port)| Address::Tcp { host, port }).map_err(refuse);
        }
        if let Some(rest) = text.strip_prefix("tls://") {
            return host_and_port(rest).map(|(host, port)| Address::Tls { host, port }).map_err(refuse);
        }
        if let Some(path) = text.strip_prefix("unix:") {
            if let Some(name) = path.strip_prefix('@') {
                return check_name(name).map(|()| Address::UnixAbstract(name.to_owned())).map_err(refuse);
            }
            return socket_path(path).map(Address::Unix).map_err(refuse);
        }
        if let Some(path) = text.strip_prefix("shm:") {
            if path.starts_with('@') {
                return Err(refuse("shared memory has a socket file, which an abstract name is not; write shm:/PATH"));
            }
            return socket_path(path).map(Address::Shm).map_err(refuse);
        }
        if let Some(name) = text.strip_prefix("inproc:") {
            return check_name(name).map(|()| Address::Inproc(name.to_owned())).map_err(refuse);
        }
        Err(refuse("write tcp://HOST:PORT, tls://HOST:PORT, unix:/PATH, unix:@NAME, shm:/PATH or inproc:NAME"))
    }
}

fn host_and_port(text: &str) -> Result<(String, u16), &'static str> {
    let (host, port) = text.rsplit_once(':').ok_or("a TCP address needs a port")?;
    let port = port.parse().map_err(|_| "the port must be a number from 0 to 65535")?;
    let host = match host.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']').ok_or("the bracket of the IPv6 address is not closed")?,
        None if host.contains(':') => return Err("an IPv6 address must stand in brackets"),
        None => host,
    };
    if host.is_empty() || host.contains(['/', '@']) {
        return Err("the host is missing or not a host");
    }
    Ok((host.to_owned(), port))
}

fn socket_path(path: &str) -> Result<PathBuf, &'static str> {
    // A URL's `unix:///path` means the same path.
    let path = path.strip_prefix("//").unwrap_or(path);
    if path.is_empty() {
        return Err("the path is missing");
    }
    if path.contains('\0') {
        return Err("the path contains a zero byte");
    }
    if path.len() > UNIX_PATH_BYTES_MAX {
        return Err("the path is longer than the 107 bytes that the kernel takes; use a shorter one");
    }
    Ok(Path::new(path).to_owned())
}

fn check_name(name: &str) -> Result<(), &'static str> {
    match name.len() {
        0 => Err("the name is missing"),
        1..UNIX_PATH_BYTES_MAX if !name.contains('\0') => Ok(()),
        _ => Err("the name must be at most 106 bytes without a zero byte"),
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        Address::parse(text)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { host, port } => write_host(f, "tcp", host, *port),
            Address::Tls { host, port } => write_host(f, "tls", host, *port),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Shm(path) => write!(f, "shm:{}", path.display()),
            Address::UnixAbstract(name) => write!(f, "unix:@{name}"),
            Address::Inproc(name) => write!(f, "inproc:{name}"),
        }
    }
}

fn write_host(f: &mut fmt::Formatter<'_>, scheme: &str, host: &str, port: u16) -> fmt::Result {
    if host.contains(':') { write!(f, "{scheme}://[{host}]:{port}") } else { write!(f, "{scheme}://{host}:{port}") }
}

/// A text that is no address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressError {
    text: String,
    why: &'static str,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not an address: {}", self.text, self.why)
    }
}

impl std::error::Error for AddressError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every form reads back as it is written.
    #[test]
    fn addresses_read_back() {
        for text in [
            "tcp://127.0.0.1:7400",
            "tcp://[::1]:0",
            "tcp://db.local:80",
            "tls://[::1]:1",
            "unix:/run/a.sock",
            "unix:@a",
            "shm:/run/a.sock",
            "inproc:a",
        ] {
            assert_eq!(Address::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Address::parse("unix:///run/a").unwrap(), Address::Unix("/run/a".into()));
    }

    /// What is no address is refused with what to write instead, and never taken for something else.
    #[test]
    fn other_texts_are_refused() {
        let long = format!("unix:/{}", "x".repeat(UNIX_PATH_BYTES_MAX));
        let long_shm = format!("shm:/{}", "x".repeat(UNIX_PATH_BYTES_MAX));
        for (text, why) in [
            ("127.0.0.1:80", "write tcp://"),
            ("tcp://127.0.0.1", "needs a port"),
            ("tcp://:80", "host"),
            ("tcp://::1:80", "brackets"),
            ("tcp://[::1:80", "not closed"),
            ("tcp://a:70000", "0 to 65535"),
            ("unix:", "missing"),
            ("unix:@", "missing"),
            (long.as_str(), "107 bytes"),
            ("shm:", "missing"),
            ("shm:@a", "write shm:/PATH"),
            (long_shm.as_str(), "107 bytes"),
            ("inproc:", "missing"),
            ("", "write tcp://"),
        ] {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
