//! Why a server could not start.

use punctual_proto::limits::LimitError;
use std::fmt;
use std::io;

/// Why a server could not start. One line that says what to do.
#[derive(Debug)]
pub struct ServerError {
    what: String,
    source: Option<io::Error>,
}

impl ServerError {
    pub(crate) fn config(what: impl Into<String>) -> Self {
        ServerError { what: what.into(), source: None }
    }

    pub(crate) fn limit(error: LimitError) -> Self {
        Self::config(error.to_string())
    }

    pub(crate) fn listen(address: &impl fmt::Display, error: io::Error) -> Self {
        ServerError { what: format!("cannot listen on {address}: {error}"), source: Some(error) }
    }

    /// Of the operating system's refusal, its kind.
    #[must_use]
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        self.source.as_ref().map(io::Error::kind)
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for ServerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|error| error as _)
    }
}
