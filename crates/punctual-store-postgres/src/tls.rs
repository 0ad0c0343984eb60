//! TLS to the server: always with a verified certificate, by the machine's authorities or by a file of the user's.

use crate::location::Location;
use punctual_task::StoreError;
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls_platform_verifier::BuilderVerifierExt;
use std::sync::Arc;
use tokio_postgres_rustls::MakeRustlsConnect;

/// How connections are encrypted; `None` where the address says that they are not.
///
/// # Errors
/// If the certificates cannot be read.
pub(crate) fn connector(location: &Location) -> Result<Option<MakeRustlsConnect>, StoreError> {
    if !location.wants_tls() {
        return Ok(None);
    }
    // By value: a provider of the whole process is the application's to choose.
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let unusable = |error: String| StoreError::refused(format!("TLS cannot be set up: {error}"));
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(error.to_string()))?;
    let config = match &location.root_cert {
        None => builder.with_platform_verifier().map_err(|error| unusable(error.to_string()))?.with_no_client_auth(),
        Some(file) => {
            let named = |error: String| unusable(format!("sslrootcert {}: {error}", file.display()));
            let mut roots = rustls::RootCertStore::empty();
            for certificate in CertificateDer::pem_file_iter(file).map_err(|error| named(error.to_string()))? {
                let certificate = certificate.map_err(|error| named(error.to_string()))?;
                roots.add(certificate).map_err(|error| named(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(named("holds no certificate".to_owned()));
            }
            builder.with_root_certificates(roots).with_no_client_auth()
        }
    };
    Ok(Some(MakeRustlsConnect::new(config)))
}
