//! The spans of calls, by the names of OpenTelemetry's conventions.

use super::CallOutcome;
use punctual_proto::contract::MethodDescriptor;
use punctual_proto::status::Code;
use tracing::field::Empty;
use tracing::{Level, Span};

/// What the spans are filtered by.
const TARGET: &str = "punctual::rpc";

/// What this system is called in `rpc.system.name`.
const SYSTEM: &str = "punctual";

/// Whether a subscriber may want spans of calls. Asked before anything is put together for one.
pub(super) fn are_wanted() -> bool {
    tracing::enabled!(target: TARGET, Level::INFO)
}

/// The span of a call to what is at `address`.
pub(super) fn client(method: &'static MethodDescriptor, address: &str) -> Span {
    let place = Place::of(address);
    tracing::info_span!(
        target: TARGET,
        "call",
        otel.name = method.full_name,
        otel.kind = "client",
        otel.status_code = Empty,
        rpc.system.name = SYSTEM,
        rpc.method = method.full_name,
        rpc.response.status_code = Empty,
        error.r#type = Empty,
        server.address = place.host,
        server.port = place.port,
        network.transport = place.transport,
    )
}

/// The span of a call that came from `peer`.
pub(super) fn server(method: &'static MethodDescriptor, peer: &str) -> Span {
    let place = Place::of(peer);
    tracing::info_span!(
        target: TARGET,
        "handle",
        otel.name = method.full_name,
        otel.kind = "server",
        otel.status_code = Empty,
        rpc.system.name = SYSTEM,
        rpc.method = method.full_name,
        rpc.response.status_code = Empty,
        error.r#type = Empty,
        network.peer.address = place.host,
        network.peer.port = place.port,
        network.transport = place.transport,
    )
}

/// Writes how a call ended into its span.
pub(super) fn end(span: &Span, outcome: CallOutcome, is_error: bool) {
    if span.is_disabled() {
        return;
    }
    span.record("rpc.response.status_code", outcome.as_str());
    if outcome != CallOutcome::Ok {
        span.record("error.type", outcome.as_str());
    }
    if is_error {
        span.record("otel.status_code", "error");
    }
}

/// Whether a server is to blame for how its call ended, as the conventions have it. A client is told of every failure.
pub(super) fn is_servers_fault(outcome: CallOutcome) -> bool {
    match outcome {
        CallOutcome::Ok | CallOutcome::Application | CallOutcome::Abandoned => false,
        CallOutcome::Status(code) => matches!(
            code,
            Code::Unknown
                | Code::DeadlineExceeded
                | Code::Unimplemented
                | Code::Internal
                | Code::Unavailable
                | Code::DataLoss
        ),
    }
}

/// An address in parts.
#[derive(Debug, PartialEq, Eq)]
struct Place<'a> {
    host: &'a str,
    port: Option<u16>,
    transport: &'static str,
}

impl<'a> Place<'a> {
    /// From `tcp://127.0.0.1:7400`, `tls://[::1]:7400`, `unix:/path`, `shm:/path`, `inproc:name`, or several with commas.
    fn of(address: &'a str) -> Self {
        let networked = address.strip_prefix("tcp://").or_else(|| address.strip_prefix("tls://"));
        if address.contains(',') {
            // Several endpoints are one group of servers to the conventions.
            return Place { host: address, port: None, transport: "tcp" };
        }
        if let Some(rest) = networked {
            let (host, port) = match rest.rsplit_once(':') {
                Some((host, port)) => (host, port.parse().ok()),
                None => (rest, None),
            };
            let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
            return Place { host, port, transport: "tcp" };
        }
        match address.split_once(':') {
            Some(("unix", path)) => Place { host: path, port: None, transport: "unix" },
            Some(("shm", path)) => Place { host: path, port: None, transport: "shm" },
            Some(("inproc", name)) => Place { host: name, port: None, transport: "pipe" },
            _ => Place { host: address, port: None, transport: "other" },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Place;

    /// Addresses are taken apart as the conventions want them: hosts without ports and brackets, paths whole.
    #[test]
    fn addresses_in_parts() {
        for (address, host, port, transport) in [
            ("tcp://127.0.0.1:7400", "127.0.0.1", Some(7400), "tcp"),
            ("tls://[::1]:7400", "::1", Some(7400), "tcp"),
            ("tls://example.org:443", "example.org", Some(443), "tcp"),
            ("tcp://a:1,tcp://b:2", "tcp://a:1,tcp://b:2", None, "tcp"),
            ("unix:/run/a.sock", "/run/a.sock", None, "unix"),
            ("unix:", "", None, "unix"),
            ("shm:/run/a.sock", "/run/a.sock", None, "shm"),
            ("inproc:shop", "shop", None, "pipe"),
            ("custom", "custom", None, "other"),
        ] {
            assert_eq!(Place::of(address), Place { host, port, transport }, "{address}");
        }
    }
}
