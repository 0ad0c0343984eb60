//! Why certificates, keys or roots do not do.

use std::path::Path;
use std::{fmt, io};

/// Why certificates, keys or roots do not do. One line that names the file, where there is one, and never shows a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsError {
    what: String,
}

impl TlsError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        TlsError { what: what.into() }
    }

    pub(crate) fn unreadable(path: &Path, error: &io::Error) -> Self {
        Self::new(format!("cannot read {}: {error}", path.display()))
    }

    pub(crate) fn in_file(self, path: &Path) -> Self {
        Self::new(format!("{}: {}", path.display(), self.what))
    }
}

impl From<tokio_rustls::rustls::Error> for TlsError {
    fn from(error: tokio_rustls::rustls::Error) -> Self {
        Self::new(error.to_string())
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for TlsError {}
