//! A database server that a test has all to itself, so that it may kill it, stop it and start it again.
//!
//! The program that starts the other servers of a test run does it: it is named by the environment, so that nothing here
//! knows where the server's own programs lie. All of it is gone when the value is dropped, and when the test is killed.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Which server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerKind {
    /// PostgreSQL.
    Postgres,
    /// MariaDB.
    Mariadb,
}

impl ServerKind {
    fn name(self) -> &'static str {
        match self {
            ServerKind::Postgres => "postgres",
            ServerKind::Mariadb => "mariadb",
        }
    }

    /// The variable that names a shared server of this kind.
    fn shared(self) -> &'static str {
        match self {
            ServerKind::Postgres => "PUNCTUAL_TEST_POSTGRES",
            ServerKind::Mariadb => "PUNCTUAL_TEST_MARIADB",
        }
    }

    /// The variable that names the program which starts one.
    fn starter(self) -> &'static str {
        match self {
            ServerKind::Postgres => "PUNCTUAL_TEST_POSTGRES_STARTER",
            ServerKind::Mariadb => "PUNCTUAL_TEST_MARIADB_STARTER",
        }
    }
}

/// A server that runs, and syncs what it acknowledges.
#[derive(Debug)]
pub struct PrivateServer {
    child: Child,
    /// `None` only while it is dropped.
    input: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
    url: String,
}

impl PrivateServer {
    /// Starts one. Where the environment names a server of the user's own instead, which is not ours to kill, the answer is `None`
    /// and a line of standard error says why.
    ///
    /// # Panics
    /// Where the environment names neither, with what to run, and when the server does not start.
    #[must_use]
    pub fn start(kind: ServerKind) -> Option<Self> {
        let named = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let Some(program) = named(kind.starter()) else {
            let shared = kind.shared();
            assert!(named(shared).is_some(), "{} is not set: run `cargo xtask test`", kind.starter());
            eprintln!("SKIPPED: {shared} names a server that this test may not kill; unset it to have one started");
            return None;
        };
        let mut child = Command::new(&program)
            .args(["databases", "--only", kind.name(), "--durable", "--steered"])
            .env_remove(kind.shared())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{program} does not start: {error}"));
        let input = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("it was piped")).lines();
        let mut server = PrivateServer { child, input, answers, url: String::new() };
        let assignment = format!("export {}='", kind.shared());
        loop {
            let line = server.answers.next().and_then(Result::ok);
            let line = line.expect("a server starts; what is above says why it did not");
            if line == "ready" {
                return Some(server);
            }
            if let Some(value) = line.strip_prefix(&assignment) {
                value.trim_end_matches('\'').clone_into(&mut server.url);
            }
        }
    }

    /// Where clients find it, also after it was started again; PostgreSQL's with its first database, MariaDB's with none.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Kills it, with all sessions, and waits until it is gone.
    ///
    /// # Panics
    /// When it does not run.
    pub fn kill(&mut self) {
        self.say("kill");
    }

    /// Has it end its sessions and stop in order, and waits until it is gone.
    ///
    /// # Panics
    /// When it does not run.
    pub fn stop(&mut self) {
        self.say("stop");
    }

    /// Starts it on the same data, at the same address, and waits until it can be used.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_again(&mut self) {
        self.say("start");
    }

    fn say(&mut self, word: &str) {
        let input = self.input.as_mut().expect("it is there until the end");
        writeln!(input, "{word}").and_then(|()| input.flush()).expect("its starter listens");
        let answer = self.answers.next().and_then(Result::ok).expect("its starter answers");
        assert_eq!(answer, "done", "to {word}");
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
