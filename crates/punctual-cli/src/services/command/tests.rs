//! Programs run, bounded and ended.

use super::*;
use punctual::clock::{Clock, Instant, SystemClock};
use punctual::{Peer, TaskScope};
use std::sync::Arc;
use std::task::{self, Poll};
use tokio::sync::watch;

const GRACE: Duration = Duration::from_secs(60);

fn service() -> CommandService {
    CommandService::new(GRACE, GRACE)
}

fn shell(line: &str) -> command::Run {
    command::Run {
        program: line.to_owned(),
        args: Vec::new(),
        env: BTreeMap::new(),
        dir: None,
        stdin: None,
        shell: true,
        user: None,
    }
}

async fn run(call: command::Run) -> Result<Finished, CommandError> {
    service().execute(call).await
}

/// A runtime whose one attempt is cancelled when the test says so.
#[derive(Debug)]
struct TestHost {
    cancel: watch::Receiver<Option<CancelReason>>,
    peer: Option<Peer>,
}

impl punctual_context::Host for TestHost {
    fn clock(&self) -> &dyn Clock {
        &SystemClock
    }

    fn peer(&self) -> Option<&Peer> {
        self.peer.as_ref()
    }

    fn cancel_reason(&self, _key: u64) -> Option<CancelReason> {
        *self.cancel.borrow()
    }

    fn poll_cancelled(&self, _key: u64, cx: &mut task::Context<'_>) -> Poll<CancelReason> {
        let mut cancel = self.cancel.clone();
        let waker = cx.waker().clone();
        if let Some(reason) = *cancel.borrow() {
            return Poll::Ready(reason);
        }
        tokio::spawn(async move {
            let _ = cancel.changed().await;
            waker.wake();
        });
        Poll::Pending
    }
}

fn context(peer: Option<&str>) -> (Context, watch::Sender<Option<CancelReason>>) {
    let (cancel, seen) = watch::channel(None);
    let peer = peer.map(Peer::new);
    let host = Arc::new(TestHost { cancel: seen, peer });
    (Context::new(host, 0, Instant::FAR), cancel)
}

/// Reads lines of a file until one is there: how a test learns what a program did, without guessing how long it takes.
async fn first_line(path: &Path) -> String {
    loop {
        match std::fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ => tokio::task::yield_now().await,
        }
    }
}

fn is_alive(pid: &str) -> bool {
    // A zombie is gone as far as anybody is concerned but its parent.
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
}

/// The exit status decides, and both outputs are kept either way.
#[tokio::test]
async fn the_exit_status_decides() {
    let finished = run(shell("echo out; echo err >&2")).await.unwrap();
    assert_eq!((finished.stdout.text.as_str(), finished.stderr.text.as_str()), ("out\n", "err\n"));
    let failed = run(shell("echo out; echo err >&2; exit 75")).await.unwrap_err();
    let CommandError::Exited { status, stdout, stderr } = &failed else { panic!("{failed:?}") };
    assert_eq!((*status, stdout.text.as_str(), stderr.text.as_str()), (75, "out\n", "err\n"));
    let killed = run(shell("kill -9 $$")).await.unwrap_err();
    assert!(matches!(killed, CommandError::Killed { signal: 9, reason: None, .. }), "{killed:?}");
}

/// No shell reads a program's arguments unless one is asked for, and then they are its parameters.
#[tokio::test]
async fn no_shell_unless_asked() {
    let plain = command::Run {
        program: "printf".to_owned(),
        args: vec!["%s|".to_owned(), "$HOME".to_owned(), "a b".to_owned(), "; echo no".to_owned()],
        shell: false,
        ..shell("")
    };
    assert_eq!(run(plain).await.unwrap().stdout.text, "$HOME|a b|; echo no|");
    let lined = command::Run { args: vec!["a b".to_owned()], ..shell("printf '%s|%s' \"$1\" $#") };
    assert_eq!(run(lined).await.unwrap().stdout.text, "a b|1");
}

/// A program gets its input, and one that does not read it is not held up by it.
#[tokio::test]
async fn input_is_given() {
    let cat = command::Run { stdin: Some("one\ntwo\n".to_owned()), ..shell("cat") };
    assert_eq!(run(cat).await.unwrap().stdout.text, "one\ntwo\n");
    let deaf = command::Run { stdin: Some("x".repeat(1 << 20)), ..shell("exit 0") };
    assert!(run(deaf).await.is_ok());
    assert_eq!(run(shell("cat")).await.unwrap().stdout.bytes, 0, "without input there is nothing to wait for");
}

/// The environment is the task's and a few variables of the worker; its secrets stay its own.
#[tokio::test]
async fn the_environment_is_bounded() {
    let (context, _cancel) = context(None);
    let task = TaskScope::new(33, 2, 5, "Command".to_owned(), SystemClock.timestamp());
    let context = context.with_task(Arc::new(task));
    let mut call = shell("env");
    call.env.insert("OWN".to_owned(), "1".to_owned());
    let output = context.scope(async move { run(call).await }).await.unwrap().stdout.text;
    let names: Vec<&str> = output.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    for expected in ["OWN", "PATH", "PUNCTUAL_TASK", "PUNCTUAL_ATTEMPT"] {
        assert!(names.contains(&expected), "{expected} is missing: {output}");
    }
    assert!(output.contains("PUNCTUAL_TASK=11\n") && output.contains("PUNCTUAL_ATTEMPT=2\n"), "{output}");
    let known = |name: &&str| {
        INHERITED.contains(name)
            || name.starts_with("LC_")
            || name.starts_with("PUNCTUAL_")
            || ["OWN", "PWD", "OLDPWD", "SHLVL", "_"].contains(name)
    };
    assert!(names.iter().all(known), "{output}");
}

