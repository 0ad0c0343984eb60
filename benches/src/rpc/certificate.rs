//! The certificates of a run over TLS: one authority, one server, made for the run and gone with its folder.

use anyhow::Context as _;
use punctual::rpc::tls::{ClientCertificates, ClientTls, ServerTls, TlsIdentity, TrustedRoots};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// The host that the certificate names.
pub const HOST: &str = "127.0.0.1";

const AUTHORITY: &str = "authority.pem";
const CHAIN: &str = "chain.pem";
const KEY: &str = "key.pem";

/// Makes them.
pub fn write(folder: &Path) -> anyhow::Result<()> {
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.distinguished_name.push(DnType::CommonName, "the benches' authority");
    let key = KeyPair::generate()?;
    let authority = parameters.self_signed(&key)?;
    let issuer = Issuer::new(parameters, key);
    let own = KeyPair::generate()?;
    let chain = CertificateParams::new([HOST.to_owned()])?.signed_by(&own, &issuer)?;
    fs::write(folder.join(AUTHORITY), authority.pem())?;
    fs::write(folder.join(CHAIN), chain.pem())?;
    fs::write(folder.join(KEY), own.serialize_pem())?;
    Ok(())
}

/// How Punctual's server proves itself.
pub fn server(folder: &Path) -> anyhow::Result<ServerTls> {
    let identity = TlsIdentity::from_files(folder.join(CHAIN), folder.join(KEY))?;
    Ok(ServerTls::new(&identity, &ClientCertificates::Ignored)?)
}

/// Whom Punctual's client believes.
pub fn client(folder: &Path) -> anyhow::Result<ClientTls> {
    Ok(ClientTls::new(&TrustedRoots::from_file(folder.join(AUTHORITY))?, None)?)
}

/// The same for the other columns: the same library, provider, version and certificates.
pub fn acceptor(folder: &Path) -> anyhow::Result<TlsAcceptor> {
    let chain = CertificateDer::pem_file_iter(folder.join(CHAIN))?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(folder.join(KEY))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The same for the other columns' clients.
pub fn connector(folder: &Path) -> anyhow::Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(folder.join(AUTHORITY))?.collect::<Result<Vec<_>, _>>()?;
    for certificate in certificates {
        roots.add(certificate).context("the run's own authority")?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
