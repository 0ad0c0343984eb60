//! Which calls the daemon's server lets in: admission control, off unless a limit is set.

use super::{Settings, count, set_duration};
use crate::text::show_duration;
use punctual::rpc::{AdmissionLimits, Rate, ScopeLimits};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Calls at once, or in a second: beyond this a limit is none.
const CALLS_MAX: i64 = 10_000_000;

/// Calls that may wait.
const QUEUE_CALLS_MAX: i64 = 1_000_000;

/// Bytes that may wait.
const QUEUE_BYTES_MAX: i64 = 1 << 30;

/// How long a call may wait, and be told to stay away.
const WAIT_MAX: Duration = Duration::from_secs(3_600);

/// What one scope lets in, as it is written: 0 says that there is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Scope {
    running_max: u32,
    calls_per_second: u32,
    burst: u32,
}

/// Admission control, as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdmissionSettings {
    server: Scope,
    services: BTreeMap<String, Scope>,
    methods: BTreeMap<String, Scope>,
    queue_calls_max: u32,
    queue_bytes_max: u32,
    queue_wait_max: Duration,
    retry_after: Duration,
}

impl Default for AdmissionSettings {
    fn default() -> Self {
        let limits = AdmissionLimits::default();
        AdmissionSettings {
            server: Scope::default(),
            services: BTreeMap::new(),
            methods: BTreeMap::new(),
            queue_calls_max: u32::try_from(limits.queue_calls_max).unwrap_or(u32::MAX),
            queue_bytes_max: u32::try_from(limits.queue_bytes_max).unwrap_or(u32::MAX),
            queue_wait_max: limits.queue_wait_max,
            retry_after: limits.retry_after,
        }
    }
}

impl Scope {
    fn build(self) -> ScopeLimits {
        let mut limits = ScopeLimits::NONE;
        limits.running_max = Some(self.running_max).filter(|max| *max > 0);
        limits.rate = Some(self.calls_per_second).filter(|calls| *calls > 0).map(|calls| {
            let rate = Rate::per_second(calls);
            if self.burst > 0 { rate.burst(self.burst) } else { rate }
        });
        limits
    }

    fn set(&mut self, at: &str, section: ScopeSection) -> Result<(), String> {
        count(&format!("{at} running_max"), &mut self.running_max, section.running_max, 0..=CALLS_MAX)?;
        count(&format!("{at} calls_per_second"), &mut self.calls_per_second, section.calls_per_second, 0..=CALLS_MAX)?;
        count(&format!("{at} burst"), &mut self.burst, section.burst, 0..=CALLS_MAX)
    }

    fn validate(self, at: &str) -> Result<(), String> {
        if self.burst > 0 && self.calls_per_second == 0 {
            return Err(format!("{at} burst is {}, and calls_per_second is 0; set both, or neither", self.burst));
        }
        Ok(())
    }

    fn section(self) -> ScopeSection {
        ScopeSection {
            running_max: Some(i64::from(self.running_max)),
            calls_per_second: Some(i64::from(self.calls_per_second)),
            burst: Some(i64::from(self.burst)),
        }
    }
}

impl AdmissionSettings {
    /// For a server.
    pub(crate) fn build(&self) -> AdmissionLimits {
        let all = |scopes: &BTreeMap<String, Scope>| {
            scopes.iter().map(|(name, scope)| (name.clone(), scope.build())).collect::<BTreeMap<_, _>>()
        };
        let mut limits = AdmissionLimits::default();
        limits.server = self.server.build();
        limits.services = all(&self.services);
        limits.methods = all(&self.methods);
        limits.queue_calls_max = usize::try_from(self.queue_calls_max).unwrap_or(usize::MAX);
        limits.queue_bytes_max = usize::try_from(self.queue_bytes_max).unwrap_or(usize::MAX);
        limits.queue_wait_max = self.queue_wait_max;
        limits.retry_after = self.retry_after;
        limits
    }

    pub(super) fn validate(&self) -> Result<(), String> {
        self.server.validate("[admission]")?;
        for (kind, scopes) in [("services", &self.services), ("methods", &self.methods)] {
            for (name, scope) in scopes {
                scope.validate(&format!("[admission.{kind}.\"{name}\"]"))?;
            }
        }
        for (name, value) in [("queue_wait_max", self.queue_wait_max), ("retry_after", self.retry_after)] {
            if value > WAIT_MAX {
                let (value, max) = (show_duration(value), show_duration(WAIT_MAX));
                return Err(format!("[admission] {name} is {value}; set it between 0s and {max}"));
            }
        }
        self.build().validate().map_err(|error| format!("[admission] {error}"))
    }
}

/// A service's or a method's own limits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScopeSection {
    pub(crate) running_max: Option<i64>,
    pub(crate) calls_per_second: Option<i64>,
    pub(crate) burst: Option<i64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AdmissionSection {
    pub(crate) running_max: Option<i64>,
    pub(crate) calls_per_second: Option<i64>,
    pub(crate) burst: Option<i64>,
    pub(crate) queue_calls_max: Option<i64>,
    pub(crate) queue_bytes_max: Option<i64>,
    pub(crate) queue_wait_max: Option<String>,
    pub(crate) retry_after: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) services: BTreeMap<String, ScopeSection>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) methods: BTreeMap<String, ScopeSection>,
}

impl AdmissionSection {
    pub(super) fn apply(self, settings: &mut Settings) -> Result<(), String> {
        let admission = &mut settings.admission;
        let AdmissionSection { running_max, calls_per_second, burst, .. } = self;
        admission.server.set("[admission]", ScopeSection { running_max, calls_per_second, burst })?;
        let (calls, bytes) = (&mut admission.queue_calls_max, &mut admission.queue_bytes_max);
        count("[admission] queue_calls_max", calls, self.queue_calls_max, 0..=QUEUE_CALLS_MAX)?;
        count("[admission] queue_bytes_max", bytes, self.queue_bytes_max, 0..=QUEUE_BYTES_MAX)?;
        set_duration("[admission] queue_wait_max", &mut admission.queue_wait_max, self.queue_wait_max)?;
        set_duration("[admission] retry_after", &mut admission.retry_after, self.retry_after)?;
        for (kind, scopes, sections) in
            [("services", &mut admission.services, self.services), ("methods", &mut admission.methods, self.methods)]
        {
            for (name, section) in sections {
                let at = format!("[admission.{kind}.\"{name}\"]");
                scopes.entry(name).or_default().set(&at, section)?;
            }
        }
        Ok(())
    }

    pub(super) fn of(admission: &AdmissionSettings) -> Self {
        let ScopeSection { running_max, calls_per_second, burst } = admission.server.section();
        let all = |scopes: &BTreeMap<String, Scope>| {
            scopes.iter().map(|(name, scope)| (name.clone(), scope.section())).collect()
        };
        AdmissionSection {
            running_max,
            calls_per_second,
            burst,
            queue_calls_max: Some(i64::from(admission.queue_calls_max)),
            queue_bytes_max: Some(i64::from(admission.queue_bytes_max)),
            queue_wait_max: Some(show_duration(admission.queue_wait_max)),
            retry_after: Some(show_duration(admission.retry_after)),
            services: all(&admission.services),
            methods: all(&admission.methods),
        }
    }
}
