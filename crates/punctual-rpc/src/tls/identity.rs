//! What one side proves itself with: a certificate chain and its key.

use crate::tls::error::TlsError;
use std::path::Path;
use std::{fmt, fs};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A certificate chain, the own certificate first, and the key of that certificate.
pub struct TlsIdentity {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
}

impl TlsIdentity {
    /// From PEM texts. The key may be PKCS#8, PKCS#1 or SEC1.
    ///
    /// # Errors
    /// Where there is no certificate or no key. Whether the two belong together is told where they are put to use.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        Ok(TlsIdentity { chain: certificates(chain)?, key: private_key(key)? })
    }

    /// From PEM files.
    ///
    /// # Errors
    /// As [`TlsIdentity::from_pem`], and where a file cannot be read; both name the file.
    pub fn from_files(chain: impl AsRef<Path>, key: impl AsRef<Path>) -> Result<Self, TlsError> {
        let (chain, key) = (chain.as_ref(), key.as_ref());
        let read = |path: &Path| fs::read(path).map_err(|error| TlsError::unreadable(path, &error));
        Ok(TlsIdentity {
            chain: certificates(&read(chain)?).map_err(|error| error.in_file(chain))?,
            key: private_key(&read(key)?).map_err(|error| error.in_file(key))?,
        })
    }
}

/// The certificates of a PEM text; at least one.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = read.map_err(|error| TlsError::new(format!("not a PEM text of certificates: {error}")))?;
    if all.is_empty() {
        return Err(TlsError::new("no certificate in it; expected a PEM text with BEGIN CERTIFICATE"));
    }
    Ok(all)
}

fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    // The reason given is one of form and holds nothing of the key.
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| {
        TlsError::new(format!(
            "no private key in it ({error}); expected a PEM text with BEGIN PRIVATE KEY, not encrypted"
        ))
    })
}

impl Clone for TlsIdentity {
    fn clone(&self) -> Self {
        TlsIdentity { chain: self.chain.clone(), key: self.key.clone_key() }
    }
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsIdentity").field("certificates", &self.chain.len()).finish_non_exhaustive()
    }
}
