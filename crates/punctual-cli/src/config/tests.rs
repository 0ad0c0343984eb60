//! Which source wins, what is refused, and that the example names every setting.

use super::*;
use punctual::rpc::ScopeLimits;

const EXAMPLE: &str = include_str!("../../../../docs/punctual.toml");

fn parse(text: &str) -> ConfigFile {
    ConfigFile::parse(text).unwrap()
}

fn given(key: &str, value: impl Into<toml::Value>) -> Given {
    Given::new(key, value, Source::Flag("given"))
}

/// Flags and the environment win over the file, and the file over the defaults.
#[test]
fn flags_come_before_the_file() {
    let file = parse(
        "database = 'file.db'\nlisten = ['127.0.0.1:1']\n[engine]\nslots = 3\npoll = '2s'\n[commands]\nallow = true\n",
    );
    let settings = Settings::resolve(file.clone(), Vec::new()).unwrap();
    assert_eq!((settings.database.as_str(), settings.engine.slots), ("file.db", 3));
    assert_eq!(settings.listen, ["tcp://127.0.0.1:1"]);
    assert_eq!(settings.engine.poll, Duration::from_secs(2));
    assert!(settings.allow_commands);
    let given = vec![
        given("database", "flag.db"),
        given("listen", vec!["unix:/tmp/flag.sock"]),
        given("engine.slots", 5),
        given("commands.allow", false),
    ];
    let settings = Settings::resolve(file, given).unwrap();
    assert_eq!((settings.database.as_str(), settings.engine.slots), ("flag.db", 5));
    assert_eq!(settings.listen, ["unix:/tmp/flag.sock"]);
    assert!(!settings.allow_commands);
    assert_eq!(settings.engine.poll, Duration::from_secs(2), "what no flag says the file still does");
}

