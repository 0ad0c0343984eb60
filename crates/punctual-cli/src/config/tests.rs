//! Which source wins, what is refused, and that the example names every setting.

use super::*;

const EXAMPLE: &str = include_str!("../../../../docs/punctual.toml");

fn parse(text: &str) -> ConfigFile {
    ConfigFile::parse(text).unwrap()
}

/// Flags and the environment win over the file, and the file over the defaults.
#[test]
fn flags_come_before_the_file() {
    let file = parse(
        "database = 'file.db'\nlisten = ['127.0.0.1:1']\n[engine]\nslots = 3\npoll = '2s'\n[commands]\nallow = true\n",
    );
    let settings = Settings::resolve(file.clone(), Overrides::default()).unwrap();
    assert_eq!((settings.database.as_str(), settings.engine.slots), ("file.db", 3));
    assert_eq!(settings.listen, ["tcp://127.0.0.1:1"]);
    assert_eq!(settings.engine.poll, Duration::from_secs(2));
    assert!(settings.allow_commands);
    let overrides = Overrides {
        database: Some("flag.db".to_owned()),
        listen: vec!["unix:/tmp/flag.sock".to_owned()],
        slots: Some(5),
        allow_commands: Some(false),
        ..Overrides::default()
    };
    let settings = Settings::resolve(file, overrides).unwrap();
    assert_eq!((settings.database.as_str(), settings.engine.slots), ("flag.db", 5));
    assert_eq!(settings.listen, ["unix:/tmp/flag.sock"]);
    assert!(!settings.allow_commands);
    assert_eq!(settings.engine.poll, Duration::from_secs(2), "what no flag says the file still does");
}

/// A setting that is misspelt or out of its range is refused with its place, not passed over.
#[test]
fn wrong_settings_are_refused() {
    for (text, words) in [
        ("databse = 'x'", "line 1: unknown field `databse`"),
        ("\n[engine]\nslot = 3", "line 3: unknown field `slot`"),
        ("[engine]\nslots = 'many'", "line 2"),
        ("not toml", "line 1"),
    ] {
        let error = ConfigFile::parse(text).unwrap_err();
        assert!(error.contains(words) && !error.contains('\n'), "{text}: {error}");
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
        ("shutdown_grace = '9w'", "shutdown_grace"),
    ] {
        let error = Settings::resolve(parse(text), Overrides::default()).unwrap_err().line();
        assert!(error.contains(words), "{text}: {error}");
    }
}

/// Zero days of retention is for ever, as the example says.
#[test]
fn zero_keeps_for_ever() {
    let settings = Settings::resolve(parse("[engine]\nkeep_ended = '0'\n"), Overrides::default()).unwrap();
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
    let overrides = Overrides {
        name: Some("w1".to_owned()),
        log_format: Some("json".to_owned()),
        http_allow: vec!["*.example.org:443".to_owned()],
        shutdown_grace: Some("1m 5s".to_owned()),
        ..Overrides::default()
    };
    let settings = Settings::resolve(ConfigFile::default(), overrides).unwrap();
    let printed = toml::to_string(&ConfigFile::of(&settings)).unwrap();
    let again = Settings::resolve(parse(&printed), Overrides::default()).unwrap();
    assert_eq!(ConfigFile::of(&again), ConfigFile::of(&settings));
}
