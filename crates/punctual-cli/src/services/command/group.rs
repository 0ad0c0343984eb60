//! A program's process group: what is signalled together.

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use std::process::ExitStatus;
use std::time::Duration;
use tokio::process::Child;
use tokio::time::{sleep, timeout};

/// How often it is looked whether a group is gone. Others' children cannot be waited for.
const LOOK: Duration = Duration::from_millis(20);

/// How long a killed process may take to be gone. It takes longer only while the kernel holds it, which nobody can hurry.
const KILLED_WITHIN: Duration = Duration::from_millis(500);

/// The group of a child that was started as its leader. Dropped before it has ended or was left, it is killed.
///
/// The kernel does not give a group's number to another while the group has a member. That it is empty is seen by a
/// signal that finds nobody, and then nothing is sent to it any more.
#[derive(Debug)]
pub(super) struct Group {
    id: Option<Pid>,
}

impl Group {
    pub(super) fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Group { id }
    }

    /// Leaves its processes alone from now on.
    pub(super) fn leave(&mut self) {
        self.id = None;
    }

    /// Ends all its processes: asks, waits for `grace`, kills. Gives the leader's end, unless the kernel holds it back.
    pub(super) async fn end(&mut self, child: &mut Child, grace: Duration) -> std::io::Result<Option<ExitStatus>> {
        self.send(Signal::TERM);
        if timeout(grace, self.gone(child)).await.is_err() {
            self.send(Signal::KILL);
            // Even the killed take a moment, and what they hold is free only then.
            let _ = timeout(KILLED_WITHIN, self.gone(child)).await;
        }
        self.leave();
        child.try_wait()
    }

    /// Waits until none of its processes runs.
    async fn gone(&self, child: &mut Child) {
        // An error is met again by who asks for the status.
        let _ = child.wait().await;
        while self.is_alive() {
            sleep(LOOK).await;
        }
    }

    fn send(&self, signal: Signal) {
        if let Some(id) = self.id {
            // Nobody left is what was wanted.
            let _ = kill_process_group(id, signal);
        }
    }

    /// Whether a process of it runs. One that has ended and waits to be collected, by whoever inherited it, does not.
    fn is_alive(&self) -> bool {
        let Some(id) = self.id else { return false };
        if test_kill_process_group(id).is_err() {
            return false;
        }
        match std::fs::read_dir("/proc") {
            Ok(entries) => entries.flatten().any(|entry| {
                let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
                is_running_member(&stat, id)
            }),
            // Without that folder the signal's answer has to do.
            Err(_) => true,
        }
    }
}

/// Whether a line of `/proc/PID/stat` is that of a running process of the group (proc_pid_stat(5)).
fn is_running_member(stat: &str, group: Pid) -> bool {
    // The name in parentheses may hold anything, parentheses included.
    let Some((_, rest)) = stat.rsplit_once(')') else { return false };
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next();
    let member = fields.nth(1).and_then(|field| field.parse().ok()) == Some(group.as_raw_nonzero().get());
    member && !matches!(state, Some("Z" | "X"))
}

impl Drop for Group {
    fn drop(&mut self) {
        self.send(Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process counts by its group and its state, whatever it calls itself.
    #[test]
    fn members_are_recognised() {
        let group = Pid::from_raw(77).unwrap();
        assert!(is_running_member("80 (sh) S 1 77 77 0 -1", group));
        assert!(is_running_member("80 (a) Z 1 (b) R 1 77 5", group));
        for other in ["80 (sh) Z 1 77 77", "80 (sh) S 77 78 77", "80 (sh", "", "80 (sh) S"] {
            assert!(!is_running_member(other, group), "{other}");
        }
    }
}
