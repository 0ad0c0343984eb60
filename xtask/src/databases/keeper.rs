//! Who ends the servers: a small shell beside us, which does so as soon as our end of a pipe closes. That happens whatever
//! ends this process, be it its last line, a panic, Ctrl-C or a kill that no handler sees.

use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context, Result};

use super::account;

/// Reads lines of a signal and a process until its input closes; then ends these processes, harder after twenty seconds,
/// and removes the folder. It is asked with QUIT or KILL, since nothing of the data is to be kept; a process whose last line
/// is GONE is left alone.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
pids=
while read -r signal pid; do
    pids="$pids $pid"
    eval "signal_$pid=$signal"
done
for pid in $pids; do
    eval "signal=\$signal_$pid"
    [ "$signal" = GONE ] || kill -s "$signal" "$pid"
done
for pid in $pids; do
    eval "signal=\$signal_$pid"
    [ "$signal" = GONE ] && continue
    tries=0
    while kill -0 "$pid" && [ "$tries" -lt 400 ]; do
        sleep 0.05
        tries=$((tries + 1))
    done
    kill -s KILL "$pid"
done
rm -rf "$1"
"#;

/// The shell, as long as the servers are to run.
pub(super) struct Keeper {
    shell: Child,
    input: ChildStdin,
}

/// The shell at its work.
pub(super) struct Ending(Child);

impl Keeper {
    /// Starts to keep `folder`, which is removed at the end.
    ///
    /// # Errors
    /// When there is no shell.
    pub(super) fn start(folder: &Path) -> Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "keeper"]).arg(folder);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        account::run_as(&mut command, None);
        let mut shell = command.spawn().context("no shell to look after the database servers")?;
        let input = shell.stdin.take().context("the shell's input was not piped")?;
        Ok(Keeper { shell, input })
    }

    /// Takes charge of a process, to be ended by this signal.
    ///
    /// # Errors
    /// When the shell is gone.
    pub(super) fn keep(&mut self, process: u32, signal: &str) -> Result<()> {
        writeln!(self.input, "{signal} {process}").context("the shell that looks after the servers is gone")
    }

    /// A process has ended and was waited for.
    ///
    /// # Errors
    /// When the shell is gone.
    pub(super) fn forget(&mut self, process: u32) -> Result<()> {
        self.keep(process, "GONE")
    }

    /// Has everything ended.
    pub(super) fn release(self) -> Ending {
        drop(self.input);
        Ending(self.shell)
    }
}

impl Ending {
    /// Waits until nothing is left.
    pub(super) fn finish(mut self) {
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::Keeper;
    use std::process::{Command, Stdio};

    /// Guards that what was kept is ended, and the folder gone, when the pipe closes.
    #[test]
    fn the_end_takes_processes_and_folder() {
        let above = tempfile::tempdir().expect("a directory");
        let folder = above.path().join("kept");
        std::fs::create_dir(&folder).expect("made");
        let mut keeper = Keeper::start(&folder).expect("a shell");
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat");
        // Waiting for a child closes its input, which would end this one by itself.
        let _input = child.stdin.take();
        keeper.keep(child.id(), "KILL").expect("the shell listens");
        let ending = keeper.release();
        assert!(!child.wait().expect("an end").success(), "cat was ended from outside");
        ending.finish();
        assert!(!folder.exists());
    }

    /// Guards that what has ended is left alone: its number may be another process's by then.
    #[test]
    fn what_is_forgotten_is_left_alone() {
        let above = tempfile::tempdir().expect("a directory");
        let mut keeper = Keeper::start(&above.path().join("none")).expect("a shell");
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat");
        keeper.keep(child.id(), "KILL").expect("the shell listens");
        keeper.forget(child.id()).expect("the shell listens");
        keeper.release().finish();
        // Waiting closes its input, at which it ends by itself.
        assert!(child.wait().expect("an end").success(), "cat was left alone");
    }
}