/// A setting that is misspelt or out of its range is refused with its place, not passed over.
#[test]
fn wrong_settings_are_refused() {
    for (text, words) in [
        ("databse = 'x'", "line 1: unknown setting `databse`; did you mean `database`?"),
        ("\n[engine]\nslot = 3", "line 3: unknown setting `slot` in [engine]; did you mean `slots`?"),
        ("slots = 3", "unknown setting `slots`; did you mean `slots` in [engine]?"),
        ("[engin]\nslots = 3", "unknown setting `slots` in [engin]; did you mean `slots` in [engine]?"),
        ("[servers]\nrunning_calls_max = 3", "did you mean `running_calls_max` in [server]?"),
        ("[server]\nlisten = []", "did you mean `listen`, above all sections?"),
        ("[admission.service.Http]\nrunning_max = 1", "unknown setting `running_max` in [admission.service.Http]"),
        ("[admission.methods.\"A/b\"]\nrunning = 1", "unknown setting `running` in [admission.methods.\"A/b\"]"),
        ("quite_another_thing = 1", "unknown setting `quite_another_thing`; docs/punctual.toml"),
        ("engine = 3", "`engine` is a section"),
        ("[nonsense]", "nonsense"),
        ("[engine]\nslots = 'many'", "line 2: [engine] slots: invalid type"),
        ("[limits]\nstreams_max = 1.5", "line 2: [limits] streams_max: invalid type"),
        ("not toml", "line 1"),
    ] {
        let error = ConfigFile::parse(text).unwrap_err().to_string();
        assert!(
            error.contains(words) && !error.contains('\n') && error.contains("docs/punctual.toml"),
            "{text}: {error}"
        );
    }
    for (text, words) in [
        ("[engine]\nslots = 0", "slots"),
        ("[engine]\npoll = '5'", "[engine] poll"),
        ("[engine]\non_doubt = 'x'", "on_doubt"),
        ("[engine]\nkeep_ended = 'x'", "keep_ended"),
        ("[store]\nreaders = 99", "readers"),
        ("[log]\nformat = 'xml'", "log format"),
        ("[http]\nallow = ['https://x']", "[http] allow"),
        ("listen = []", "listen"),
        ("listen = ['inproc:x']", "inproc:x"),
        ("shutdown_grace = '9w'", "shutdown_grace is 63d; set it between 0s and 1d"),
        ("[calls]\nbudget_min = '5'", "[calls] budget_min"),
        (
            "[calls]\nbudget_min = '5s'\nbudget_max = '1s'",
            "[calls] budget_max is 1s, and budget_min is 5s; set budget_max to at least 5s, or to 0",
        ),
        ("[calls]\nbudget_min = '5s'\nbudget_default = '1s'", "[calls] budget_default is 1s"),
        ("[calls]\nbudget_max = '5s'\nbudget_default = '6s'", "set it to at most budget_max, which is 5s"),
        ("[compression]\nprofiles = ['gzip']", "[compression] profiles: `gzip` is not known; write zstd, lz4"),
        ("[compression]\nprofiles = ['lz4', 'lz4']", "lz4 is there twice"),
        ("[admission]\nburst = 3", "[admission] burst is 3, and calls_per_second is 0; set both, or neither"),
        ("[admission]\nqueue_wait_max = 'x'", "[admission] queue_wait_max"),
        ("[admission]\nretry_after = '2h'", "[admission] retry_after is 2h; set it between 0s and 1h"),
        ("[admission.methods.'A/b']\nburst = 1", "[admission.methods.\"A/b\"] burst is 1"),
        ("[limits]\nhandshake_timeout = '0'", "[limits] handshake_timeout is 0ns; set it between 1ms and 60s"),
        ("[limits]\nping_after = '30s'", "[limits] dead_after is 20s; set it between 30.001s and"),
        ("[limits]\nconnection_window_bytes = 2048", "set it between 4194304 and 1073741824"),
        ("[server]\nconnection_age_max = '1ms'", "[server] connection_age_max is 1ms; set it to at least 1s, or to 0"),
        ("[server]\nstuck_after = '2h'", "[server] stuck_after is 2h; set it between 0s and 1h"),
        ("[server]\nwrite_latency_max = '2s'", "[server] write_latency_max is 2s; set it between 0s and 1s"),
        ("[server]\nunix_mode = '0999'", "[server] unix_mode is `0999`; write the permissions in octal digits"),
        (
            "[server]\nshm_ring_bytes = 100000",
            "[server] shm_ring_bytes is 100000; set it to a power of two between 65536",
        ),
        ("[server]\nshm_ring_bytes = -1", "shm_ring_bytes is -1; set it to a power of two"),
        ("[server]\nunix_mode = '1777'", "between \"0000\" and \"0777\""),
    ] {
        let error = Settings::resolve(parse(text), Vec::new()).unwrap_err().line();
        assert!(error.contains(words), "{text}: {error}");
    }
}

/// Zero days of retention is for ever, as the example says.
#[test]
fn zero_keeps_for_ever() {
    let settings = Settings::resolve(parse("[engine]\nkeep_ended = '0'\n"), Vec::new()).unwrap();
    let retention = settings.engine.retention.unwrap();
    assert_eq!(retention.ended, None);
    assert_eq!(retention.failed, Retention::default().failed);
}

/// The example names every setting that there is, with its default, and nothing else.
#[test]
fn the_example_is_complete() {
    fn keys(table: &toml::Table, at: &str, found: &mut Vec<String>) {
        for (key, value) in table {
            match value {
                toml::Value::Table(table) => keys(table, &format!("{at}{key}."), found),
                _ => found.push(format!("{at}{key}")),
            }
        }
    }
    let defaults = ConfigFile::of(&Settings::default());
    let (mut named, mut known) = (Vec::new(), Vec::new());
    keys(&EXAMPLE.parse().unwrap(), "", &mut named);
    keys(&toml::Table::try_from(&defaults).unwrap(), "", &mut known);
    named.sort();
    known.sort();
    assert_eq!(named, known);
    let mut example = parse(EXAMPLE);
    // Where it listens by default depends on who runs it.
    example.listen.clone_from(&defaults.listen);
    assert_eq!(example, defaults);
}

/// What `--print-config` prints is a file that says the same again.
#[test]
fn printed_settings_read_back() {
    let given = vec![
        given("engine.name", "w1"),
        given("log.format", "json"),
        given("http.allow", vec!["*.example.org:443"]),
        given("shutdown_grace", "1m 5s"),
        given("compression.profiles", vec!["lz4", "zstd"]),
        given("server.unix_mode", "660"),
    ];
    let file = parse(
        "[admission.methods.'Http/request']\nrunning_max = 2\n[admission.services.Admin]\ncalls_per_second = 9\n",
    );
    let settings = Settings::resolve(file, given).unwrap();
    let printed = toml::to_string(&ConfigFile::of(&settings)).unwrap();
    let again = Settings::resolve(parse(&printed), Vec::new()).unwrap();
    assert_eq!(ConfigFile::of(&again), ConfigFile::of(&settings));
}

