//! Whom a command speaks to: a running daemon, or the admin service that this process hosts on a database file.

mod database;

pub(crate) use database::{is_mysql, is_postgres, must_be_there, open_unchanged, shown};

use database::DatabaseHost;

use crate::exit::{Exit, Failure};
use crate::tls::TlsFlags;
use clap::Args;
use punctual::rpc::ChannelConfig;
use punctual::{CallError, Channel, Code, Status};
use punctual_admin::AdminClient;
use std::path::{Path, PathBuf};

/// Where a daemon listens, besides its Unix socket, unless it is told otherwise.
pub(crate) const DEFAULT_TCP: &str = "tcp://127.0.0.1:7400";

/// Which daemon or database.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TargetFlags {
    /// The daemon: tcp://HOST:PORT, tls://HOST:PORT, unix:/PATH, shm:/PATH, HOST:PORT or /PATH.
    ///
    /// Without it: $PUNCTUAL_ADDR, else $XDG_RUNTIME_DIR/punctual.sock (root: /run/punctual.sock), else
    /// tcp://127.0.0.1:7400.
    #[arg(long, global = true, value_name = "ADDR", conflicts_with = "db")]
    pub(crate) addr: Option<String>,
    /// A database instead of a daemon: a path, sqlite://PATH, postgres://USER@HOST/DATABASE or mysql://USER@HOST/DATABASE. A daemon may run on it at the
    /// same time.
    ///
    /// $PUNCTUAL_DB says the same.
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) db: Option<String>,
    #[command(flatten)]
    pub(crate) tls: TlsFlags,
}

/// The daemon or database that was meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// A daemon at this address.
    Daemon(String),
    /// A database here.
    Database(String),
}

/// The admin service, wherever it runs.
struct Reached {
    admin: AdminClient,
    target: Target,
    host: Option<DatabaseHost>,
}

impl TargetFlags {
    /// What was meant, flags before the environment before the default.
    ///
    /// # Errors
    /// Where the environment names both a daemon and a database.
    pub(crate) fn resolve(self) -> Result<Target, Failure> {
        self.resolve_with(&|name| std::env::var(name).ok(), is_root())
    }

    fn resolve_with(self, environment: &dyn Fn(&str) -> Option<String>, root: bool) -> Result<Target, Failure> {
        if let Some(address) = self.addr {
            return Ok(Target::Daemon(written_out(&address)));
        }
        if let Some(database) = self.db {
            return Ok(Target::Database(database));
        }
        let named = |name: &str| environment(name).filter(|value| !value.is_empty());
        match (named("PUNCTUAL_ADDR"), named("PUNCTUAL_DB")) {
            (Some(_), Some(_)) => Err(Failure::usage(
                "PUNCTUAL_ADDR and PUNCTUAL_DB are both set, and a command speaks to one of them; unset one, or use --addr or --db",
            )),
            (Some(address), None) => Ok(Target::Daemon(written_out(&address))),
            (None, Some(database)) => Ok(Target::Database(database)),
            (None, None) => Ok(Target::Daemon(match default_socket(environment, root) {
                Some(path) => format!("unix:{}", path.display()),
                None => DEFAULT_TCP.to_owned(),
            })),
        }
    }

    /// Asks the admin service.
    ///
    /// # Errors
    /// Where nobody answers, the database cannot be opened, or the answer is a status.
    pub(crate) async fn ask<T>(
        self,
        question: impl AsyncFnOnce(&AdminClient) -> Result<T, CallError<Status>>,
    ) -> Result<T, Failure> {
        let reached = self.reach().await?;
        let answer = question(&reached.admin).await.map_err(|error| reached.failure(error));
        reached.close().await;
        answer
    }

    async fn reach(self) -> Result<Reached, Failure> {
        let tls = self.tls.clone();
        match self.resolve()? {
            Target::Daemon(address) => {
                let channel = connect(&address, &tls).await.map_err(|failure| {
                    if failure.exit() != Exit::Unavailable {
                        return failure;
                    }
                    failure.map_message(|message| {
                        let joint = if message.ends_with('?') { " " } else { "; " };
                        format!("{message}{joint}start one with `punctual serve`, or name another by --addr or a database by --db")
                    })
                })?;
                Ok(Reached { admin: AdminClient::new(channel), target: Target::Daemon(address), host: None })
            }
            Target::Database(location) => {
                let host = DatabaseHost::start(&location).await?;
                let channel = connect(host.address(), &tls).await?;
                Ok(Reached { admin: AdminClient::new(channel), target: Target::Database(location), host: Some(host) })
            }
        }
    }
}

impl Reached {
    /// A failed call as this command's failure.
    fn failure(&self, error: CallError<Status>) -> Failure {
        let status = match error {
            CallError::App(status) | CallError::Status(status) => status,
        };
        let failure = Failure::from(status);
        match &self.target {
            Target::Daemon(address) if failure.exit() == Exit::Incompatible => failure.map_message(|message| {
                format!(
                    "{address}: {message}; what answers there is no `punctual serve` that this build ({}) can speak to: \
                     use the daemon's own build",
                    env!("CARGO_PKG_VERSION")
                )
            }),
            _ => failure,
        }
    }

