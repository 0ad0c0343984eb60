//! A private PostgreSQL: a fresh cluster, scram passwords, the loopback address and a socket in its own folder.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::account::{self, Account};
use super::certificate::Certificate;
use super::keeper::Keeper;
use super::programs::PostgresPrograms;
use super::server::{self, Begin, Site};
use super::{CONNECTIONS_MAX, Durability, USER, password};

/// A cluster, and how its server is started.
pub(super) struct Postgres {
    programs: PostgresPrograms,
    folder: PathBuf,
    data: PathBuf,
    account: Option<Account>,
    durability: Durability,
    password: String,
}

impl Postgres {
    /// Makes a cluster below `folder`.
    ///
    /// # Errors
    /// What the programs said.
    pub(super) fn make(
        programs: PostgresPrograms,
        folder: &Path,
        account: Option<Account>,
        durability: Durability,
    ) -> Result<Self> {
        let data = folder.join("pg");
        let password = password()?;
        let word = folder.join("pg-password");
        fs::write(&word, &password).context("the password cannot be written")?;
        account::give(&word, account)?;
        let mut make = programs.initdb();
        make.arg("-D").arg(&data).args(["-A", "scram-sha-256", "-U", USER, "-E", "UTF8", "--locale=C", "-N"]);
        make.arg("--pwfile").arg(&word);
        server::prepare(make, account)?;
        fs::remove_file(&word).context("the password cannot be removed")?;
        Ok(Postgres { programs, folder: folder.to_owned(), data, account, durability, password })
    }
}

impl Site for Postgres {
    fn name(&self) -> &'static str {
        "PostgreSQL"
    }

    fn url(&self, port: u16) -> String {
        format!("postgres://{USER}:{}@127.0.0.1:{port}/postgres", self.password)
    }

    /// It ends the sessions that are open and writes down what it has; TERM would wait for their ends.
    fn stop_signal(&self) -> &'static str {
        "INT"
    }

    fn begin(&self, port: u16, keeper: &mut Keeper) -> Result<Begin> {
        let tls = Certificate::below(&self.folder);
        let mut command = self.programs.server();
        command.arg("-D").arg(&self.data);
        let mut set = |name: &str, value: &str| {
            command.args(["-c", &format!("{name}={value}")]);
        };
        set("listen_addresses", "127.0.0.1");
        set("port", &port.to_string());
        set("unix_socket_directories", &self.folder.to_string_lossy());
        set("max_connections", &CONNECTIONS_MAX.to_string());
        set("timezone", "GMT");
        set("log_timezone", "GMT");
        set("ssl", "on");
        set("ssl_cert_file", &tls.public.to_string_lossy());
        set("ssl_key_file", &tls.key.to_string_lossy());
        // Compiling a plan takes longer than any statement of ours runs.
        set("jit", "off");
        if self.durability == Durability::Unsynced {
            set("fsync", "off");
            set("full_page_writes", "off");
        }
        let pidfile = self.data.join("postmaster.pid");
        let log = self.folder.join("pg.log");
        // QUIT ends it at once, children included, and leaves no shared memory behind.
        server::begin(command, self.account, &log, keeper, "QUIT", |process| says_ready(&pidfile, process))
    }
}

/// The first line of the server's own file is its process, and the eighth says `ready` once it takes connections.
fn says_ready(pidfile: &Path, process: u32) -> bool {
    let text = fs::read_to_string(pidfile).unwrap_or_default();
    let mut lines = text.lines();
    lines.next().is_some_and(|first| first.trim() == process.to_string())
        && lines.nth(6).is_some_and(|status| status.trim() == "ready")
}
