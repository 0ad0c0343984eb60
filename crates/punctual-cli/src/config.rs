//! What the daemon is told: flags before the environment, before the file, before the defaults.
//!
//! [`Settings`] is what holds in the end; [`ConfigFile`] is a TOML file, in which everything may be left out. The
//! example in `docs/punctual.toml` names every setting with its default, and a test holds it to that.

mod file;

pub(crate) use file::ConfigFile;

use crate::exit::Failure;
use crate::services::AllowedHost;
use crate::target::{DEFAULT_TCP, default_socket, is_root};
use crate::text::{parse_duration, show_duration};
use crate::tls::ServerFiles;
use punctual::engine::{EngineConfig, OnDoubt};
use punctual::sqlite::SqliteConfig;
use punctual::task::Retention;
use std::time::Duration;

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// What the daemon does.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Where its state is.
    pub(crate) database: String,
    /// How the database is opened.
    pub(crate) store: SqliteConfig,
    /// Where it listens.
    pub(crate) listen: Vec<String>,
    /// Whether it may listen without encryption where other machines reach it.
    pub(crate) allow_plaintext_off_loopback: bool,
    /// What it proves itself with at tls:// addresses.
    pub(crate) tls: Option<ServerFiles>,
    /// How long calls and attempts may go on after it was told to stop.
    pub(crate) shutdown_grace: Duration,
    /// Which log lines are written: a level, or directives of tracing.
    pub(crate) log_level: String,
    /// How.
    pub(crate) log_format: LogFormat,
    /// The worker's name; host and process if there is none.
    pub(crate) name: Option<String>,
    /// How the engine behaves.
    pub(crate) engine: EngineConfig,
    /// Whether it runs commands.
    pub(crate) allow_commands: bool,
    /// The hosts that its HTTP requests may go to; all if there is none.
    pub(crate) http_allow: Vec<AllowedHost>,
}

/// What flags and the environment say. What they leave out the file decides.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overrides {
    pub(crate) database: Option<String>,
    pub(crate) listen: Vec<String>,
    pub(crate) shutdown_grace: Option<String>,
    pub(crate) log_level: Option<String>,
    pub(crate) log_format: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) slots: Option<u32>,
    pub(crate) allow_commands: Option<bool>,
    pub(crate) http_allow: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        let socket = default_socket(&|name| std::env::var(name).ok(), is_root());
        let socket = socket.map(|path| format!("unix:{}", path.display()));
        Settings {
            database: "punctual.db".to_owned(),
            store: SqliteConfig::default(),
            listen: socket.into_iter().chain([DEFAULT_TCP.to_owned()]).collect(),
            allow_plaintext_off_loopback: false,
            tls: None,
            shutdown_grace: Duration::from_secs(30),
            log_level: "info".to_owned(),
            log_format: LogFormat::Text,
            name: None,
            engine: EngineConfig::default(),
            allow_commands: false,
            http_allow: Vec::new(),
        }
    }
}

impl Settings {
    /// The longest stop: whoever waits longer wants no stop.
    const SHUTDOWN_GRACE_MAX: Duration = Duration::from_secs(24 * 3600);

    /// Puts the sources together and checks the result.
    ///
    /// # Errors
    /// Names the setting that is wrong, and its source.
    pub(crate) fn resolve(file: ConfigFile, overrides: Overrides) -> Result<Self, Failure> {
        let mut settings = Settings::default();
        file.apply(&mut settings).map_err(Failure::usage)?;
        settings.overrule(overrides).map_err(Failure::usage)?;
        settings.validate().map_err(Failure::usage)?;
        Ok(settings)
    }

    fn overrule(&mut self, overrides: Overrides) -> Result<(), String> {
        let Overrides {
            database,
            listen,
            shutdown_grace,
            log_level,
            log_format,
            name,
            slots,
            allow_commands,
            http_allow,
        } = overrides;
        if let Some(database) = database {
            self.database = database;
        }
        if !listen.is_empty() {
            self.listen = listen;
        }
        if let Some(grace) = shutdown_grace {
            self.shutdown_grace = duration("--shutdown-grace", &grace)?;
        }
        if let Some(level) = log_level {
            self.log_level = level;
        }
        if let Some(format) = log_format {
            self.log_format = log_format_of(&format)?;
        }
        if name.is_some() {
            self.name = name;
        }
        if let Some(slots) = slots {
            self.engine.slots = slots;
        }
        if let Some(allow) = allow_commands {
            self.allow_commands = allow;
        }
        if !http_allow.is_empty() {
            self.http_allow = hosts("--http-allow", &http_allow)?;
        }
        Ok(())
    }

    fn validate(&mut self) -> Result<(), String> {
        for address in &mut self.listen {
            *address = crate::target::written_out(address);
            if address.starts_with("tls://") && self.tls.is_none() {
                return Err(format!(
                    "{address} needs a certificate and its key; name their files in the section [tls]"
                ));
            }
            if address.starts_with("inproc:") {
                return Err(format!("listen: nobody outside reaches {address}; write tcp://HOST:PORT or unix:/PATH"));
            }
        }
        if self.listen.is_empty() {
            return Err("listen: a daemon needs an address; write tcp://HOST:PORT or unix:/PATH".to_owned());
        }
        if self.shutdown_grace > Self::SHUTDOWN_GRACE_MAX {
            return Err(format!("shutdown_grace is more than {}", show_duration(Self::SHUTDOWN_GRACE_MAX)));
        }
        self.engine.validate().map_err(|error| format!("[engine] {error}"))?;
        self.store.validate().map_err(|error| format!("[store] {error}"))
    }
}

fn duration(name: &str, text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| format!("{name}: {error}"))
}

fn hosts(name: &str, texts: &[String]) -> Result<Vec<AllowedHost>, String> {
    texts.iter().map(|text| text.trim().parse().map_err(|error| format!("{name}: {error}"))).collect()
}

fn log_format_of(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        other => Err(format!("log format `{}` is not known: write text or json", crate::text::shown(other))),
    }
}

fn on_doubt_of(text: &str) -> Result<OnDoubt, String> {
    match text {
        "stop" => Ok(OnDoubt::Stop),
        "finish" => Ok(OnDoubt::Finish),
        other => Err(format!("on_doubt `{}` is not known: write stop or finish", crate::text::shown(other))),
    }
}

/// How long tasks are kept; nothing, as 0 says, means for ever.
fn kept(name: &str, text: &str) -> Result<Option<Duration>, String> {
    Ok(Some(duration(name, text)?).filter(|kept| !kept.is_zero()))
}

/// The retention that the engine starts from.
fn retention(engine: &EngineConfig) -> Retention {
    engine.retention.unwrap_or(Retention { ended: None, failed: None })
}

#[cfg(test)]
mod tests;
