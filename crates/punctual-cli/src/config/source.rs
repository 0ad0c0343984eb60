//! Where a setting comes from: a flag before the environment, the environment before the file, the file before the default.

use super::document::key_of;
use super::{ConfigFile, Settings};
use std::fmt;
use std::path::PathBuf;

/// Who says what holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// Nobody.
    Default,
    /// The configuration file.
    File(PathBuf),
    /// A variable of the environment.
    Environment(&'static str),
    /// A flag.
    Flag(&'static str),
}

impl Source {
    /// The word for programs.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Source::Default => "default",
            Source::File(_) => "file",
            Source::Environment(_) => "environment",
            Source::Flag(_) => "flag",
        }
    }

    /// Which file, variable or flag.
    pub(crate) fn place(&self) -> Option<String> {
        match self {
            Source::Default => None,
            Source::File(path) => Some(path.display().to_string()),
            Source::Environment(name) => Some((*name).to_owned()),
            Source::Flag(name) => Some(format!("--{name}")),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place() {
            Some(place) => f.write_str(&place),
            None => f.write_str("default"),
        }
    }
}

/// A setting that a flag or the environment makes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Given {
    /// The tables that it is in, and its name.
    pub(crate) path: Vec<String>,
    pub(crate) value: toml::Value,
    pub(crate) source: Source,
}

impl Given {
    pub(crate) fn new(key: &str, value: impl Into<toml::Value>, source: Source) -> Self {
        Given { path: key.split('.').map(str::to_owned).collect(), value: value.into(), source }
    }

    /// `engine.slots`.
    pub(crate) fn key(&self) -> String {
        key_of(&self.path)
    }

    /// A file that says this alone.
    fn file(&self) -> Result<ConfigFile, String> {
        let alone = self.path.iter().rev().fold(self.value.clone(), |value, part| {
            toml::Value::Table(std::iter::once((part.clone(), value)).collect())
        });
        alone.try_into().map_err(|error: toml::de::Error| error.message().to_owned())
    }

    /// Sets what it says.
    ///
    /// # Errors
    /// Names the flag or the variable, and what is wrong with its value.
    pub(super) fn apply(&self, settings: &mut Settings) -> Result<(), String> {
        self.file().and_then(|file| file.apply(settings)).map_err(|error| format!("{}: {error}", self.source))
    }
}
