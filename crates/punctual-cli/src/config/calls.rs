//! How the daemon's server meets calls: the time that they may take, and how their bodies are compressed.

use super::{Settings, bound, count, duration, show_bound};
use crate::text::{show_duration, shown};
use punctual::rpc::compression::{BYTES_MIN, Compression, Lz4, Zstd};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The longest message that there is, and so the largest length from which compression could begin.
const MESSAGE_BYTES_MAX: i64 = 64 << 20;

/// How bodies are compressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CompressionSettings {
    profiles: Vec<Profile>,
    bytes_min: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Profile {
    Zstd,
    Lz4,
}

impl Profile {
    const ALL: [Profile; 2] = [Profile::Zstd, Profile::Lz4];

    const fn name(self) -> &'static str {
        match self {
            Profile::Zstd => "zstd",
            Profile::Lz4 => "lz4",
        }
    }
}

impl Default for CompressionSettings {
    fn default() -> Self {
        CompressionSettings { profiles: Vec::new(), bytes_min: u32::try_from(BYTES_MIN).unwrap_or(u32::MAX) }
    }
}

impl CompressionSettings {
    /// For a server.
    pub(crate) fn build(&self) -> Compression {
        let compression = Compression::new().bytes_min(usize::try_from(self.bytes_min).unwrap_or(usize::MAX));
        self.profiles.iter().fold(compression, |compression, profile| match profile {
            Profile::Zstd => compression.with(Zstd::default()),
            Profile::Lz4 => compression.with(Lz4),
        })
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallsSection {
    pub(crate) budget_min: Option<String>,
    pub(crate) budget_max: Option<String>,
    pub(crate) budget_default: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompressionSection {
    pub(crate) profiles: Option<Vec<String>>,
    pub(crate) bytes_min: Option<i64>,
}

impl CallsSection {
    pub(super) fn apply(self, settings: &mut Settings) -> Result<(), String> {
        let server = &mut settings.server;
        if let Some(text) = self.budget_min {
            server.budget_min = duration("[calls] budget_min", &text)?;
        }
        if let Some(text) = self.budget_max {
            server.budget_max = bound("[calls] budget_max", &text)?;
        }
        if let Some(text) = self.budget_default {
            server.budget_default = bound("[calls] budget_default", &text)?;
        }
        Ok(())
    }

    /// Refuses budgets that contradict each other.
    pub(super) fn validate(settings: &Settings) -> Result<(), String> {
        let server = &settings.server;
        let min = server.budget_min;
        for (name, value) in [("budget_max", server.budget_max), ("budget_default", server.budget_default)] {
            if let Some(value) = value.filter(|value| *value < min) {
                let (value, min) = (show_duration(value), show_duration(min));
                return Err(format!(
                    "[calls] {name} is {value}, and budget_min is {min}; set {name} to at least {min}, or to 0 for none"
                ));
            }
        }
        match (server.budget_default, server.budget_max) {
            (Some(default), Some(max)) if default > max => {
                let (default, max) = (show_duration(default), show_duration(max));
                Err(format!("[calls] budget_default is {default}; set it to at most budget_max, which is {max}"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn of(settings: &Settings) -> Self {
        let server = &settings.server;
        let none_if_zero = |duration: Duration| Some(duration).filter(|duration| !duration.is_zero());
        CallsSection {
            budget_min: Some(show_bound(none_if_zero(server.budget_min))),
            budget_max: Some(show_bound(server.budget_max)),
            budget_default: Some(show_bound(server.budget_default)),
        }
    }
}

impl CompressionSection {
    pub(super) fn apply(self, settings: &mut Settings) -> Result<(), String> {
        let compression = &mut settings.compression;
        if let Some(names) = self.profiles {
            let mut profiles: Vec<Profile> = Vec::new();
            for name in &names {
                let profile = Profile::ALL.into_iter().find(|profile| profile.name() == name);
                let profile = profile.ok_or_else(|| {
                    format!("[compression] profiles: `{}` is not known; write zstd, lz4, both or neither", shown(name))
                })?;
                if profiles.contains(&profile) {
                    return Err(format!("[compression] profiles: {name} is there twice; write it once"));
                }
                profiles.push(profile);
            }
            compression.profiles = profiles;
        }
        count("[compression] bytes_min", &mut compression.bytes_min, self.bytes_min, 1..=MESSAGE_BYTES_MAX)
    }

    pub(super) fn of(compression: &CompressionSettings) -> Self {
        CompressionSection {
            profiles: Some(compression.profiles.iter().map(|profile| profile.name().to_owned()).collect()),
            bytes_min: Some(i64::from(compression.bytes_min)),
        }
    }
}
