//! The client's side.

use crate::tls::error::TlsError;
use crate::tls::identity::TlsIdentity;
use crate::tls::roots::TrustedRoots;
use crate::tls::{ALPN, VERSIONS, provider};
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::{fmt, io};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

/// How a channel meets a server at a `tls://` address. Clones share what [`ClientTls::reload`] changes.
#[derive(Clone)]
pub struct ClientTls {
    current: Arc<ArcSwap<ClientConfig>>,
    server_name: Option<ServerName<'static>>,
}

impl ClientTls {
    /// Believes servers that these authorities vouch for, and shows `identity` to those that ask.
    ///
    /// # Errors
    /// Where the certificate and the key of the identity do not belong together.
    pub fn new(roots: &TrustedRoots, identity: Option<&TlsIdentity>) -> Result<Self, TlsError> {
        let config = config(roots, identity)?;
        Ok(ClientTls { current: Arc::new(ArcSwap::new(config)), server_name: None })
    }

    /// Expects the certificate of this host, whatever the address says.
    ///
    /// # Errors
    /// Where it is neither a DNS name nor an IP address.
    pub fn server_name(mut self, name: &str) -> Result<Self, TlsError> {
        self.server_name = Some(parse_name(name)?);
        Ok(self)
    }

    /// Uses these from the next connection on; the ones that are open live on.
    ///
    /// # Errors
    /// As [`ClientTls::new`]; what was used before is used on.
    pub fn reload(&self, roots: &TrustedRoots, identity: Option<&TlsIdentity>) -> Result<(), TlsError> {
        self.current.store(config(roots, identity)?);
        Ok(())
    }

    /// Meets the server behind a TCP connection.
    pub(crate) async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => parse_name(host).map_err(io::Error::other)?,
        };
        TlsConnector::from(self.current.load_full()).connect(name, stream).await
    }
}

fn parse_name(name: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(name.to_owned()).map_err(|_| {
        TlsError::new(format!("{name:?} is neither a DNS name nor an IP address; a certificate cannot name it"))
    })
}

fn config(roots: &TrustedRoots, identity: Option<&TlsIdentity>) -> Result<Arc<ClientConfig>, TlsError> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(VERSIONS)?
        .with_root_certificates(Arc::clone(&roots.store));
    let mut config = match identity {
        Some(identity) => builder.with_client_auth_cert(identity.chain.clone(), identity.key.clone_key())?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(config))
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}
