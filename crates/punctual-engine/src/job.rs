//! A claimed task in memory, with the fence that it was claimed under.

use punctual_task::{Claimed, WorkerId};

/// A claimed task.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) claimed: Claimed,
    /// The registration that claimed it: its finish carries this one, also after the engine drew another.
    pub(crate) worker: WorkerId,
}

impl Job {
    /// Whether a dead worker held it before: such a task runs alone among its kind.
    pub(crate) fn is_suspect(&self) -> bool {
        self.claimed.losses > 0
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use bytes::Bytes;
    use punctual_clock::Timestamp;
    use punctual_task::{TaskId, TaskOptions};

    /// A job for tests of what holds jobs.
    pub(crate) fn job(id: i64) -> Job {
        Job {
            claimed: Claimed {
                task: TaskId(id),
                n: 1,
                spent: 0,
                losses: 0,
                method: "Billing/charge".to_owned(),
                queue: "Billing".to_owned(),
                args: Bytes::new(),
                schema: 0,
                options: TaskOptions::default(),
                created: Timestamp::EPOCH,
                due: Timestamp::EPOCH,
                occurrence: None,
            },
            worker: WorkerId(1),
        }
    }

    /// The same, held by a worker that died.
    pub(crate) fn suspect(id: i64) -> Job {
        let mut job = job(id);
        job.claimed.losses = 1;
        job
    }
}
