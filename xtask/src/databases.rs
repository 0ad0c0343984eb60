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
mod steering;

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result};

use crate::arguments::Arguments;
use keeper::Keeper;
use mariadb::Mariadb;
use postgres::Postgres;
use server::{Server, Site};

/// The variable that names a PostgreSQL server to the tests, as `postgres://user:password@host:port/database`.
pub(crate) const POSTGRES: &str = "PUNCTUAL_TEST_POSTGRES";
/// The variable that names a MariaDB server to the tests, as `mysql://user:password@host:port/`.
pub(crate) const MARIADB: &str = "PUNCTUAL_TEST_MARIADB";

/// The variable that names the file of certificates which the tests trust when they ask that PostgreSQL for TLS.
const POSTGRES_CA: &str = "PUNCTUAL_TEST_POSTGRES_CA";
/// The same for that MariaDB.
const MARIADB_CA: &str = "PUNCTUAL_TEST_MARIADB_CA";

/// The variable that names the program which tests run for a PostgreSQL of their own, one that they may kill and start again:
/// `PROGRAM databases --only postgres --durable --steered`. It is set where the programs of the server were found.
const POSTGRES_STARTER: &str = "PUNCTUAL_TEST_POSTGRES_STARTER";
/// The same for MariaDB.
const MARIADB_STARTER: &str = "PUNCTUAL_TEST_MARIADB_STARTER";

/// The servers by the names that the command line takes.
pub(crate) const SERVERS: [(&str, &str); 2] = [("postgres", POSTGRES), ("mariadb", MARIADB)];

/// The user that the servers are made with; may create databases.
const USER: &str = "punctual";
/// How many connections each server takes: the tests of a process each have a few stores open, and the test runner starts
/// as many processes as there are cores.
const CONNECTIONS_MAX: u32 = 500;

/// Whether what the servers acknowledge is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// As by default: a commit is synced. For measurements.
    Synced,
    /// Nothing is synced, since the data is thrown away. For tests: these end processes, not machines.
    Unsynced,
}

/// The chore of its own: runs a command beside the servers and gives whether it went well; without one, shows the variables
/// and waits until it is ended, or does what its input says.
///
/// # Errors
/// When the servers or the command do not start.
pub(crate) fn run(arguments: &Arguments) -> Result<bool> {
    let durability = if arguments.durable { Durability::Synced } else { Durability::Unsynced };
    let wanted = SERVERS.iter().filter(|(name, _)| arguments.wants(name)).map(|(_, variable)| *variable);
    let mut databases = Databases::start_some(wanted.collect(), durability)?;
    if let Some((program, rest)) = arguments.rest.split_first() {
        let mut command = Command::new(program);
        command.args(rest).envs(databases.variables().iter().cloned());
        return Ok(command.status().with_context(|| format!("{program} did not start"))?.success());
    }
    for (name, url) in databases.variables() {
        println!("export {name}='{url}'");
    }
    if arguments.steered {
        return steering::run(&mut databases).map(|()| true);
    }
    eprintln!("The servers run until this is ended (Ctrl-C); what is in them goes with them.");
    match databases.wait()? {
        None => eprintln!("note: the environment names the servers already, so none was started"),
        Some(status) => anyhow::bail!("a server ended by itself: {status}"),
    }
    Ok(true)
}

/// The servers of one run. Dropping them ends those that were started.
pub(crate) struct Databases {
    /// Variables for the processes that use the servers.
    variables: Vec<(&'static str, String)>,
    servers: Vec<Server>,
    keeper: Option<Keeper>,
}

impl Databases {
    /// Starts the servers that the environment does not name.
    ///
    /// # Errors
    /// One line that says what is missing and what to install or to set.
    pub(crate) fn start(durability: Durability) -> Result<Self> {
        Self::start_some(vec![POSTGRES, MARIADB], durability)
    }

    /// Starts those of the servers, by their variables, that the environment does not name.
    fn start_some(wanted: Vec<&'static str>, durability: Durability) -> Result<Self> {
        let mut databases = Databases { variables: Vec::new(), servers: Vec::new(), keeper: None };
        let missing: Vec<&'static str> = wanted.into_iter().filter(|name| !is_set(name)).collect();
        if missing.is_empty() {
            return Ok(databases);
        }
        let account = account::for_servers()?;
        let programs = programs::find(&missing)?;
        let starter = this_program()?;
        let folder = fresh_folder()?;
        // The keeper comes first: from here on the folder and every server in it end with this process.
        let keeper = databases.keeper.insert(Keeper::start(&folder)?);
        account::give(&folder, account)?;
        let certificate = certificate::make(&folder, account)?;
        for name in missing {
            let (trusted, steered, site): (_, _, Box<dyn Site>) = match name {
                POSTGRES => {
                    let site = Postgres::make(programs.postgres()?, &folder, account, durability)?;
                    (POSTGRES_CA, POSTGRES_STARTER, Box::new(site))
                }
                _ => {
                    let site = Mariadb::make(programs.mariadb()?, &folder, account, durability)?;
                    (MARIADB_CA, MARIADB_STARTER, Box::new(site))
                }
            };
            let server = Server::start(site, keeper)?;
            databases.variables.push((name, server.url()));
            databases.variables.push((trusted, certificate.public.to_string_lossy().into_owned()));
            databases.variables.push((steered, starter.clone()));
            databases.servers.push(server);
        }
        Ok(databases)
    }

    /// Does something to each server that was started.
    ///
    /// # Errors
    /// What it gives, at the first server where it does.
    fn each(&mut self, mut act: impl FnMut(&mut Server, &mut Keeper) -> Result<()>) -> Result<()> {
        let Some(keeper) = &mut self.keeper else { return Ok(()) };
        self.servers.iter_mut().try_for_each(|server| act(server, keeper))
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
        self.servers.first_mut().map_or(Ok(None), Server::wait)
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

/// Where this program is, also after it was built again meanwhile.
fn this_program() -> Result<String> {
    let path = std::env::current_exe().context("this program does not know where it is")?;
    let path = path.to_string_lossy();
    Ok(path.strip_suffix(" (deleted)").unwrap_or(&path).to_owned())
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
