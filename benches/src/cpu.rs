//! Pinning, and the processor time of another process.

use std::fs;

/// Binds this process to one core, so that client and server do not wander. Says whether the kernel agreed.
pub fn pin(core: usize) -> bool {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    rustix::thread::sched_setaffinity(None, &set).is_ok()
}

/// Nanoseconds that all threads of `pid` have run, by the scheduler's own account.
pub fn run_nanos(pid: u32) -> u64 {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("schedstat")).ok())
        .filter_map(|text| text.split_whitespace().next().and_then(|nanos| nanos.parse::<u64>().ok()))
        .sum()
}

/// The largest resident memory of `pid` so far, in KiB.
pub fn peak_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.split_whitespace().next()).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}
