//! `punctual config`: the daemon's settings, without a daemon.

use crate::config::{
    ConfigFile, Given, Problem, SettingFlags, Settings, Source, key_of, problems, read_text, settings_of,
};
use crate::exit::Failure;
use crate::http::Tokens;
use crate::output::{Output, Shade, Table};
use crate::target::TargetFlags;
use clap::{Args, Subcommand};
use serde::Serialize;
use std::path::PathBuf;

/// What the settings of a daemon may come from.
#[derive(Debug, Args)]
pub(crate) struct SettingArgs {
    /// The configuration, a TOML file.
    #[arg(long, value_name = "FILE", env = "PUNCTUAL_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    flags: SettingFlags,
}

/// Everything that was said.
pub(crate) struct Said {
    path: Option<PathBuf>,
    file: ConfigFile,
    given: Vec<Given>,
}

impl SettingArgs {
    /// Reads the file, if there is one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn read(self, db: Option<String>) -> Result<Said, Failure> {
        let variable = || std::env::var("PUNCTUAL_DB").ok().filter(|database| !database.is_empty());
        let database = match db {
            Some(database) => Some(Given::new("database", database, Source::Flag("db"))),
            None => variable().map(|database| Given::new("database", database, Source::Environment("PUNCTUAL_DB"))),
        };
        let file = self.config.as_deref().map(ConfigFile::read).transpose()?.unwrap_or_default();
        Ok(Said { path: self.config, file, given: database.into_iter().chain(self.flags.0).collect() })
    }
}

impl Said {
    /// What holds in the end.
    ///
    /// # Errors
    /// Names the setting that is wrong.
    pub(crate) fn resolve(self) -> Result<Settings, Failure> {
        Settings::resolve(self.file, self.given)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check a configuration file, without starting anything.
    #[command(after_help = "\
Examples:
  punctual config check /etc/punctual/punctual.toml
  punctual config check punctual.toml --json

It names everything that is wrong, each with its line: settings that are not known, values of the wrong kind or out of their range; \
then what does not go together, and certificates and tokens that cannot be read. Flags and the environment are left out. The exit code is 0 \
where `punctual serve --config FILE` would take the file, else 2.")]
    Check(CheckArgs),
    /// Show every setting as a daemon would have it, and who says so.
    #[command(after_help = "\
Examples:
  punctual config show
  punctual config show --config /etc/punctual/punctual.toml --slots 8
  punctual config show --json | jq -r '.settings[] | select(.source != \"default\") | .key'

It takes every flag of `punctual serve`. A flag comes before the environment, the environment before the file, the file before the \
default; docs/punctual.toml explains every setting.")]
    Show(SettingArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The configuration, a TOML file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(crate) fn run(command: ConfigCommand, target: TargetFlags, output: &mut Output) -> Result<(), Failure> {
    match command {
        ConfigCommand::Check(args) => check(&args, output),
        ConfigCommand::Show(args) => show(args, target, output),
    }
}

#[derive(Serialize)]
struct Checked {
    file: String,
    ok: bool,
    settings: usize,
    problems: Vec<Wrong>,
}

#[derive(Serialize)]
struct Wrong {
    line: Option<usize>,
    message: String,
}

fn check(args: &CheckArgs, output: &mut Output) -> Result<(), Failure> {
    let text = read_text(&args.file)?;
    let mut found = problems(&text);
    let mut settings = 0;
    if found.is_empty() {
        settings = text.parse().map(|table| settings_of(&table).len()).unwrap_or_default();
        let resolved = ConfigFile::read(&args.file).and_then(|file| Settings::resolve(file, Vec::new()))?;
        let certificates = resolved.tls.as_ref().map(|files| files.load().map(drop)).transpose();
        if let Err(error) = certificates {
            found.push(Problem { line: None, message: format!("[tls] {error}") });
        }
        if let Some(Err(error)) = resolved.http.tokens.as_deref().map(Tokens::read) {
            found.push(Problem { line: None, message: format!("[http] tokens: {error}") });
        }
    }
    let file = args.file.display().to_string();
    let count = found.len();
    if output.is_json() {
        let problems = found.iter().map(|one| Wrong { line: one.line, message: one.message.clone() }).collect();
        output.json(&Checked { file: file.clone(), ok: count == 0, settings, problems })?;
    } else if count == 0 {
        output.line(format!("{file} is fine; settings that it makes: {settings}"))?;
    } else {
        found.iter().try_for_each(|problem| output.line(problem.to_string()))?;
    }
    match count {
        0 => Ok(()),
        1 => Err(Failure::usage(format!("{file} has a problem; `punctual serve` would refuse it"))),
        count => Err(Failure::usage(format!("{file} has {count} problems; `punctual serve` would refuse it"))),
    }
}

#[derive(Serialize)]
struct Shown {
    settings: Vec<Setting>,
}

#[derive(Serialize)]
struct Setting {
    key: String,
    value: toml::Value,
    /// `default`, `file`, `environment` or `flag`.
    source: &'static str,
    /// Which file, variable or flag.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
}

fn show(args: SettingArgs, target: TargetFlags, output: &mut Output) -> Result<(), Failure> {
    if target.addr.is_some() {
        return Err(Failure::usage(
            "--addr names a daemon to speak to; say --listen for where the daemon would listen",
        ));
    }
    let said = args.read(target.db)?;
    let unwritten = |error: toml::ser::Error| Failure::failed(format!("the configuration is no TOML: {error}"));
    let in_file = settings_of(&toml::Table::try_from(&said.file).map_err(unwritten)?);
    let in_file: Vec<String> = in_file.iter().map(|(path, _)| key_of(path)).collect();
    let (path, given) = (said.path.clone(), said.given.clone());
    let settings = said.resolve()?;
    let source = |key: &str| match given.iter().find(|given| given.key() == key) {
        Some(given) => given.source.clone(),
        None if in_file.iter().any(|known| known == key) => path.clone().map_or(Source::Default, Source::File),
        None => Source::Default,
    };
    let table = toml::Table::try_from(ConfigFile::of(&settings)).map_err(unwritten)?;
    let settings = settings_of(&table).into_iter().map(|(path, value)| {
        let key = key_of(&path);
        let source = source(&key);
        Setting { key, value, source: source.kind(), from: source.place() }
    });
    let settings: Vec<Setting> = settings.collect();
    if output.is_json() {
        return output.json(&Shown { settings });
    }
    let mut table = Table::new(&["SETTING", "VALUE", "SOURCE"]);
    for setting in settings {
        let shade = if setting.source == "default" { Shade::Plain } else { Shade::Good };
        let source = setting.from.unwrap_or_else(|| setting.source.to_owned());
        table.row([(setting.key, Shade::Plain), (setting.value.to_string(), shade), (source, shade)]);
    }
    output.table(table)
}
