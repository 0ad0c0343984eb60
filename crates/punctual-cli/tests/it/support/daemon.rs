//! A daemon of the test's own, on a Unix socket in its folder and a TCP port that the system chose.

use super::binary::{Ran, Workspace};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};

/// A running `punctual serve`. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Daemon<'a> {
    workspace: &'a Workspace,
    child: Child,
    ready: Value,
}

impl<'a> Daemon<'a> {
    /// On the workspace's database, with these arguments besides, once it is ready.
    pub(crate) fn start(workspace: &'a Workspace, arguments: &[&str]) -> Self {
        let socket = format!("unix:{}", workspace.text("d.sock"));
        let db = workspace.db();
        let fixed = ["serve", "--json", "--db", &db, "--listen", &socket, "--listen", "tcp://127.0.0.1:0"];
        Self::start_as(workspace, workspace.command(&[&fixed, arguments].concat()))
    }

    /// The same with the whole command.
    pub(crate) fn start_as(workspace: &'a Workspace, mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        match serde_json::from_str(&line) {
            Ok(ready) => Daemon { workspace, child, ready },
            Err(_) => {
                let mut told = String::new();
                let _ = child.stderr.take().unwrap().read_to_string(&mut told);
                panic!("not ready: {line:?} {told}");
            }
        }
    }

    /// What it said when it was ready.
    pub(crate) fn ready(&self) -> &Value {
        &self.ready
    }

    /// Its address of this scheme.
    #[track_caller]
    pub(crate) fn address(&self, scheme: &str) -> String {
        let addresses = self.ready["addresses"].as_array().unwrap();
        let found = addresses.iter().filter_map(Value::as_str).find(|address| address.starts_with(scheme));
        found.unwrap_or_else(|| panic!("no {scheme} in {:?}", self.ready)).to_owned()
    }

    /// The binary against it, over the Unix socket.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        let address = self.address("unix:");
        self.workspace.run(&[arguments, &["--addr", &address]].concat())
    }

    /// Asks until the answer does, and gives it.
    pub(crate) fn until(&self, arguments: &[&str], mut done: impl FnMut(&Value) -> bool) -> Value {
        loop {
            let answer = self.run(&[arguments, &["--json"]].concat()).json();
            if done(&answer) {
                return answer;
            }
        }
    }

    /// A task's report, once the task has ended.
    pub(crate) fn ended(&self, id: &str) -> Value {
        self.until(&["tasks", "show", id], |report| {
            !matches!(report["task"]["state"].as_str(), Some("waiting" | "parked" | "running"))
        })
    }

    /// How many sockets it has open. Its other descriptors come and go with what the engine asks of the database.
    pub(crate) fn sockets(&self) -> usize {
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap();
        // One that was closed since the folder was read is no socket any more.
        let name = |entry: std::io::Result<std::fs::DirEntry>| std::fs::read_link(entry.unwrap().path()).ok();
        open.filter_map(name).filter(|name| name.to_string_lossy().starts_with("socket:")).count()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Stops it as SIGSTOP does, and returns once it stands still.
    pub(crate) fn freeze(&self) {
        self.signal(rustix::process::Signal::STOP);
        let threads = format!("/proc/{}/task", self.child.id());
        let stopped = |thread: std::io::Result<std::fs::DirEntry>| {
            // The state stands behind the name, which is in parentheses.
            std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap().contains(") T ")
        };
        while !std::fs::read_dir(&threads).unwrap().all(stopped) {
            std::thread::yield_now();
        }
    }

    /// Its end, and what it logged.
    pub(crate) fn wait(mut self) -> (ExitStatus, String) {
        let mut logged = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut logged).unwrap();
        }
        (self.child.wait().unwrap(), logged)
    }

    /// Its log, to be read while it runs.
    pub(crate) fn log(&mut self) -> BufReader<ChildStderr> {
        BufReader::new(self.child.stderr.take().unwrap())
    }

    /// Tells it to stop, and sees it stop in order.
    #[track_caller]
    pub(crate) fn stop(self) -> String {
        self.signal(rustix::process::Signal::TERM);
        let (status, logged) = self.wait();
        assert!(status.success(), "{status}: {logged}");
        logged
    }

    /// Kills it as a power cut would, as far as the process is concerned.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
