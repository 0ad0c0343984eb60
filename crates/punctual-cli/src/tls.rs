//! Certificates and keys as files, for both sides.

use crate::exit::Failure;
use clap::Args;
use punctual::rpc::tls::{ClientCertificates, ClientTls, ServerTls, TlsError, TlsIdentity, TrustedRoots};
use std::path::PathBuf;

/// How a command meets a daemon at a `tls://` address.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TlsFlags {
    /// For tls:// addresses: the certificates (PEM) of the authorities that may vouch for the server.
    #[arg(long, global = true, value_name = "FILE", env = "PUNCTUAL_TLS_CA")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// The certificate (PEM) to show to a server that asks for one; needs --tls-key.
    #[arg(long, global = true, value_name = "FILE", env = "PUNCTUAL_TLS_CERT", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The key (PEM) of that certificate.
    #[arg(long, global = true, value_name = "FILE", env = "PUNCTUAL_TLS_KEY", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
}

impl TlsFlags {
    /// `None` where nobody is named to trust.
    ///
    /// # Errors
    /// Names the file that does not do.
    pub(crate) fn client(&self) -> Result<Option<ClientTls>, Failure> {
        let Some(roots) = &self.tls_ca else { return Ok(None) };
        let client = || {
            let identity = match (&self.tls_cert, &self.tls_key) {
                (Some(certificate), Some(key)) => Some(TlsIdentity::from_files(certificate, key)?),
                _ => None,
            };
            ClientTls::new(&TrustedRoots::from_file(roots)?, identity.as_ref())
        };
        client().map(Some).map_err(|error: TlsError| Failure::usage(error.to_string()))
    }
}

/// The daemon's own certificate, and whom it believes clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    /// The authorities of client certificates; without them clients are not asked for any.
    pub(crate) client_ca: Option<PathBuf>,
}

impl ServerFiles {
    /// Reads them.
    ///
    /// # Errors
    /// Names the file that does not do.
    pub(crate) fn load(&self) -> Result<ServerTls, TlsError> {
        let (identity, clients) = self.read()?;
        ServerTls::new(&identity, &clients)
    }

    /// Reads them again, for connections from now on.
    ///
    /// # Errors
    /// As [`ServerFiles::load`]; then nothing changes.
    pub(crate) fn reload(&self, tls: &ServerTls) -> Result<(), TlsError> {
        let (identity, clients) = self.read()?;
        tls.reload(&identity, &clients)
    }

    fn read(&self) -> Result<(TlsIdentity, ClientCertificates), TlsError> {
        let clients = match &self.client_ca {
            Some(roots) => ClientCertificates::Required(TrustedRoots::from_file(roots)?),
            None => ClientCertificates::Ignored,
        };
        Ok((TlsIdentity::from_files(&self.certificate, &self.key)?, clients))
    }
}