/// Each number is taken from the first to the last of its range, and refused beyond it with its name, its value and the range,
/// which is the one that the server itself has.
#[test]
fn numbers_have_their_ranges() {
    for (section, name, min, max) in [
        ("limits", "message_bytes_max", 1_024_i64, 67_108_864_i64),
        ("limits", "metadata_bytes_max", 0, 32_768),
        ("limits", "pending_calls_max", 1, 65_536),
        ("limits", "running_calls_max", 1, 65_536),
        ("limits", "streams_max", 0, 32_768),
        ("limits", "stream_window_bytes", 65_536, 67_108_864),
        ("limits", "connection_window_bytes", 1_024, 1_073_741_824),
        ("limits", "send_queue_bytes_max", 65_536, 1_073_741_824),
        ("server", "connections_max", 1, 1_000_000),
        ("server", "running_calls_max", 1, 10_000_000),
        ("server", "handshakes_max", 1, 65_536),
        ("server", "blocking_calls_max", 1, 65_536),
        ("admission", "running_max", 0, 10_000_000),
        ("admission", "calls_per_second", 0, 10_000_000),
        ("admission", "queue_calls_max", 0, 1_000_000),
        ("admission", "queue_bytes_max", 0, 1_073_741_824),
        ("compression", "bytes_min", 1, 67_108_864),
    ] {
        // Windows hold at least one message, so that one must not be in the way.
        let others = match name {
            "message_bytes_max" => "connection_window_bytes = 1073741824\n",
            "connection_window_bytes" => "message_bytes_max = 1024\n",
            _ => "",
        };
        let resolve =
            |value: i64| Settings::resolve(parse(&format!("[{section}]\n{name} = {value}\n{others}")), Vec::new());
        for good in [min, max] {
            let settings = resolve(good).unwrap();
            let table = toml::Table::try_from(ConfigFile::of(&settings)).unwrap();
            assert_eq!(table[section][name].as_integer(), Some(good), "{name}");
            let mut config = settings.server.clone();
            config.admission = settings.admission.build();
            config.compression = settings.compression.build();
            assert!(config.validate().is_ok(), "{name} = {good}");
        }
        for bad in [min - 1, max + 1, i64::MIN, i64::MAX] {
            let error = resolve(bad).unwrap_err().line();
            let told = format!("[{section}] {name} is {bad}; set it between {min} and {max}");
            assert!(error.contains(&told), "{error}");
        }
    }
}

/// What is said of calls reaches the server's settings, and 0 says that there is no such bound.
#[test]
fn calls_are_met_as_the_file_says() {
    let file = parse(
        "[calls]\nbudget_min = '1ms'\nbudget_max = '1m'\nbudget_default = '10s'\n\
         [compression]\nprofiles = ['zstd', 'lz4']\nbytes_min = 4096\n\
         [admission]\nrunning_max = 7\ncalls_per_second = 100\nqueue_calls_max = 0\nqueue_wait_max = '2s'\n\
         [admission.services.Http]\nrunning_max = 3\n[admission.methods.'Http/request']\ncalls_per_second = 5\nburst = 9\n",
    );
    let settings = Settings::resolve(file, Vec::new()).unwrap();
    let server = &settings.server;
    assert_eq!(server.budget_min, Duration::from_millis(1));
    assert_eq!(
        (server.budget_max, server.budget_default),
        (Some(Duration::from_secs(60)), Some(Duration::from_secs(10)))
    );
    let admission = settings.admission.build();
    assert_eq!(admission.server.running_max, Some(7));
    let rate = |limits: &ScopeLimits| limits.rate.map(|rate| (rate.calls, rate.burst));
    assert_eq!(rate(&admission.server), Some((100, 100)));
    assert_eq!((admission.queue_calls_max, admission.queue_wait_max), (0, Duration::from_secs(2)));
    assert_eq!(admission.services["Http"].running_max, Some(3));
    assert_eq!(rate(&admission.methods["Http/request"]), Some((5, 9)));
    let compression = format!("{:?}", settings.compression.build());
    assert!(
        compression.contains("Zstd") && compression.contains("Lz4") && compression.contains("4096"),
        "{compression}"
    );
    let zeros = parse(
        "[calls]\nbudget_min = '0'\nbudget_max = '0'\nbudget_default = '0'\n[admission]\nrunning_max = 0\nburst = 0\n\
         [server]\nconnection_age_max = '0'\n",
    );
    let settings = Settings::resolve(zeros, Vec::new()).unwrap();
    assert_eq!(ConfigFile::of(&settings), ConfigFile::of(&Settings::default()));
    assert!(!settings.admission.build().is_on());
}