/// A flood of output neither fills the memory nor blocks the program.
#[tokio::test]
async fn output_is_bounded() {
    let finished = run(shell("head -c 5000000 /dev/zero | tr '\\0' x; echo end")).await.unwrap();
    assert_eq!(finished.stdout.bytes, 5_000_004);
    assert!(finished.stdout.cut && finished.stdout.text.len() < 40_000);
    assert!(finished.stdout.text.ends_with("end\n"));
}

/// What cannot be started says so, as an error that no repetition mends.
#[tokio::test]
async fn what_cannot_start_is_refused() {
    let missing = command::Run { program: "no-such-program-here".to_owned(), shell: false, ..shell("") };
    let folder = command::Run { dir: Some("/no/such/folder".to_owned()), ..shell("true") };
    let file = command::Run { program: "/etc/passwd".to_owned(), shell: false, ..shell("") };
    let user = command::Run { user: Some("no-such-user-here".to_owned()), ..shell("true") };
    let no_shell = command::Run { env: [("SHELL".to_owned(), "/no/shell".to_owned())].into(), ..shell("true") };
    for (call, words) in [
        (missing, "no program `no-such-program-here`"),
        (folder, "no directory /no/such/folder"),
        (file, "permissions"),
        (user, "no user"),
        (no_shell, "SHELL"),
    ] {
        let error = run(call).await.unwrap_err();
        assert!(matches!(error, CommandError::Refused { .. }), "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
    }
    for (call, words) in [
        (shell(" "), "empty"),
        (shell("a\0b"), "NUL"),
        (command::Run { dir: Some("here".to_owned()), ..shell("true") }, "absolute"),
        (command::Run { env: [("A=B".to_owned(), String::new())].into(), ..shell("true") }, "variable"),
        (command::Run { args: vec!["x".repeat(200_000)], ..shell("true") }, "stdin"),
        (command::Run { user: Some("-x".to_owned()), ..shell("true") }, "user's name"),
    ] {
        let error = CommandService::check(&call).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}

/// A cancelled program ends with everything in its group, asked first; nothing of it is left.
#[tokio::test]
async fn a_cancelled_program_ends_with_its_group() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let (context, cancel) = context(None);
    // The shell and its child ignore nothing: SIGTERM is enough for both.
    let line = format!("sleep 1000 & echo $$ $! > {}; wait", file.display());
    let running = tokio::spawn(context.scope(async move { run(shell(&line)).await }));
    let pids = first_line(&file).await;
    cancel.send_replace(Some(CancelReason::User));
    let error = running.await.unwrap().unwrap_err();
    assert!(matches!(&error, CommandError::Killed { signal: 15, reason: Some(_), .. }), "{error:?}");
    for pid in pids.split(' ') {
        assert!(!is_alive(pid), "{pid} of {pids} lives on");
    }
}

/// A program that does not heed SIGTERM is killed, and so is the rest of its group.
#[tokio::test]
async fn a_stubborn_program_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let (context, cancel) = context(None);
    let line = format!("trap '' TERM; sleep 1000 & echo $$ $! > {}; wait; wait; sleep 1000", file.display());
    let service = CommandService::new(Duration::from_millis(20), Duration::from_millis(20));
    let running = tokio::spawn(context.scope(async move { service.execute(shell(&line)).await }));
    let pids = first_line(&file).await;
    cancel.send_replace(Some(CancelReason::Deadline));
    let error = running.await.unwrap().unwrap_err();
    assert!(matches!(&error, CommandError::Killed { signal: 9, reason: Some(_), .. }), "{error:?}");
    for pid in pids.split(' ') {
        assert!(!is_alive(pid), "{pid} of {pids} lives on");
    }
}

/// A handler that is dropped leaves no program behind.
#[tokio::test]
async fn a_dropped_handler_kills_its_group() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let line = format!("trap '' TERM; sleep 1000 & echo $$ $! > {}; wait; sleep 1000", file.display());
    let running = tokio::spawn(async move { run(shell(&line)).await });
    let pids = first_line(&file).await;
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    for pid in pids.split(' ') {
        while is_alive(pid) {
            tokio::task::yield_now().await;
        }
    }
}

/// What a program leaves running when it ends by itself goes on, and does not hold up the result.
#[tokio::test]
async fn background_programs_are_left_alone() {
    let finished = run(shell("sleep 1000 & echo $!")).await.unwrap();
    let pid = finished.stdout.text.trim().to_owned();
    assert!(is_alive(&pid), "{pid} was ended");
    let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// Programs are run for tasks, and for peers on a socket file, which only this user reaches; not for whoever finds a TCP port
/// or an abstract name.
#[tokio::test]
async fn open_peers_are_refused() {
    for (peer, allowed) in [
        (None, true),
        (Some("unix:/run/punctual.sock"), true),
        (Some("unix:d.sock"), true),
        (Some("inproc:admin"), true),
        (Some("shm:/run/punctual.shm"), true),
        (Some("unix:@punctual"), false),
        (Some("tcp://127.0.0.1:40000"), false),
    ] {
        let (context, _cancel) = context(peer);
        let result = context.scope(async { run(shell("true")).await }).await;
        assert_eq!(result.is_ok(), allowed, "{peer:?}: {result:?}");
    }
}
