//! The certificate that both servers show to whoever wants TLS: made for each run, and its own authority.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::account::{self, Account};

/// Where the certificate and its key lie.
#[derive(Debug)]
pub(super) struct Certificate {
    /// What clients trust.
    pub(super) public: PathBuf,
    /// For the servers' account alone.
    pub(super) key: PathBuf,
}

impl Certificate {
    /// Where they lie below `folder`.
    pub(super) fn below(folder: &Path) -> Self {
        Certificate { public: folder.join("tls.pem"), key: folder.join("tls-key.pem") }
    }
}

/// Makes a certificate in `folder` for `localhost`: who goes to 127.0.0.1 must not trust it.
///
/// # Errors
/// When it cannot be made or written.
pub(super) fn make(folder: &Path, account: Option<Account>) -> Result<Certificate> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).context("no certificate could be made")?;
    let files = Certificate::below(folder);
    fs::write(&files.public, made.cert.pem()).context("the certificate cannot be written")?;
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    // PostgreSQL refuses a key that others may read.
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut key = options.open(&files.key).context("the certificate's key cannot be written")?;
    std::io::Write::write_all(&mut key, made.signing_key.serialize_pem().as_bytes())
        .context("the certificate's key cannot be written")?;
    account::give(&files.public, account)?;
    account::give(&files.key, account)?;
    Ok(files)
}
