//! Private database servers: started for the tests and the benches, reached over the loopback address only, and gone
//! afterwards, whatever way the run ends.
//!
//! A server that the caller names in the environment is used as it is, and none is started beside it. Where the programs
//! are found is for `programs`, how each is started for `postgres` and `mariadb`, and who ends them for `keeper`.

mod account;
mod certificate;
mod debian;
mod keeper;
mod mariadb;
mod postgres;
mod programs;
mod server;

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};

use anyhow::{Context, Result};

use crate::arguments::Arguments;
use keeper::Keeper;

/// The variable that names a PostgreSQL server to the tests, as `postgres://user:password@host:port/database`.
pub(crate) const POSTGRES: &str = "PUNCTUAL_TEST_POSTGRES";
/// The variable that names a MariaDB server to the tests, as `mysql://user:password@host:port/`.
pub(crate) const MARIADB: &str = "PUNCTUAL_TEST_MARIADB";

/// The variable that names the file of certificates which the tests trust when they ask that PostgreSQL for TLS.
const POSTGRES_CA: &str = "PUNCTUAL_TEST_POSTGRES_CA";
/// The same for that MariaDB.
const MARIADB_CA: &str = "PUNCTUAL_TEST_MARIADB_CA";

/// The user that the servers are made with; may create databases.
const USER: &str = "punctual";
/// How many connections each server takes: the tests of a process each have a few stores open, and the test runner starts
/// as many processes as there are cores.
const CONNECTIONS_MAX: u32 = 500;
/// How often a server is started again when another program took the port that the kernel had named.
const STARTS_MAX: u32 = 3;

/// Whether what the servers acknowledge is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// As by default: a commit is synced. For measurements.
    Synced,
    /// Nothing is synced, since the data is thrown away. For tests: these end processes, not machines.
    Unsynced,
}

/// The chore of its own: runs a command beside the servers and gives whether it went well; without one, shows the variables
/// and waits until it is ended.
///
/// # Errors
/// When the servers or the command do not start.
pub(crate) fn run(arguments: &Arguments) -> Result<bool> {
    let durability = if arguments.durable { Durability::Synced } else { Durability::Unsynced };
    let mut databases = Databases::start(durability)?;
    if let Some((program, rest)) = arguments.rest.split_first() {
        let mut command = Command::new(program);
        command.args(rest).envs(databases.variables().iter().cloned());
        return Ok(command.status().with_context(|| format!("{program} did not start"))?.success());
    }
    for (name, url) in databases.variables() {
        println!("export {name}='{url}'");
    }
    eprintln!("The servers run until this is ended (Ctrl-C); what is in them goes with them.");
    match databases.wait()? {
        None => eprintln!("note: {POSTGRES} and {MARIADB} are both set, so no server was started"),
        Some(status) => anyhow::bail!("a server ended by itself: {status}"),
    }
    Ok(true)
}

/// The servers of one run. Dropping them ends those that were started.
pub(crate) struct Databases {
    /// Variables for the processes that use the servers.
    variables: Vec<(&'static str, String)>,
    servers: Vec<Child>,
    keeper: Option<Keeper>,
}

/// One server that runs.
struct Started {
    child: Child,
    url: String,
}

impl Databases {
    /// Starts the servers that the environment does not name.
    ///
    /// # Errors
    /// One line that says what is missing and what to install or to set.
    pub(crate) fn start(durability: Durability) -> Result<Self> {
        let mut databases = Databases { variables: Vec::new(), servers: Vec::new(), keeper: None };
        let missing: Vec<&'static str> = [POSTGRES, MARIADB].into_iter().filter(|name| !is_set(name)).collect();
        if missing.is_empty() {
            return Ok(databases);
        }
        let account = account::for_servers()?;
        let programs = programs::find(&missing)?;
        let folder = fresh_folder()?;
        // The keeper comes first: from here on the folder and every server in it end with this process.
        let keeper = databases.keeper.insert(Keeper::start(&folder)?);
        account::give(&folder, account)?;
        let certificate = certificate::make(&folder, account)?;
        for name in missing {
            let (trusted, started) = match name {
                POSTGRES => (POSTGRES_CA, postgres::start(&programs.postgres()?, &folder, account, durability, keeper)),
                _ => (MARIADB_CA, mariadb::start(&programs.mariadb()?, &folder, account, durability, keeper)),
            };
            let Started { child, url } = started?;
            databases.servers.push(child);
            databases.variables.push((name, url));
            databases.variables.push((trusted, certificate.public.to_string_lossy().into_owned()));
        }
        Ok(databases)
    }

    /// What the processes that use the servers must find in their environment.
    pub(crate) fn variables(&self) -> &[(&'static str, String)] {
        &self.variables
    }

    /// Waits until a server ends by itself, which none should. `None` if none was started.
    ///
    /// # Errors
    /// When the operating system cannot say.
    pub(crate) fn wait(&mut self) -> Result<Option<ExitStatus>> {
        self.servers.first_mut().map(|server| server.wait().context("waiting for a server")).transpose()
    }
}

impl Drop for Databases {
    fn drop(&mut self) {
        // The keeper ends the servers when its input closes, and waits until they are gone; to be gone a child must also
        // have been waited for.
        let Some(keeper) = self.keeper.take() else { return };
        let ending = keeper.release();
        for server in &mut self.servers {
            let _ = server.wait();
        }
        ending.finish();
    }
}

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// A folder of this process, where short paths keep the servers' sockets within the limit of 107 bytes.
fn fresh_folder() -> Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("punctual-db-{}", std::process::id()));
    let mut maker = std::fs::DirBuilder::new();
    #[cfg(unix)]
    // Passwords lie in it.
    std::os::unix::fs::DirBuilderExt::mode(&mut maker, 0o700);
    maker.create(&folder).with_context(|| format!("the folder {} cannot be made", folder.display()))?;
    folder.canonicalize().with_context(|| format!("the folder {} is not there", folder.display()))
}

/// A port that was free a moment ago.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port can be had on the loopback address")?;
    Ok(listener.local_addr()?.port())
}

/// A password that nobody else on the machine can guess.
fn password() -> Result<String> {
    use std::io::Read;
    let mut bytes = [0_u8; 16];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .context("no randomness for the servers' password")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