/// A flag changes its own setting and leaves every other one that the file makes.
#[test]
fn a_flag_leaves_the_rest_of_the_file() {
    let text =
        EXAMPLE.replace("certificate = \"\"", "certificate = \"a.pem\"").replace("key = \"\"", "key = \"a.key\"");
    let file = parse(&text.replace("keep_ended = \"7d\"", "keep_ended = \"9d\""));
    let before = ConfigFile::of(&Settings::resolve(file.clone(), Vec::new()).unwrap());
    assert!(before.tls.certificate.as_ref().is_some_and(|path| path.ends_with("a.pem")));
    for key in flags::keys() {
        let table = toml::Table::try_from(&before).unwrap();
        let value = key.split('.').try_fold(toml::Value::Table(table), |value, part| value.get(part).cloned()).unwrap();
        let settings = Settings::resolve(file.clone(), vec![given(key, value)]).unwrap();
        assert_eq!(ConfigFile::of(&settings), before, "{key}");
    }
}

/// Every setting has a flag, but the files of certificates.
#[test]
fn every_setting_has_a_flag() {
    let mut flags = flags::keys();
    flags.sort_unstable();
    let table = toml::Table::try_from(ConfigFile::of(&Settings::default())).unwrap();
    let mut known: Vec<String> = settings_of(&table).iter().map(|(path, _)| key_of(path)).collect();
    known.retain(|key| !key.starts_with("tls.") && key != "database");
    known.sort_unstable();
    assert_eq!(flags, known);
}

/// A flag that is wrong is told by its name.
#[test]
fn wrong_flags_are_named() {
    let wrong = Given::new("calls.budget_max", "5", Source::Environment("PUNCTUAL_CALLS_BUDGET_MAX"));
    let error = Settings::resolve(ConfigFile::default(), vec![wrong]).unwrap_err().line();
    assert!(error.contains("PUNCTUAL_CALLS_BUDGET_MAX: [calls] budget_max"), "{error}");
    let wrong = Given::new("limits.streams_max", 99_999, Source::Flag("limits-streams-max"));
    let error = Settings::resolve(ConfigFile::default(), vec![wrong]).unwrap_err().line();
    let told = "--limits-streams-max: [limits] streams_max is 99999; set it between 0 and 32768";
    assert!(error.contains(told), "{error}");
}

/// A check names all that is wrong with single settings, each with its line, and else the first thing that does not go together.
#[test]
fn a_check_names_every_problem() {
    let text = "databse = 'x'\nlisten = 3\n[limits]\nstreams_max = -1\nping_after = 'soon'\n[engine]\nslots = 4\n";
    let found = problems(text);
    let lines: Vec<Option<usize>> = found.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [Some(1), Some(2), Some(4), Some(5)], "{found:?}");
    for (problem, words) in
        found.iter().zip(["`database`", "listen: invalid type", "streams_max is -1", "ping_after: `soon`"])
    {
        assert!(problem.message.contains(words), "{problem}");
    }
    let together = problems("[limits]\nping_after = '30s'\n");
    assert!(together.len() == 1 && together[0].message.contains("dead_after is 20s"), "{together:?}");
    assert_eq!(problems("[engine\n").len(), 1);
    assert_eq!(problems("[tls]\ncertificate = 'x'\n")[0].message, "[tls] needs both certificate and key");
    assert_eq!(problems(EXAMPLE), []);
}
