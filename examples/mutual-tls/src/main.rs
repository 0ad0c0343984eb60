//! Both sides prove themselves by certificates, and the server's is changed while a connection lives.
//!
//! `cargo run -p mutual-tls`

use punctual::prelude::*;
use punctual::rpc::tls::{ClientCertificates, ClientTls, ServerTls, TlsIdentity, TrustedRoots};
use punctual::rpc::{ChannelConfig, ServerConfig};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::time::Duration;

/// Something to call.
#[service]
pub trait Vault {
    /// What is inside.
    async fn look(&self) -> Result<String, Status>;
}

struct Gold;

impl Vault for Gold {
    async fn look(&self) -> Result<String, Status> {
        Ok("gold".to_owned())
    }
}

/// An authority for this program alone. In production the PEM files come from yours: `TlsIdentity::from_files` reads them.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> anyhow::Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Ok(Authority(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?))
    }

    fn roots(&self) -> anyhow::Result<TrustedRoots> {
        Ok(TrustedRoots::from_pem(self.0.pem().as_bytes())?)
    }

    fn issue(&self, name: &str) -> anyhow::Result<TlsIdentity> {
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(vec![name.to_owned()])?.signed_by(&key, &self.0)?;
        Ok(TlsIdentity::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes())?)
    }
}

async fn client(address: &str, tls: ClientTls) -> Result<VaultClient, Status> {
    let mut config = ChannelConfig::default();
    config.tls = Some(tls);
    Ok(VaultClient::new(Channel::builder(address).config(config).connect().await?))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let authority = Authority::new()?;
    let required = ClientCertificates::Required(authority.roots()?);
    let tls = ServerTls::new(&authority.issue("127.0.0.1")?, &required)?;
    let mut config = ServerConfig::default();
    config.tls = Some(tls.clone());
    let vault = VaultServer::new(Gold);
    let server = Server::builder().config(config).service(vault).listen("tls://127.0.0.1:0").bind().await?;
    let address = server.local_addrs()[0].clone();
    let server = server.spawn();

    let known = ClientTls::new(&authority.roots()?, Some(&authority.issue("a worker")?))?;
    let worker = client(&address, known.clone()).await?;
    println!("a worker finds {}", worker.look().await?);
    let stranger = client(&address, ClientTls::new(&authority.roots()?, None)?).await;
    println!("a stranger: {}", stranger.as_ref().err().map_or_else(String::new, ToString::to_string));
    anyhow::ensure!(stranger.is_err(), "a client without a certificate was let in");

    // The new certificate serves new connections; the open one goes on.
    tls.reload(&authority.issue("127.0.0.1")?, &required)?;
    println!("still {}, and again {}", worker.look().await?, client(&address, known).await?.look().await?);

    server.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    /// The example runs and finds what it says.
    #[test]
    fn it_runs() {
        super::main().expect("the example runs");
    }
}
