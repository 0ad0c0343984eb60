//! The processes of a trial, as the kernel sees them: cores, processor time, memory, descriptors.

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;

/// The name of the server's threads, by which its time is told from the client's inside one process.
pub const SERVER_THREAD: &str = "bench-server";

/// Binds the calling thread, and those it starts, to these cores. Says whether the kernel agreed.
pub fn pin(cores: &[usize]) -> bool {
    let mut set = rustix::thread::CpuSet::new();
    for core in cores {
        set.set(*core);
    }
    rustix::thread::sched_setaffinity(None, &set).is_ok()
}

/// Whether the kernel binds this program's threads to cores. The asking thread stays where it may run now.
pub fn can_pin() -> bool {
    let now = rustix::thread::sched_getaffinity(None);
    now.is_ok_and(|set| rustix::thread::sched_setaffinity(None, &set).is_ok())
}

/// Nanoseconds that threads of `pid` have run, by the scheduler's own account: those of the server's name, and the others.
pub fn run_nanos(pid: u32) -> (u64, u64) {
    let (mut servers, mut others) = (0, 0);
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return (0, 0) };
    for thread in threads.flatten() {
        let read = |file: &str| fs::read_to_string(thread.path().join(file)).unwrap_or_default();
        let nanos = read("schedstat").split_whitespace().next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0);
        *if read("comm").trim_end() == SERVER_THREAD { &mut servers } else { &mut others } += nanos;
    }
    (servers, others)
}

/// The largest resident memory of `pid` so far, in KiB.
pub fn peak_kib(pid: u32) -> u64 {
    status_kib(pid, "VmHWM:")
}

/// The resident memory of `pid` now, in KiB.
pub fn resident_kib(pid: u32) -> u64 {
    status_kib(pid, "VmRSS:")
}

fn status_kib(pid: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

/// The descriptors that a process may have here when it asks for all.
pub fn descriptors_max() -> u64 {
    getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX)
}

/// Asks for all descriptors that this process may have.
pub fn raise_descriptors() -> anyhow::Result<()> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).context("raise the limit of descriptors")
}
