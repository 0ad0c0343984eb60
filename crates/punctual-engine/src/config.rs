//! How an engine behaves: every knob, its default, and the checks that keep them consistent.

use crate::{Error, ErrorKind};
use punctual_task::worker::{LEASE_DEFAULT, RENEWAL_DEFAULT, RESCUE_DEFAULT, STOP_AFTER_DEFAULT};
use punctual_task::{Retention, Sweep, check_name};
use std::time::Duration;

/// What happens to running handlers while it is in doubt whether this worker's lease holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnDoubt {
    /// They are cancelled, and what they held is given back: nothing runs twice at once.
    #[default]
    Stop,
    /// They go on. Another worker may begin the same tasks meanwhile; only one finish is accepted.
    Finish,
}

/// How an engine behaves.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct EngineConfig {
    /// How many attempts run at once. 64 by default: handlers wait for others most of the time.
    pub slots: u32,
    /// How many claimed tasks may wait in memory for a slot; as many are asked for as recent speed says will start
    /// within 100 ms. 1,000 by default: two commits' worth.
    pub prefetch_max: u32,
    /// The queues to claim from; empty (the default) means all.
    pub queues: Vec<String>,
    /// How often the store is asked for work when nothing is known to be due; jittered by 20 %. 1 s by default.
    pub poll: Duration,
    /// The same just after a claim that found something. 100 ms by default.
    pub poll_busy: Duration,
    /// How long the lease lasts without renewal. 15 s by default.
    pub lease: Duration,
    /// How often it is renewed. 3 s by default.
    pub renewal: Duration,
    /// How long after sending the last good renewal the handlers are stopped. 10 s by default.
    pub stop_after: Duration,
    /// How often dead workers are looked for. 5 s by default.
    pub rescue: Duration,
    /// What happens to running handlers while the lease is in doubt.
    pub on_doubt: OnDoubt,
    /// How long a handler may take to end after an operator's cancel before it is dropped. 10 s by default.
    pub cancel_grace: Duration,
    /// The same after its budget ended, the lease came into doubt, or a shutdown's grace ended. 2 s by default.
    pub stop_grace: Duration,
    /// A handler that blocks its thread, and so cannot be dropped, is given up this long after its budget ended.
    /// 5 minutes by default.
    pub abandon_after: Duration,
    /// How long an enqueue waits for a store that is unavailable before it fails. Zero by default: the caller is told.
    pub enqueue_wait: Duration,
    /// At most this many attempts are finished in one commit. 1,000 by default: more gain nothing.
    pub finish_batch_max: u32,
    /// What one pass over due schedules may do.
    pub sweep: Sweep,
    /// How long ended tasks are kept; `None` keeps them for ever.
    pub retention: Option<Retention>,
    /// How often old tasks are looked for. 60 s by default.
    pub prune_every: Duration,
    /// Whether the lease is renewed on a thread of its own, so that handlers that block the runtime do not cost it.
    /// True by default; false renews on the runtime, for programs that must not have more threads.
    pub lease_thread: bool,
}

impl Default for EngineConfig {
    fn default() -> Self {
        EngineConfig {
            slots: 64,
            prefetch_max: 1_000,
            queues: Vec::new(),
            poll: Duration::from_secs(1),
            poll_busy: Duration::from_millis(100),
            lease: LEASE_DEFAULT,
            renewal: RENEWAL_DEFAULT,
            stop_after: STOP_AFTER_DEFAULT,
            rescue: RESCUE_DEFAULT,
            on_doubt: OnDoubt::Stop,
            cancel_grace: Duration::from_secs(10),
            stop_grace: Duration::from_secs(2),
            abandon_after: Duration::from_secs(300),
            enqueue_wait: Duration::ZERO,
            finish_batch_max: 1_000,
            sweep: Sweep::default(),
            retention: Some(Retention::default()),
            prune_every: Duration::from_secs(60),
            lease_thread: true,
        }
    }
}

impl EngineConfig {
    /// The most slots: a lane of each is a task of the runtime.
    pub const SLOTS_MAX: u32 = 10_000;
    /// The most prefetched tasks: what a crash makes suspect must stay small.
    pub const PREFETCH_MAX: u32 = 10_000;
    /// The most queues that one engine names; one that serves more serves all.
    pub const QUEUES_MAX: usize = 100;
    /// The shortest poll.
    pub const POLL_MIN: Duration = Duration::from_millis(1);

    /// Refuses what cannot work.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] names the knob, its value and the limit.
    pub fn validate(&self) -> Result<(), Error> {
        let refuse = |text: String| Err(Error::new(ErrorKind::Config, text));
        if self.slots == 0 || self.slots > Self::SLOTS_MAX {
            return refuse(format!("slots is {}; it must be 1 to {}", self.slots, Self::SLOTS_MAX));
        }
        if self.prefetch_max > Self::PREFETCH_MAX {
            return refuse(format!("prefetch_max is {}; it must be at most {}", self.prefetch_max, Self::PREFETCH_MAX));
        }
        if self.finish_batch_max == 0 || self.finish_batch_max > 10_000 {
            return refuse(format!("finish_batch_max is {}; it must be 1 to 10000", self.finish_batch_max));
        }
        if self.queues.len() > Self::QUEUES_MAX {
            return refuse(format!(
                "{} queues are named; at most {} may be: leave the list empty to serve all",
                self.queues.len(),
                Self::QUEUES_MAX
            ));
        }
        for queue in &self.queues {
            check_name("queue", queue).map_err(|error| Error::new(ErrorKind::Config, error.to_string()))?;
        }
        for (name, value) in [
            ("poll", self.poll),
            ("poll_busy", self.poll_busy),
            ("renewal", self.renewal),
            ("rescue", self.rescue),
            ("prune_every", self.prune_every),
        ] {
            if value < Self::POLL_MIN {
                return refuse(format!("{name} is {value:?}; it must be at least {:?}", Self::POLL_MIN));
            }
        }
        if self.renewal >= self.stop_after {
            return refuse(format!(
                "renewal is {:?}; it must be shorter than stop_after ({:?}), or every handler would be stopped",
                self.renewal, self.stop_after
            ));
        }
        if self.stop_after.saturating_add(self.stop_grace) > self.lease {
            return refuse(format!(
                "stop_after ({:?}) and stop_grace ({:?}) must end within the lease ({:?}): a handler that outlives it \
                 runs beside its replacement",
                self.stop_after, self.stop_grace, self.lease
            ));
        }
        if self.sweep.schedules_max == 0 || self.sweep.window_max == 0 {
            return refuse("sweep's schedules_max and window_max must be at least 1".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The defaults hold together, and each inconsistent setting is refused by its name.
    #[test]
    fn settings_are_checked() {
        assert!(EngineConfig::default().validate().is_ok());
        let check = |change: fn(&mut EngineConfig), name: &str| {
            let mut config = EngineConfig::default();
            change(&mut config);
            let error = config.validate().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.to_string().contains(name), "{error}");
        };
        check(|c| c.slots = 0, "slots");
        check(|c| c.slots = 10_001, "slots");
        check(|c| c.prefetch_max = 10_001, "prefetch_max");
        check(|c| c.finish_batch_max = 0, "finish_batch_max");
        check(|c| c.queues = vec![String::new()], "queue");
        check(|c| c.poll = Duration::ZERO, "poll");
        check(|c| c.renewal = Duration::from_secs(10), "renewal");
        check(|c| c.stop_grace = Duration::from_secs(6), "stop_grace");
        check(|c| c.sweep.window_max = 0, "window_max");
    }
}
