//! The configuration file.

use super::admission::AdmissionSection;
use super::calls::{CallsSection, CompressionSection};
use super::document::{self, Problem};
use super::http::HttpSection;
use super::limits::{LimitsSection, ServerSection};
use super::{LogFormat, Settings, kept, log_format_of, on_doubt_of, retention, set_duration};
use crate::exit::{Exit, Failure};
use crate::text::show_duration;
use crate::tls::ServerFiles;
use punctual::engine::OnDoubt;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The largest file that is read.
const BYTES_MAX: u64 = 1 << 20;

/// A configuration file. All of it may be left out; what it does not know it refuses, since a setting that is misspelt
/// would be a setting that is not made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConfigFile {
    pub(crate) database: Option<String>,
    pub(crate) listen: Option<Vec<String>>,
    pub(crate) allow_plaintext_off_loopback: Option<bool>,
    pub(crate) shutdown_grace: Option<String>,
    #[serde(default)]
    pub(crate) tls: TlsSection,
    #[serde(default)]
    pub(crate) calls: CallsSection,
    #[serde(default)]
    pub(crate) compression: CompressionSection,
    #[serde(default)]
    pub(crate) admission: AdmissionSection,
    #[serde(default)]
    pub(crate) limits: LimitsSection,
    #[serde(default)]
    pub(crate) server: ServerSection,
    #[serde(default)]
    pub(crate) log: LogSection,
    #[serde(default)]
    pub(crate) commands: CommandsSection,
    #[serde(default)]
    pub(crate) http: HttpSection,
    #[serde(default)]
    pub(crate) engine: EngineSection,
    #[serde(default)]
    pub(crate) store: StoreSection,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TlsSection {
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) client_ca: Option<PathBuf>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogSection {
    pub(crate) level: Option<String>,
    pub(crate) format: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommandsSection {
    pub(crate) allow: Option<bool>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EngineSection {
    pub(crate) name: Option<String>,
    pub(crate) slots: Option<u32>,
    pub(crate) prefetch_max: Option<u32>,
    pub(crate) queues: Option<Vec<String>>,
    pub(crate) poll: Option<String>,
    pub(crate) poll_busy: Option<String>,
    pub(crate) lease: Option<String>,
    pub(crate) renewal: Option<String>,
    pub(crate) stop_after: Option<String>,
    pub(crate) rescue: Option<String>,
    pub(crate) on_doubt: Option<String>,
    pub(crate) cancel_grace: Option<String>,
    pub(crate) stop_grace: Option<String>,
    pub(crate) abandon_after: Option<String>,
    pub(crate) keep_ended: Option<String>,
    pub(crate) keep_failed: Option<String>,
    pub(crate) prune_every: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoreSection {
    pub(crate) migrate: Option<bool>,
    pub(crate) wait: Option<String>,
    pub(crate) readers: Option<usize>,
}

impl TlsSection {
    fn apply(self, settings: &mut Settings) -> Result<(), String> {
        // A source that says nothing of it leaves what another one said.
        if self == TlsSection::default() {
            return Ok(());
        }
        // An empty path is none, as the file with every setting has it.
        let named = |path: Option<PathBuf>| path.filter(|path| !path.as_os_str().is_empty());
        settings.tls = match (named(self.certificate), named(self.key), named(self.client_ca)) {
            (Some(certificate), Some(key), client_ca) => Some(ServerFiles { certificate, key, client_ca }),
            (None, None, None) => None,
            _ => return Err("[tls] needs both certificate and key".to_owned()),
        };
        Ok(())
    }

    fn of(settings: &Settings) -> Self {
        let none = PathBuf::new;
        let files = settings.tls.clone();
        let files = files.unwrap_or_else(|| ServerFiles { certificate: none(), key: none(), client_ca: None });
        TlsSection {
            certificate: Some(files.certificate),
            key: Some(files.key),
            client_ca: Some(files.client_ca.unwrap_or_default()),
        }
    }
}

/// The text of a configuration file.
///
/// # Errors
/// Where it cannot be read, or is larger than any configuration.
pub(crate) fn read_text(path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    let cannot = |error: &dyn std::fmt::Display| {
        Failure::usage(format!("cannot read the configuration {shown}: {error}; check the path and its permissions"))
    };
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Failure::new(
            Exit::Usage,
            "usage",
            format!("there is no configuration file {shown}; check the path, which may come from --config or PUNCTUAL_CONFIG"),
        ),
        _ => cannot(&error),
    })?;
    if metadata.len() > BYTES_MAX {
        return Err(Failure::usage(format!("{shown} has {} bytes; the limit is {BYTES_MAX}", metadata.len())));
    }
    std::fs::read_to_string(path).map_err(|error| cannot(&error))
}

impl ConfigFile {
    /// Reads a file.
    ///
    /// # Errors
    /// Where it cannot be read, is no TOML, or has a setting that is not known: with the line.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let text = read_text(path)?;
        Self::parse(&text).map_err(|problem| Failure::usage(format!("{}: {problem}", path.display())))
    }

    pub(super) fn parse(text: &str) -> Result<Self, Problem> {
        document::parse(text)
    }

    /// Sets what the file says.
    pub(super) fn apply(self, settings: &mut Settings) -> Result<(), String> {
        let ConfigFile {
            database,
            listen,
            allow_plaintext_off_loopback,
            shutdown_grace,
            tls,
            calls,
            compression,
            admission,
            limits,
            server,
            log,
            commands,
            http,
            engine,
            store,
        } = self;
        set(&mut settings.database, database);
        set(&mut settings.listen, listen);
        set(&mut settings.allow_plaintext_off_loopback, allow_plaintext_off_loopback);
        set_duration("shutdown_grace", &mut settings.shutdown_grace, shutdown_grace)?;
        tls.apply(settings)?;
        calls.apply(settings)?;
        compression.apply(settings)?;
        admission.apply(settings)?;
        limits.apply(settings)?;
        server.apply(settings)?;
        set(&mut settings.log_level, log.level);
        if let Some(format) = log.format {
            settings.log_format = log_format_of(&format)?;
        }
        set(&mut settings.allow_commands, commands.allow);
        http.apply(settings)?;
        store.apply(settings)?;
        engine.apply(settings)
    }

    /// A file that says all that holds.
    pub(crate) fn of(settings: &Settings) -> Self {
        let text = |duration: Duration| Some(show_duration(duration));
        let engine = &settings.engine;
        let retention = retention(engine);
        let kept = |kept: Option<Duration>| Some(kept.map_or_else(|| "0".to_owned(), show_duration));
        ConfigFile {
            database: Some(crate::text::without_password(&settings.database)),
            listen: Some(settings.listen.clone()),
            allow_plaintext_off_loopback: Some(settings.allow_plaintext_off_loopback),
            shutdown_grace: text(settings.shutdown_grace),
            tls: TlsSection::of(settings),
            calls: CallsSection::of(settings),
            compression: CompressionSection::of(&settings.compression),
            admission: AdmissionSection::of(&settings.admission),
            limits: LimitsSection::of(&settings.server.limits),
            server: ServerSection::of(settings),
            log: LogSection {
                level: Some(settings.log_level.clone()),
                format: Some(
                    match settings.log_format {
                        LogFormat::Text => "text",
                        LogFormat::Json => "json",
                    }
                    .to_owned(),
                ),
            },
            commands: CommandsSection { allow: Some(settings.allow_commands) },
            http: HttpSection::of(settings),
            engine: EngineSection {
                name: Some(settings.name.clone().unwrap_or_default()),
                slots: Some(engine.slots),
                prefetch_max: Some(engine.prefetch_max),
                queues: Some(engine.queues.clone()),
                poll: text(engine.poll),
                poll_busy: text(engine.poll_busy),
                lease: text(engine.lease),
                renewal: text(engine.renewal),
                stop_after: text(engine.stop_after),
                rescue: text(engine.rescue),
                on_doubt: Some(
                    match engine.on_doubt {
                        OnDoubt::Stop => "stop",
                        OnDoubt::Finish => "finish",
                    }
                    .to_owned(),
                ),
                cancel_grace: text(engine.cancel_grace),
                stop_grace: text(engine.stop_grace),
                abandon_after: text(engine.abandon_after),
                keep_ended: kept(retention.ended),
                keep_failed: kept(retention.failed),
                prune_every: text(engine.prune_every),
            },
            store: StoreSection {
                migrate: Some(settings.store.migrate),
                wait: text(settings.store.wait),
                readers: Some(settings.store.readers),
            },
        }
    }
}

