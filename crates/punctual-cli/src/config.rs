//! What the daemon is told: flags before the environment, before the file, before the defaults.
//!
//! [`Settings`] is what holds in the end; [`ConfigFile`] is a TOML file, in which everything may be left out. The
//! example in `docs/punctual.toml` names every setting with its default, and a test holds it to that.

mod admission;
mod calls;
mod document;
mod file;
mod flags;
mod http;
mod limits;
mod source;

pub(crate) use admission::AdmissionSettings;
pub(crate) use calls::CompressionSettings;
pub(crate) use document::{Problem, key_of, problems, settings_of};
pub(crate) use file::{ConfigFile, read_text};
pub(crate) use flags::SettingFlags;
pub(crate) use http::HttpSettings;
pub(crate) use source::{Given, Source};

use calls::CallsSection;
use http::HttpSection;
use limits::ServerSection;

use crate::exit::Failure;
use crate::services::AllowedHost;
use crate::target::{DEFAULT_TCP, default_socket, is_root};
use crate::text::{parse_duration, show_duration};
use crate::tls::ServerFiles;
use punctual::engine::{EngineConfig, OnDoubt};
use punctual::rpc::ServerConfig;
use punctual::sqlite::SqliteConfig;
use punctual::task::Retention;
use std::ops::RangeInclusive;
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
    /// How the server does, but for what stands elsewhere here.
    pub(crate) server: ServerConfig,
    /// How it compresses.
    pub(crate) compression: CompressionSettings,
    /// What it lets in.
    pub(crate) admission: AdmissionSettings,
    /// Whether it runs commands.
    pub(crate) allow_commands: bool,
    /// The hosts that its HTTP requests may go to; all if there is none.
    pub(crate) http_allow: Vec<AllowedHost>,
    /// Where it serves HTTP itself, and to whom.
    pub(crate) http: HttpSettings,
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
            server: ServerConfig::default(),
            compression: CompressionSettings::default(),
            admission: AdmissionSettings::default(),
            allow_commands: false,
            http_allow: Vec::new(),
            http: HttpSettings::default(),
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
    pub(crate) fn resolve(file: ConfigFile, given: Vec<Given>) -> Result<Self, Failure> {
        let mut settings = Settings::default();
        file.apply(&mut settings).map_err(Failure::usage)?;
        for given in given {
            given.apply(&mut settings).map_err(Failure::usage)?;
        }
        settings.validate().map_err(Failure::usage)?;
        Ok(settings)
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
            let (grace, max) = (show_duration(self.shutdown_grace), show_duration(Self::SHUTDOWN_GRACE_MAX));
            return Err(format!("shutdown_grace is {grace}; set it between 0s and {max}"));
        }
        self.server.limits.validate().map_err(|error| format!("[limits] {error}"))?;
        ServerSection::validate(self)?;
        CallsSection::validate(self)?;
        HttpSection::validate(self)?;
        self.admission.validate()?;
        self.engine.validate().map_err(|error| format!("[engine] {error}"))?;
        self.store.validate().map_err(|error| format!("[store] {error}"))
    }
}

fn duration(name: &str, text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| format!("{name}: {error}"))
}

/// A time of which 0 says that there is none.
fn bound(name: &str, text: &str) -> Result<Option<Duration>, String> {
    Ok(Some(duration(name, text)?).filter(|bound| !bound.is_zero()))
}

fn show_bound(bound: Option<Duration>) -> String {
    bound.map_or_else(|| "0".to_owned(), show_duration)
}

fn set_duration(name: &str, place: &mut Duration, text: Option<String>) -> Result<(), String> {
    if let Some(text) = text {
        *place = duration(name, &text)?;
    }
    Ok(())
}

/// Sets a number that is in its range.
fn count(name: &str, place: &mut u32, value: Option<i64>, range: RangeInclusive<i64>) -> Result<(), String> {
    let Some(value) = value else { return Ok(()) };
    let set = u32::try_from(value).ok().filter(|_| range.contains(&value));
    *place = set.ok_or_else(|| format!("{name} is {value}; set it between {} and {}", range.start(), range.end()))?;
    Ok(())
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
