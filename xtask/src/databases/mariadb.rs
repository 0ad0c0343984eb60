//! A private MariaDB: fresh tables, one user with a password, the loopback address and a socket in its own folder.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::account::{self, Account};
use super::certificate::Certificate;
use super::keeper::Keeper;
use super::programs::MariadbPrograms;
use super::server::{self, Begin, Site};
use super::{CONNECTIONS_MAX, Durability, USER, password};

/// System tables, and how their server is started.
pub(super) struct Mariadb {
    programs: MariadbPrograms,
    folder: PathBuf,
    account: Option<Account>,
    durability: Durability,
    password: String,
}

/// Its temporary files, in a folder of its own.
const TEMPORARY: &str = "my-tmp";

impl Mariadb {
    /// Makes the system tables below `folder`.
    ///
    /// # Errors
    /// What the programs said.
    pub(super) fn make(
        programs: MariadbPrograms,
        folder: &Path,
        account: Option<Account>,
        durability: Durability,
    ) -> Result<Self> {
        let data = folder.join("my");
        fs::create_dir(&data).context("the folder of MariaDB cannot be made")?;
        account::give(&data, account)?;
        // Who starts deletes what others left there of temporary tables, or have there now.
        let temporary = folder.join(TEMPORARY);
        fs::create_dir(&temporary).context("the folder of MariaDB's temporary files cannot be made")?;
        account::give(&temporary, account)?;
        let mut make = programs.install();
        make.env("TMPDIR", &temporary);
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
        Ok(Mariadb { programs, folder: folder.to_owned(), account, durability, password })
    }
}

impl Site for Mariadb {
    fn name(&self) -> &'static str {
        "MariaDB"
    }

    fn url(&self, port: u16) -> String {
        format!("mysql://{USER}:{}@127.0.0.1:{port}/", self.password)
    }

    fn stop_signal(&self) -> &'static str {
        "TERM"
    }

    fn begin(&self, port: u16, keeper: &mut Keeper) -> Result<Begin> {
        let tls = Certificate::below(&self.folder);
        let mut command = self.programs.server();
        let mut set = |name: &str, value: &str| {
            command.arg(format!("--{name}={value}"));
        };
        let below = |name: &str| self.folder.join(name).to_string_lossy().into_owned();
        set("datadir", &below("my"));
        set("tmpdir", &below(TEMPORARY));
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
        if self.durability == Durability::Unsynced {
            set("innodb-flush-log-at-trx-commit", "0");
            set("innodb-flush-method", "nosync");
            set("innodb-doublewrite", "OFF");
        }
        let log = self.folder.join("my.log");
        // It listens only once it has read the first statements.
        let ready = |_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
        // One process that leaves nothing behind.
        server::begin(command, self.account, &log, keeper, "KILL", ready)
    }
}
