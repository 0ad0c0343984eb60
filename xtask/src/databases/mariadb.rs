//! A private MariaDB: fresh tables, one user with a password, the loopback address and a socket in its own folder.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;

use anyhow::{Context, Result};

use super::account::{self, Account};
use super::certificate::Certificate;
use super::keeper::Keeper;
use super::programs::MariadbPrograms;
use super::server::{self, Begin};
use super::{CONNECTIONS_MAX, Durability, Started, USER, free_port, password};

/// Makes the system tables below `folder` and starts a server on them.
///
/// # Errors
/// What the programs said.
pub(super) fn start(
    programs: &MariadbPrograms,
    folder: &Path,
    account: Option<Account>,
    durability: Durability,
    keeper: &mut Keeper,
) -> Result<Started> {
    let data = folder.join("my");
    fs::create_dir(&data).context("the folder of MariaDB cannot be made")?;
    account::give(&data, account)?;
    let mut make = programs.install();
    make.arg(format!("--datadir={}", data.display()));
    // Forced, since it would refuse a machine whose name cannot be looked up, and no name matters here.
    make.args(["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve", "--force"]);
    server::prepare(make, account)?;
    let password = password()?;
    // Read by the server as it begins, so that no client program is needed.
    let first = folder.join("my-first.sql");
    let statements = [
        format!("CREATE USER IF NOT EXISTS '{USER}'@'%' IDENTIFIED BY '{password}';"),
        format!("GRANT ALL ON *.* TO '{USER}'@'%' WITH GRANT OPTION;"),
        "DELETE FROM mysql.global_priv WHERE User = 'root' OR User = '';".to_owned(),
        "FLUSH PRIVILEGES;".to_owned(),
    ];
    fs::write(&first, statements.join("\n")).context("the first statements cannot be written")?;
    account::give(&first, account)?;
    server::start("MariaDB", || try_start(programs, folder, account, durability, &password, keeper))
}

/// One try. The inner error is what the server said before it ended.
fn try_start(
    programs: &MariadbPrograms,
    folder: &Path,
    account: Option<Account>,
    durability: Durability,
    password: &str,
    keeper: &mut Keeper,
) -> Result<Result<Started, String>> {
    let port = free_port()?;
    let tls = Certificate::below(folder);
    let mut command = programs.server();
    let mut set = |name: &str, value: &str| {
        command.arg(format!("--{name}={value}"));
    };
    let below = |name: &str| folder.join(name).to_string_lossy().into_owned();
    set("datadir", &below("my"));
    set("socket", &below("my.sock"));
    set("pid-file", &below("my.pid"));
    set("init-file", &below("my-first.sql"));
    set("port", &port.to_string());
    set("bind-address", "127.0.0.1");
    set("skip-name-resolve", "ON");
    set("max-connections", &CONNECTIONS_MAX.to_string());
    set("ssl-cert", &tls.public.to_string_lossy());
    set("ssl-key", &tls.key.to_string_lossy());
    set("performance-schema", "OFF");
    if durability == Durability::Unsynced {
        set("innodb-flush-log-at-trx-commit", "0");
        set("innodb-flush-method", "nosync");
        set("innodb-doublewrite", "OFF");
    }
    let begun = server::begin(
        command,
        account,
        &folder.join("my.log"),
        // One process that leaves nothing behind.
        |process| keeper.keep(process, "KILL"),
        // It listens only once it has read the first statements.
        |_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok(),
    )?;
    Ok(match begun {
        Begin::Ready(child) => Ok(Started { child, url: format!("mysql://{USER}:{password}@127.0.0.1:{port}/") }),
        Begin::Ended(said) => Err(said),
    })
}
