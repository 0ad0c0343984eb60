//! What the daemon's server holds for its clients at most, and how long: for each connection, and over all of them.

use super::{Settings, bound, count, set_duration, show_bound};
use crate::text::show_duration;
use punctual::rpc::{Limits, SHM_RING_BYTES_MAX, SHM_RING_BYTES_MIN, ServerLimits};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const KIB: i64 = 1_024;
const MIB: i64 = 1_024 * KIB;

/// Of each connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitsSection {
    pub(crate) message_bytes_max: Option<i64>,
    pub(crate) metadata_bytes_max: Option<i64>,
    pub(crate) pending_calls_max: Option<i64>,
    pub(crate) running_calls_max: Option<i64>,
    pub(crate) streams_max: Option<i64>,
    pub(crate) stream_window_bytes: Option<i64>,
    pub(crate) connection_window_bytes: Option<i64>,
    pub(crate) send_queue_bytes_max: Option<i64>,
    pub(crate) handshake_timeout: Option<String>,
    pub(crate) ping_after: Option<String>,
    pub(crate) dead_after: Option<String>,
}

/// Over all connections.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerSection {
    pub(crate) connections_max: Option<i64>,
    pub(crate) running_calls_max: Option<i64>,
    pub(crate) handshakes_max: Option<i64>,
    pub(crate) blocking_calls_max: Option<i64>,
    pub(crate) connection_age_max: Option<String>,
    pub(crate) stuck_after: Option<String>,
    pub(crate) write_latency_max: Option<String>,
    pub(crate) unix_mode: Option<String>,
    pub(crate) shm_ring_bytes: Option<i64>,
}

impl LimitsSection {
    pub(super) fn apply(self, settings: &mut Settings) -> Result<(), String> {
        let limits = &mut settings.server.limits;
        for (name, place, value, min, max) in [
            ("message_bytes_max", &mut limits.message_bytes_max, self.message_bytes_max, KIB, 64 * MIB),
            ("metadata_bytes_max", &mut limits.metadata_bytes_max, self.metadata_bytes_max, 0, 32 * KIB),
            ("pending_calls_max", &mut limits.pending_calls_max, self.pending_calls_max, 1, 65_536),
            ("running_calls_max", &mut limits.running_calls_max, self.running_calls_max, 1, 65_536),
            ("streams_max", &mut limits.streams_max, self.streams_max, 0, 32_768),
            ("stream_window_bytes", &mut limits.stream_window_bytes, self.stream_window_bytes, 64 * KIB, 64 * MIB),
            (
                "connection_window_bytes",
                &mut limits.connection_window_bytes,
                self.connection_window_bytes,
                KIB,
                1_024 * MIB,
            ),
            (
                "send_queue_bytes_max",
                &mut limits.send_queue_bytes_max,
                self.send_queue_bytes_max,
                64 * KIB,
                1_024 * MIB,
            ),
        ] {
            count(&format!("[limits] {name}"), place, value, min..=max)?;
        }
        set_duration("[limits] handshake_timeout", &mut limits.handshake_timeout, self.handshake_timeout)?;
        set_duration("[limits] ping_after", &mut limits.ping_after, self.ping_after)?;
        set_duration("[limits] dead_after", &mut limits.dead_after, self.dead_after)
    }

    pub(super) fn of(limits: &Limits) -> Self {
        let number = |value: u32| Some(i64::from(value));
        let text = |duration: Duration| Some(show_duration(duration));
        LimitsSection {
            message_bytes_max: number(limits.message_bytes_max),
            metadata_bytes_max: number(limits.metadata_bytes_max),
            pending_calls_max: number(limits.pending_calls_max),
            running_calls_max: number(limits.running_calls_max),
            streams_max: number(limits.streams_max),
            stream_window_bytes: number(limits.stream_window_bytes),
            connection_window_bytes: number(limits.connection_window_bytes),
            send_queue_bytes_max: number(limits.send_queue_bytes_max),
            handshake_timeout: text(limits.handshake_timeout),
            ping_after: text(limits.ping_after),
            dead_after: text(limits.dead_after),
        }
    }
}

/// The longest that a reply may be held back: whoever waits longer has mistaken the unit.
const WRITE_LATENCY_MAX: Duration = Duration::from_secs(1);

