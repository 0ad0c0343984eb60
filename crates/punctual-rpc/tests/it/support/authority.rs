//! A certificate authority of the test's own.

use punctual_rpc::tls::{ClientCertificates, ClientTls, ServerTls, TlsIdentity, TrustedRoots};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The authority that both ends of an ordinary test trust.
pub(crate) static AUTHORITY: LazyLock<Authority> = LazyLock::new(Authority::new);

pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params
            .distinguished_name
            .push(DnType::CommonName, format!("authority {}", NEXT.fetch_add(1, Ordering::SeqCst)));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Authority { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap() }
    }

    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    pub(crate) fn roots(&self) -> TrustedRoots {
        TrustedRoots::from_pem(self.pem().as_bytes()).unwrap()
    }

    /// A certificate and its key as PEM texts, for this host or client.
    pub(crate) fn issue(&self, name: &str) -> (String, String) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    pub(crate) fn identity(&self, name: &str) -> TlsIdentity {
        let (chain, key) = self.issue(name);
        TlsIdentity::from_pem(chain.as_bytes(), key.as_bytes()).unwrap()
    }

    /// A server on the loopback address that asks clients for nothing.
    pub(crate) fn server(&self) -> ServerTls {
        ServerTls::new(&self.identity("127.0.0.1"), &ClientCertificates::Ignored).unwrap()
    }

    /// A client that shows nothing.
    pub(crate) fn client(&self) -> ClientTls {
        ClientTls::new(&self.roots(), None).unwrap()
    }
}
