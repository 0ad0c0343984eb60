//! The server's side.

use crate::tls::error::TlsError;
use crate::tls::identity::TlsIdentity;
use crate::tls::roots::TrustedRoots;
use crate::tls::{ALPN, VERSIONS, provider};
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::{fmt, io};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::server::TlsStream;

/// What a server does about certificates of clients.
#[derive(Debug, Clone)]
pub enum ClientCertificates {
    /// It asks for none.
    Ignored,
    /// A client may show one; it must be good if it does.
    Accepted(TrustedRoots),
    /// A client without a good one is turned away (mutual TLS).
    Required(TrustedRoots),
}

/// How a server meets clients at its `tls://` addresses. Clones share what [`ServerTls::reload`] changes.
#[derive(Clone)]
pub struct ServerTls {
    current: Arc<ArcSwap<ServerConfig>>,
}

impl ServerTls {
    /// Proves itself with `identity`.
    ///
    /// # Errors
    /// Where the certificate and the key do not belong together, or no authority is trusted for clients.
    pub fn new(identity: &TlsIdentity, clients: &ClientCertificates) -> Result<Self, TlsError> {
        Ok(ServerTls { current: Arc::new(ArcSwap::new(config(identity, clients)?)) })
    }

    /// Uses these from the next connection on; the ones that are open live on.
    ///
    /// # Errors
    /// As [`ServerTls::new`]; what was used before is used on.
    pub fn reload(&self, identity: &TlsIdentity, clients: &ClientCertificates) -> Result<(), TlsError> {
        self.current.store(config(identity, clients)?);
        Ok(())
    }

    /// Meets the client behind a TCP connection. Also gives the certificates that it proved itself with, its own first.
    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<(TlsStream<TcpStream>, Vec<Vec<u8>>)> {
        let stream = TlsAcceptor::from(self.current.load_full()).accept(stream).await?;
        let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let certificates = shown.iter().map(|certificate| certificate.as_ref().to_vec()).collect();
        Ok((stream, certificates))
    }
}

fn config(identity: &TlsIdentity, clients: &ClientCertificates) -> Result<Arc<ServerConfig>, TlsError> {
    let verifier =
        |roots: &TrustedRoots| WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots.store), provider());
    let refused = |error| TlsError::new(format!("the authorities for client certificates do not do: {error}"));
    let verifier = match clients {
        ClientCertificates::Ignored => WebPkiClientVerifier::no_client_auth(),
        ClientCertificates::Accepted(roots) => verifier(roots).allow_unauthenticated().build().map_err(refused)?,
        ClientCertificates::Required(roots) => verifier(roots).build().map_err(refused)?,
    };
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(VERSIONS)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(identity.chain.clone(), identity.key.clone_key())?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    // A session that is taken up again shows no certificate again, and one withdrawn since would still be believed.
    // Connections are few and long.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").finish_non_exhaustive()
    }
}
