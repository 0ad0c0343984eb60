//! A flag and a variable for each setting of the file.
//!
//! The flag of `[limits] streams_max` is `--limits-streams-max`, its variable `PUNCTUAL_LIMITS_STREAMS_MAX`; settings that people
//! set often have shorter ones. Files of certificates are named in the file only.

use super::source::{Given, Source};
use clap::builder::BoolishValueParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use std::sync::LazyLock;

/// What a flag takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text(&'static str),
    Count,
    Switch,
    List(&'static str),
}

use Kind::{Count, List, Switch, Text};

/// How a time is called in help.
const TIME: Kind = Text("DURATION");

/// A setting, its flag where that is not its key, what it takes, and its help.
type Row = (&'static str, &'static str, Kind, &'static str);

/// Those of everyday use, which come first in help.
const COMMON: &[Row] = &[
    (
        "listen",
        "listen",
        List("ADDR"),
        "Where to listen: unix:/PATH, shm:/PATH or tcp://HOST:PORT; may be given again. Default: this user's socket and tcp://127.0.0.1:7400",
    ),
    (
        "commands.allow",
        "allow-commands",
        Switch,
        "Run programs (Command/run). Whoever reaches the Unix socket can then run them as this daemon's user",
    ),
    (
        "http.allow",
        "http-allow",
        List("HOST"),
        "Send HTTP requests (Http/request) to these hosts only: example.org, *.example.org, 10.0.0.7:8080; may be given again",
    ),
    (
        "http.listen",
        "http",
        Text("HOST:PORT"),
        "Serve HTTP here: the API, the JSON gateway, events, metrics and health. Off without it. Everyone who reaches it may do everything unless --http-tokens says otherwise",
    ),
    ("engine.slots", "slots", Count, "How many attempts run at once"),
    ("engine.name", "name", Text("TEXT"), "The worker's name; host and process without it"),
    ("shutdown_grace", "shutdown-grace", TIME, "How long calls and attempts may go on after the signal to stop"),
    (
        "log.level",
        "log-level",
        Text("LEVEL"),
        "error, warn, info, debug, trace, or directives such as info,punctual_rpc=debug",
    ),
    ("log.format", "log-format", Text("FORMAT"), "text or json"),
];

const CALLS: &[Row] = &[
    ("calls.budget_min", "", TIME, "Refuse calls that have less time than this left"),
    ("calls.budget_max", "", TIME, "Cut the time of calls to this; 0 cuts none"),
    ("calls.budget_default", "", TIME, "The time of calls that come without one; 0 is any"),
    (
        "compression.profiles",
        "",
        List("PROFILE"),
        "Compress bodies by zstd or lz4, where the client can; may be given again",
    ),
    ("compression.bytes_min", "", Count, "Compress bodies from so many bytes on"),
    ("admission.running_max", "", Count, "How many calls run at once; 0 is any number"),
    ("admission.calls_per_second", "", Count, "How many calls begin in a second; 0 is any number"),
    ("admission.burst", "", Count, "How many calls may begin at once after a rest; 0 is as many as in a second"),
    ("admission.queue_calls_max", "", Count, "How many calls without room wait; 0 refuses them at once"),
    ("admission.queue_bytes_max", "", Count, "How many bytes of such calls wait"),
    ("admission.queue_wait_max", "", TIME, "How long such a call waits"),
    ("admission.retry_after", "", TIME, "When a call is to come again that was refused for how many run"),
];

const CONNECTIONS: &[Row] = &[
    ("allow_plaintext_off_loopback", "", Switch, "Listen without encryption where other machines reach it"),
    ("limits.message_bytes_max", "", Count, "Bytes of a message"),
    ("limits.metadata_bytes_max", "", Count, "Bytes of a message's metadata"),
    ("limits.pending_calls_max", "", Count, "Calls that may wait for replies on a connection"),
    ("limits.running_calls_max", "", Count, "Calls that run at once for a connection; others wait"),
    ("limits.streams_max", "", Count, "Open streams on a connection"),
    ("limits.stream_window_bytes", "", Count, "Bytes under way to the daemon in a stream"),
    ("limits.connection_window_bytes", "", Count, "Bytes under way to the daemon in all streams of a connection"),
    ("limits.send_queue_bytes_max", "", Count, "Bytes that wait to be written to a connection"),
    ("limits.handshake_timeout", "", TIME, "How long a handshake may take"),
    ("limits.ping_after", "", TIME, "After how much silence a connection is asked for a sign of life"),
    ("limits.dead_after", "", TIME, "After how much silence a connection counts as dead"),
    ("server.connections_max", "", Count, "Open connections"),
    ("server.running_calls_max", "", Count, "Calls that run at once for all connections"),
    ("server.handshakes_max", "", Count, "Handshakes under way at once"),
    ("server.blocking_calls_max", "", Count, "Handlers that block a thread at once"),
    ("server.connection_age_max", "", TIME, "How old connections get; 0 is any age"),
    ("server.stuck_after", "", TIME, "How long a stop waits for handlers that were cancelled"),
    ("server.write_latency_max", "", TIME, "How long a reply may wait to share its write with others"),
    ("server.unix_mode", "", Text("OCTAL"), "The permissions of socket files"),
    ("server.shm_ring_bytes", "", Count, "What each ring of a shared memory connection holds"),
];

const HTTP: &[Row] = &[
    (
        "http.hosts",
        "",
        List("HOST"),
        "Further names under which HTTP requests may come in: punctual.example.org, *.internal:8080; may be given again",
    ),
    ("http.tokens", "", Text("FILE"), "Who may do what over HTTP: a file of lines that `punctual token new` prints"),
];

const ENGINE: &[Row] = &[
    ("engine.prefetch_max", "", Count, "Claimed tasks that may wait in memory"),
    ("engine.queues", "", List("QUEUE"), "Claim from these queues only; may be given again"),
    ("engine.poll", "", TIME, "How often the database is asked for work"),
    ("engine.poll_busy", "", TIME, "The same just after a claim that found some"),
    ("engine.lease", "", TIME, "How long the lease on claimed tasks lasts"),
    ("engine.renewal", "", TIME, "How often it is renewed"),
    ("engine.stop_after", "", TIME, "How long after the last good renewal handlers are stopped"),
    ("engine.rescue", "", TIME, "How often dead workers are looked for"),
    ("engine.on_doubt", "", Text("WORD"), "What happens to handlers while the lease is in doubt: stop or finish"),
    ("engine.cancel_grace", "", TIME, "How long a handler may take to end after an operator's cancel"),
    ("engine.stop_grace", "", TIME, "The same after its time was up"),
    ("engine.abandon_after", "", TIME, "When a handler that blocks its thread is given up"),
    ("engine.keep_ended", "", TIME, "How long tasks are kept that ended well; 0 is for ever"),
    ("engine.keep_failed", "", TIME, "The same for those that failed"),
    ("engine.prune_every", "", TIME, "How often old tasks are looked for"),
    ("store.migrate", "", Switch, "Bring tables up to this build's version"),
    ("store.wait", "", TIME, "How long an operation waits for a lock of another process"),
    ("store.readers", "", Count, "Threads that answer reads, for SQLite"),
];

struct Flag {
    key: &'static str,
    long: String,
    variable: String,
    kind: Kind,
    help: &'static str,
    heading: Option<&'static str>,
}

static FLAGS: LazyLock<Vec<Flag>> = LazyLock::new(|| {
    let groups = [
        (None, COMMON),
        (Some("Calls"), CALLS),
        (Some("Connections"), CONNECTIONS),
        (Some("HTTP"), HTTP),
        (Some("Tasks"), ENGINE),
    ];
    let flag = |heading, &(key, long, kind, help): &Row| {
        let long = if long.is_empty() { key.replace(['.', '_'], "-") } else { long.to_owned() };
        // The level has the variable that it had from the first.
        let short = if long == "log-level" { "log" } else { &long };
        let variable = format!("PUNCTUAL_{}", short.replace('-', "_").to_uppercase());
        Flag { key, long, variable, kind, help, heading }
    };
    groups.into_iter().flat_map(|(heading, rows)| rows.iter().map(move |row| flag(heading, row))).collect()
});

impl Flag {
    fn arg(&'static self) -> Arg {
        let arg = Arg::new(self.key).long(self.long.as_str()).env(self.variable.as_str()).help(self.help);
        let arg = arg.help_heading(self.heading);
        match self.kind {
            Text(value) => arg.value_name(value).action(ArgAction::Set),
            Count => {
                arg.value_name("N").action(ArgAction::Set).value_parser(value_parser!(i64)).allow_negative_numbers(true)
            }
            List(value) => arg.value_name(value).action(ArgAction::Append).value_delimiter(','),
            Switch => arg
                .value_name("BOOL")
                .action(ArgAction::Set)
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true")
                .value_parser(BoolishValueParser::new()),
        }
    }

    fn given(&'static self, matches: &ArgMatches) -> Option<Given> {
        let source = match matches.value_source(self.key)? {
            ValueSource::CommandLine => Source::Flag(&self.long),
            ValueSource::EnvVariable => Source::Environment(&self.variable),
            _ => return None,
        };
        let value = match self.kind {
            Text(_) => toml::Value::String(matches.get_one::<String>(self.key)?.clone()),
            Count => toml::Value::Integer(*matches.get_one::<i64>(self.key)?),
            Switch => toml::Value::Boolean(*matches.get_one::<bool>(self.key)?),
            List(_) => {
                let all = matches.get_many::<String>(self.key)?;
                toml::Value::Array(all.map(|one| toml::Value::String(one.trim().to_owned())).collect())
            }
        };
        Some(Given::new(self.key, value, source))
    }
}

/// What flags and the environment say.
#[derive(Debug, Clone, Default)]
pub(crate) struct SettingFlags(pub(crate) Vec<Given>);

impl clap::FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(SettingFlags(FLAGS.iter().filter_map(|flag| flag.given(matches)).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        FLAGS.iter().fold(command, |command, flag| command.arg(flag.arg()))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Every setting that has a flag.
#[cfg(test)]
pub(super) fn keys() -> Vec<&'static str> {
    FLAGS.iter().map(|flag| flag.key).collect()
}
