//! TLS 1.3 for TCP: who the server is, and with client certificates who the client is.
//!
//! The cryptography is passed by value and never installed for the process, so that other users of the library in the same
//! program keep theirs. It is aws-lc-rs with the feature `tls`, and *ring* with `tls-ring` alone.

mod client;
mod error;
mod identity;
mod roots;
mod server;

pub use client::ClientTls;
pub use error::TlsError;
pub use identity::TlsIdentity;
pub use roots::TrustedRoots;
pub use server::{ClientCertificates, ServerTls};

use std::sync::Arc;
use tokio_rustls::rustls::SupportedProtocolVersion;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::version::TLS13;

/// What both sides say that they speak. A server of another protocol on the port ends the handshake there.
const ALPN: &[u8] = b"punctual/1";

/// Older versions buy nothing between two ends of the same kind.
const VERSIONS: &[&SupportedProtocolVersion] = &[&TLS13];

#[cfg(feature = "tls")]
fn provider() -> Arc<CryptoProvider> {
    Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider())
}

#[cfg(not(feature = "tls"))]
fn provider() -> Arc<CryptoProvider> {
    Arc::new(tokio_rustls::rustls::crypto::ring::default_provider())
}