impl EngineSection {
    fn apply(self, settings: &mut Settings) -> Result<(), String> {
        let engine = &mut settings.engine;
        if let Some(name) = self.name {
            settings.name = Some(name).filter(|name| !name.is_empty());
        }
        set(&mut engine.slots, self.slots);
        set(&mut engine.prefetch_max, self.prefetch_max);
        set(&mut engine.queues, self.queues);
        for (name, place, text) in [
            ("poll", &mut engine.poll, self.poll),
            ("poll_busy", &mut engine.poll_busy, self.poll_busy),
            ("lease", &mut engine.lease, self.lease),
            ("renewal", &mut engine.renewal, self.renewal),
            ("stop_after", &mut engine.stop_after, self.stop_after),
            ("rescue", &mut engine.rescue, self.rescue),
            ("cancel_grace", &mut engine.cancel_grace, self.cancel_grace),
            ("stop_grace", &mut engine.stop_grace, self.stop_grace),
            ("abandon_after", &mut engine.abandon_after, self.abandon_after),
            ("prune_every", &mut engine.prune_every, self.prune_every),
        ] {
            set_duration(&format!("[engine] {name}"), place, text)?;
        }
        if let Some(text) = self.on_doubt {
            engine.on_doubt = on_doubt_of(&text)?;
        }
        let mut retention = retention(engine);
        if let Some(text) = self.keep_ended {
            retention.ended = kept("[engine] keep_ended", &text)?;
        }
        if let Some(text) = self.keep_failed {
            retention.failed = kept("[engine] keep_failed", &text)?;
        }
        engine.retention = Some(retention);
        Ok(())
    }
}

impl StoreSection {
    fn apply(self, settings: &mut Settings) -> Result<(), String> {
        set(&mut settings.store.migrate, self.migrate);
        set(&mut settings.store.readers, self.readers);
        set_duration("[store] wait", &mut settings.store.wait, self.wait)
    }
}

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}