    /// Ends the connection, and the service if this process hosts it.
    async fn close(self) {
        self.admin.channel().clone().close().await;
        if let Some(host) = self.host {
            host.stop().await;
        }
    }
}

/// Connects to any Punctual server.
///
/// # Errors
/// Where the address means nothing, nobody answers, or what answers speaks something else.
pub(crate) async fn connect(address: &str, tls: &TlsFlags) -> Result<Channel, Failure> {
    let address = written_out(address);
    let mut config = ChannelConfig::default();
    // Other addresses need no files, even if the environment names some for all commands.
    if address.starts_with("tls://") {
        config.tls = tls.client()?;
        if config.tls.is_none() {
            return Err(Failure::usage(format!(
                "cannot connect to {address}: nobody is trusted for it yet; name the authority's certificate by --tls-ca"
            )));
        }
    }
    Channel::builder(&address).config(config).connect().await.map_err(|status| {
        // Before there is a connection, no state can be in the way but that of the two sides' builds.
        let other_version = status.code() == Code::FailedPrecondition;
        let failure = Failure::from(status);
        if other_version { failure.with_exit(Exit::Incompatible) } else { failure }
    })
}

/// An address in full: `HOST:PORT` is TCP and a path is a Unix socket.
pub(crate) fn written_out(address: &str) -> String {
    let address = address.trim();
    if address.starts_with(['/', '.']) {
        return format!("unix:{address}");
    }
    let scheme = ["tcp:", "unix:", "shm:", "inproc:"].iter().any(|scheme| address.starts_with(scheme))
        || address.contains("://");
    let port = address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if !scheme && port { format!("tcp://{address}") } else { address.to_owned() }
}

/// Where the Unix socket of this user's daemon is by default; none where the user has no place for one.
pub(crate) fn default_socket(environment: &dyn Fn(&str) -> Option<String>, root: bool) -> Option<PathBuf> {
    let runtime = environment("XDG_RUNTIME_DIR").filter(|folder| Path::new(folder).is_absolute());
    let folder = runtime.map(PathBuf::from).or_else(|| root.then(|| PathBuf::from("/run")))?;
    Some(folder.join("punctual.sock"))
}

/// Whether this process is root's.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(flags: TargetFlags, environment: &[(&str, &str)]) -> Result<Target, Failure> {
        let environment =
            |name: &str| environment.iter().find(|(known, _)| *known == name).map(|(_, v)| (*v).to_owned());
        flags.resolve_with(&environment, false)
    }

    fn daemon(address: &str) -> Result<Target, Failure> {
        Ok(Target::Daemon(address.to_owned()))
    }

    /// Flags win over the environment, and the environment over the default.
    #[test]
    fn flags_come_before_the_environment() {
        let none = TargetFlags::default;
        let addr = || TargetFlags { addr: Some("h:1".to_owned()), ..none() };
        let db = || TargetFlags { db: Some("a.db".to_owned()), ..none() };
        let both = [("PUNCTUAL_ADDR", "tcp://x:1"), ("PUNCTUAL_DB", "b.db")];
        assert_eq!(resolve(addr(), &both), daemon("tcp://h:1"));
        assert_eq!(resolve(db(), &both), Ok(Target::Database("a.db".to_owned())));
        assert_eq!(resolve(none(), &both).unwrap_err().exit(), Exit::Usage);
        assert_eq!(resolve(none(), &both[..1]), daemon("tcp://x:1"));
        assert_eq!(resolve(none(), &both[1..]), Ok(Target::Database("b.db".to_owned())));
        assert_eq!(resolve(none(), &[("PUNCTUAL_DB", "")]), daemon(DEFAULT_TCP));
        assert_eq!(resolve(none(), &[("XDG_RUNTIME_DIR", "/run/user/7")]), daemon("unix:/run/user/7/punctual.sock"));
        assert_eq!(resolve(none(), &[("XDG_RUNTIME_DIR", "here")]), daemon(DEFAULT_TCP));
        assert_eq!(default_socket(&|_| None, true), Some(PathBuf::from("/run/punctual.sock")));
    }

    /// Short forms mean what they look like; everything else is left for the transport to judge.
    #[test]
    fn short_addresses_are_written_out() {
        for (short, full) in [
            ("127.0.0.1:7400", "tcp://127.0.0.1:7400"),
            ("[::1]:80", "tcp://[::1]:80"),
            ("/run/a.sock", "unix:/run/a.sock"),
            ("./a.sock", "unix:./a.sock"),
            ("unix:/run/a:1", "unix:/run/a:1"),
            ("tcp://h:1", "tcp://h:1"),
            ("unix:@name:1", "unix:@name:1"),
            ("shm:/run/a:1", "shm:/run/a:1"),
            ("http://h:1", "http://h:1"),
            ("localhost", "localhost"),
            ("h:99999", "h:99999"),
        ] {
            assert_eq!(written_out(short), full);
        }
    }
}
