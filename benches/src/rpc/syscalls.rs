//! Writes and reads of a client, counted by strace in a run of its own, where strace is installed.

use std::path::Path;
use std::process::Command;

const WRITES: [&str; 5] = ["write", "writev", "sendto", "sendmsg", "sendmmsg"];
const READS: [&str; 5] = ["read", "readv", "recvfrom", "recvmsg", "recvmmsg"];

pub fn available() -> bool {
    Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success())
}

/// A command that runs `program` with its writes and reads counted into `report`.
pub fn traced(program: &Path, report: &Path) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-c", "-e"]).arg(format!("trace={},{}", WRITES.join(","), READS.join(",")));
    command.arg("-o").arg(report).arg(program);
    command
}

/// Writes and reads in a report of [`traced`].
pub fn read(report: &Path) -> anyhow::Result<(u64, u64)> {
    let text = std::fs::read_to_string(report)?;
    let (mut writes, mut reads) = (0, 0);
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (Some(name), Some(calls)) = (words.last(), words.get(3).and_then(|calls| calls.parse::<u64>().ok())) else {
            continue;
        };
        if WRITES.contains(name) {
            writes += calls;
        } else if READS.contains(name) {
            reads += calls;
        }
    }
    Ok((writes, reads))
}