/// The longest wait for handlers that do not end.
const STUCK_AFTER_MAX: Duration = Duration::from_secs(3_600);

/// All permissions that a socket file may have.
const UNIX_MODE_MAX: u32 = 0o777;

impl ServerSection {
    pub(super) fn apply(self, settings: &mut Settings) -> Result<(), String> {
        let server = &mut settings.server;
        let limits: &mut ServerLimits = &mut server.server_limits;
        for (name, place, value, max) in [
            ("connections_max", &mut limits.connections_max, self.connections_max, 1_000_000),
            ("running_calls_max", &mut limits.running_calls_max, self.running_calls_max, 10_000_000),
            ("handshakes_max", &mut limits.handshakes_max, self.handshakes_max, 65_536),
            ("blocking_calls_max", &mut limits.blocking_calls_max, self.blocking_calls_max, 65_536),
        ] {
            count(&format!("[server] {name}"), place, value, 1..=max)?;
        }
        if let Some(text) = self.connection_age_max {
            server.connection_age_max = bound("[server] connection_age_max", &text)?;
        }
        set_duration("[server] stuck_after", &mut server.stuck_after, self.stuck_after)?;
        set_duration("[server] write_latency_max", &mut server.write_latency_max, self.write_latency_max)?;
        if let Some(text) = self.unix_mode {
            server.unix_mode = mode(&text)?;
        }
        if let Some(bytes) = self.shm_ring_bytes {
            server.shm_ring_bytes = ring_bytes(bytes)?;
        }
        Ok(())
    }

    /// What no single setting shows.
    pub(super) fn validate(settings: &Settings) -> Result<(), String> {
        let server = &settings.server;
        server.server_limits.validate().map_err(|error| format!("[server] {error}"))?;
        if let Some(age) = server.connection_age_max.filter(|age| *age < Duration::from_secs(1)) {
            return Err(format!(
                "[server] connection_age_max is {}; set it to at least 1s, or to 0 for connections of any age",
                show_duration(age)
            ));
        }
        for (name, value, max) in [
            ("stuck_after", server.stuck_after, STUCK_AFTER_MAX),
            ("write_latency_max", server.write_latency_max, WRITE_LATENCY_MAX),
        ] {
            if value > max {
                let (value, max) = (show_duration(value), show_duration(max));
                return Err(format!("[server] {name} is {value}; set it between 0s and {max}"));
            }
        }
        Ok(())
    }

    pub(super) fn of(settings: &Settings) -> Self {
        let server = &settings.server;
        let number = |value: u32| Some(i64::from(value));
        ServerSection {
            connections_max: number(server.server_limits.connections_max),
            running_calls_max: number(server.server_limits.running_calls_max),
            handshakes_max: number(server.server_limits.handshakes_max),
            blocking_calls_max: number(server.server_limits.blocking_calls_max),
            connection_age_max: Some(show_bound(server.connection_age_max)),
            stuck_after: Some(show_duration(server.stuck_after)),
            write_latency_max: Some(show_duration(server.write_latency_max)),
            unix_mode: Some(format!("{:04o}", server.unix_mode)),
            shm_ring_bytes: i64::try_from(server.shm_ring_bytes).ok(),
        }
    }
}

fn ring_bytes(bytes: i64) -> Result<usize, String> {
    let bounds = SHM_RING_BYTES_MIN..=SHM_RING_BYTES_MAX;
    let ring = usize::try_from(bytes).ok().filter(|ring| ring.is_power_of_two() && bounds.contains(ring));
    ring.ok_or_else(|| {
        format!(
            "[server] shm_ring_bytes is {bytes}; set it to a power of two between {SHM_RING_BYTES_MIN} and {SHM_RING_BYTES_MAX}"
        )
    })
}

fn mode(text: &str) -> Result<u32, String> {
    let digits = !text.is_empty() && text.len() <= 4 && text.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| digits && *mode <= UNIX_MODE_MAX);
    mode.ok_or_else(|| {
        format!(
            "[server] unix_mode is `{}`; write the permissions in octal digits, between \"0000\" and \"0777\", such as \"0660\" for \
             the group, too",
            crate::text::shown(text)
        )
    })
}
