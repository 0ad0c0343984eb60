//! A private PostgreSQL: a fresh cluster, scram passwords, the loopback address and a socket in its own folder.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::account::{self, Account};
use super::certificate::Certificate;
use super::keeper::Keeper;
use super::programs::PostgresPrograms;
use super::server::{self, Begin};
use super::{CONNECTIONS_MAX, Durability, Started, USER, free_port, password};

/// Makes a cluster below `folder` and starts a server on it.
///
/// # Errors
/// What the programs said.
pub(super) fn start(
    programs: &PostgresPrograms,
    folder: &Path,
    account: Option<Account>,
    durability: Durability,
    keeper: &mut Keeper,
) -> Result<Started> {
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
    server::start("PostgreSQL", || try_start(programs, folder, &data, account, durability, &password, keeper))
}

/// One try. The inner error is what the server said before it ended.
fn try_start(
    programs: &PostgresPrograms,
    folder: &Path,
    data: &Path,
    account: Option<Account>,
    durability: Durability,
    password: &str,
    keeper: &mut Keeper,
) -> Result<Result<Started, String>> {
    let port = free_port()?;
    let tls = Certificate::below(folder);
    let mut command = programs.server();
    command.arg("-D").arg(data);
    let mut set = |name: &str, value: &str| {
        command.args(["-c", &format!("{name}={value}")]);
    };
    set("listen_addresses", "127.0.0.1");
    set("port", &port.to_string());
    set("unix_socket_directories", &folder.to_string_lossy());
    set("max_connections", &CONNECTIONS_MAX.to_string());
    set("timezone", "GMT");
    set("log_timezone", "GMT");
    set("ssl", "on");
    set("ssl_cert_file", &tls.public.to_string_lossy());
    set("ssl_key_file", &tls.key.to_string_lossy());
    // Compiling a plan takes longer than any statement of ours runs.
    set("jit", "off");
    if durability == Durability::Unsynced {
        set("fsync", "off");
        set("full_page_writes", "off");
    }
    // QUIT ends it at once, children included, and leaves no shared memory behind.
    let pidfile = data.join("postmaster.pid");
    let begun = server::begin(
        command,
        account,
        &folder.join("pg.log"),
        |process| keeper.keep(process, "QUIT"),
        |process| says_ready(&pidfile, process),
    )?;
    Ok(match begun {
        Begin::Ready(child) => {
            Ok(Started { child, url: format!("postgres://{USER}:{password}@127.0.0.1:{port}/postgres") })
        }
        Begin::Ended(said) => Err(said),
    })
}

/// The first line of the server's own file is its process, and the eighth says `ready` once it takes connections.
fn says_ready(pidfile: &Path, process: u32) -> bool {
    let text = fs::read_to_string(pidfile).unwrap_or_default();
    let mut lines = text.lines();
    lines.next().is_some_and(|first| first.trim() == process.to_string())
        && lines.nth(6).is_some_and(|status| status.trim() == "ready")
}
