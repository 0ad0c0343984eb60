//! One run of the binary, in an environment that has nothing of the host's own.

use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder of the test's own, with a database in it.
#[derive(Debug)]
pub(crate) struct Workspace {
    folder: tempfile::TempDir,
}

/// What a run gave.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Workspace {
    pub(crate) fn new() -> Self {
        Workspace { folder: tempfile::tempdir().unwrap() }
    }

    /// With an empty database.
    pub(crate) fn with_database() -> Self {
        let workspace = Self::new();
        workspace.run(&["migrate", "--db", &workspace.db()]).succeeded();
        workspace
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The same as text.
    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn db(&self) -> String {
        self.text("punctual.db")
    }

    /// Writes a file, and gives its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).unwrap();
        self.text(name)
    }

    /// The binary, ready to be started with these arguments.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if name.starts_with("PUNCTUAL_") || name.starts_with("XDG_") || name.to_lowercase().ends_with("_proxy") {
                command.env_remove(name);
            }
        }
        // Each daemon and each default socket is this test's.
        command.env("XDG_RUNTIME_DIR", self.folder.path()).env("HOME", self.folder.path()).env_remove("NOTIFY_SOCKET");
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        ran(self.command(arguments))
    }

    /// On the database itself, without a daemon.
    pub(crate) fn on_db(&self, arguments: &[&str]) -> Ran {
        let db = self.db();
        self.run(&[arguments, &["--db", &db]].concat())
    }

    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &str) -> Ran {
        let mut command = self.command(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // A run that does not read its input to the end is within its rights.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        Ran::of(child.wait_with_output().unwrap())
    }
}

pub(crate) fn ran(mut command: Command) -> Ran {
    Ran::of(command.output().unwrap())
}

impl Ran {
    fn of(output: std::process::Output) -> Self {
        Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Its output, after it did what it was asked.
    #[track_caller]
    pub(crate) fn succeeded(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        assert_eq!(self.stderr, "", "{self:?}");
        self.stdout
    }

    /// Its one JSON document.
    #[track_caller]
    pub(crate) fn json(self) -> Value {
        let text = self.succeeded();
        assert_eq!(text.lines().count(), 1, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Its one line of an error: with this exit code, and these words.
    #[track_caller]
    pub(crate) fn failed(self, code: i32, words: &[&str]) -> String {
        assert_eq!(self.code, code, "{self:?}");
        assert!(self.stderr.starts_with("error: ") && self.stderr.ends_with('\n'), "{self:?}");
        assert_eq!(self.stderr.lines().count(), 1, "{self:?}");
        assert!(!self.stderr.contains("panicked"), "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "{word} is missing: {self:?}");
        }
        self.stdout
    }

    /// The only line of its output, after it did what it was asked.
    #[track_caller]
    pub(crate) fn line(self) -> String {
        let text = self.succeeded();
        assert_eq!(text.lines().count(), 1, "{text}");
        text.trim_end().to_owned()
    }
}

/// The shape that scripts rely on: exactly these keys.
#[track_caller]
pub(crate) fn has_keys<const N: usize>(value: &Value, mut expected: [&str; N]) {
    let mut found: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

/// Waits until a file has so many lines, and gives them: how a test learns what programs did.
pub(crate) fn lines_of(path: &Path, count: usize) -> Vec<String> {
    loop {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if text.matches('\n').count() >= count {
            return text.lines().map(str::to_owned).collect();
        }
        std::thread::yield_now();
    }
}
