//! A daemon with certificates, and commands that check them.

use crate::support::{Daemon, Workspace};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustix::process::Signal;
use std::io::BufRead;

/// An authority of the test's own.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Writes a certificate and its key into files of the workspace.
    fn issue(&self, workspace: &Workspace, name: &str, files: [&str; 2]) -> [String; 2] {
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        [workspace.file(files[0], &certificate.pem()), workspace.file(files[1], &key.serialize_pem())]
    }

    fn file(&self, workspace: &Workspace, name: &str) -> String {
        workspace.file(name, &self.0.pem())
    }
}

/// Commands believe the daemon by its authority alone, and the daemon believes them by theirs; SIGHUP brings new certificates.
#[test]
fn certificates_are_checked_on_both_sides_and_read_again() {
    let workspace = Workspace::new();
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let (old_ca, new_ca) = (old.file(&workspace, "old.pem"), new.file(&workspace, "new.pem"));
    old.issue(&workspace, "127.0.0.1", ["server.pem", "server.key"]);
    let [certificate, key] = old.issue(&workspace, "operator", ["client.pem", "client.key"]);
    let config = workspace
        .file("punctual.toml", "[tls]\ncertificate = 'server.pem'\nkey = 'server.key'\nclient_ca = 'old.pem'\n");
    let mut daemon = Daemon::start(&workspace, &["--config", &config, "--listen", "tls://127.0.0.1:0"]);
    let address = daemon.address("tls:");
    let queues = |flags: &[&str]| workspace.run(&[&["queues", "list", "--addr", &address], flags].concat());
    let shown = ["--tls-cert", &certificate, "--tls-key", &key];
    let with = |ca: &str| [&["--tls-ca", ca], &shown[..]].concat().iter().map(ToString::to_string).collect::<Vec<_>>();
    let trusting = |ca: &str| queues(&with(ca).iter().map(String::as_str).collect::<Vec<_>>());

    trusting(&old_ca).succeeded();
    queues(&["--tls-ca", &old_ca]).failed(1, &["CertificateRequired"]);
    queues(&[]).failed(2, &["--tls-ca"]);
    trusting(&new_ca).failed(1, &["invalid peer certificate"]);
    trusting("nowhere.pem").failed(2, &["cannot read nowhere.pem"]);
    daemon.run(&["queues", "list", "--tls-ca", "nowhere.pem"]).succeeded();
    queues(&["--tls-ca", &old_ca, "--tls-cert", &certificate]).failed(2, &["--tls-key"]);

    new.issue(&workspace, "127.0.0.1", ["server.pem", "server.key"]);
    daemon.signal(Signal::HUP);
    let log = daemon.log();
    let read_again = log.lines().map(Result::unwrap).any(|line| line.contains("certificates were read again"));
    assert!(read_again, "the daemon ended");
    trusting(&old_ca).failed(1, &["invalid peer certificate"]);
    trusting(&new_ca).succeeded();
    daemon.kill();
}

/// A daemon that cannot prove itself does not start, and says which file is missing or wrong.
#[test]
fn daemons_without_certificates_do_not_start() {
    let workspace = Workspace::new();
    let serve = |config: &str| {
        let file = workspace.file("punctual.toml", config);
        workspace.run(&["serve", "--config", &file, "--listen", "tls://127.0.0.1:0"])
    };
    serve("").failed(2, &["needs a certificate"]);
    serve("[tls]\ncertificate = 'a.pem'\n").failed(2, &["[tls] needs both"]);
    serve("[tls]\ncertificate = 'a.pem'\nkey = 'a.key'\n").failed(2, &["cannot read a.pem"]);
    let [_, key] = Authority::new("a").issue(&workspace, "127.0.0.1", ["b.pem", "b.key"]);
    serve(&format!("[tls]\ncertificate = '{key}'\nkey = '{key}'\n")).failed(2, &["b.key", "no certificate in it"]);
    assert!(!workspace.path("punctual.db").exists(), "a daemon that cannot start created a database");
}
