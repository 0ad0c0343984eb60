//! Whose word one side takes for who the other is.

use crate::tls::error::TlsError;
use crate::tls::identity::certificates;
use std::path::Path;
use std::sync::Arc;
use std::{fmt, fs};
use tokio_rustls::rustls::RootCertStore;

/// The certificates of the authorities that are believed.
#[derive(Clone)]
pub struct TrustedRoots {
    pub(crate) store: Arc<RootCertStore>,
}

impl TrustedRoots {
    /// From a PEM text of one certificate or more.
    ///
    /// # Errors
    /// Where there is none, or one of them cannot be an authority's.
    pub fn from_pem(pem: &[u8]) -> Result<Self, TlsError> {
        let mut store = RootCertStore::empty();
        for certificate in certificates(pem)? {
            store.add(certificate)?;
        }
        Ok(TrustedRoots { store: Arc::new(store) })
    }

    /// From a PEM file.
    ///
    /// # Errors
    /// As [`TrustedRoots::from_pem`], and where the file cannot be read; both name the file.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, TlsError> {
        let path = path.as_ref();
        let pem = fs::read(path).map_err(|error| TlsError::unreadable(path, &error))?;
        Self::from_pem(&pem).map_err(|error| error.in_file(path))
    }
}

impl fmt::Debug for TrustedRoots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrustedRoots").field("authorities", &self.store.len()).finish()
    }
}
