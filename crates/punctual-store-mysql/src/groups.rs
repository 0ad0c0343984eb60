//! Group commit of small enqueues: while one group is being written, the next gathers.

use crate::errors::Fault;
use crate::shared::{Lanes, Shared};
use crate::tasks;
use punctual_task::{Enqueued, NewTask, StoreError, StoreErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Larger requests are a transaction of their own.
pub(crate) const MEMBER_TASKS_MAX: usize = 50;
/// How many tasks a group has at most.
const GROUP_TASKS_MAX: usize = 500;
/// How many bytes of arguments a group has at most.
const GROUP_BYTES_MAX: usize = 1 << 20;

/// Requests that wait for the next group.
#[derive(Debug, Default)]
pub(crate) struct Groups(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    waiting: Vec<Member>,
    /// Whether somebody writes group after group until none is left.
    led: bool,
}

#[derive(Debug)]
struct Member {
    tasks: Vec<NewTask>,
    caller: oneshot::Sender<Result<Vec<Enqueued>, StoreError>>,
}

impl Member {
    fn bytes(&self) -> usize {
        self.tasks.iter().map(|task| task.args.len()).sum()
    }

    fn answer(self, answer: Result<Vec<Enqueued>, StoreError>) {
        // A caller that went away does not want to know.
        let _ = self.caller.send(answer);
    }
}

/// The duty to write groups until nobody waits. Ended otherwise, as by a panic, it tells those who wait, and the next caller
/// leads: nobody waits for a leader who is gone.
struct Leader<'a>(&'a Groups);

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        let left = {
            let mut state = self.0.state();
            state.led = false;
            std::mem::take(&mut state.waiting)
        };
        drop(left);
    }
}

/// An answer to come, and whether the caller has to see to it that groups are written.
pub(crate) struct Joined {
    pub(crate) answer: oneshot::Receiver<Result<Vec<Enqueued>, StoreError>>,
    pub(crate) leads: bool,
}

impl Groups {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a request may share a commit with others.
    pub(crate) fn takes(tasks: &[NewTask]) -> bool {
        let bytes: usize = tasks.iter().map(|task| task.args.len()).sum();
        tasks.len() <= MEMBER_TASKS_MAX && bytes <= GROUP_BYTES_MAX / 4 && tasks::is_plain(tasks)
    }

    /// Puts a request into the next group.
    pub(crate) fn join(&self, tasks: Vec<NewTask>, waiting_max: usize) -> Result<Joined, StoreError> {
        let (caller, answer) = oneshot::channel();
        let mut state = self.state();
        if state.waiting.len() >= waiting_max {
            return Err(StoreError::new(
                StoreErrorKind::Busy,
                format!("{} enqueues wait already, which is the limit; ask for less at once", state.waiting.len()),
            ));
        }
        state.waiting.push(Member { tasks, caller });
        let leads = !std::mem::replace(&mut state.led, true);
        Ok(Joined { answer, leads })
    }

    fn next(&self) -> Vec<Member> {
        let mut state = self.state();
        let (mut count, mut bytes, mut members) = (0, 0, 0);
        for member in &state.waiting {
            count += member.tasks.len();
            bytes += member.bytes();
            if members > 0 && (count > GROUP_TASKS_MAX || bytes > GROUP_BYTES_MAX) {
                break;
            }
            members += 1;
        }
        if members == 0 {
            state.led = false;
        }
        state.waiting.drain(..members).collect()
    }

    /// Writes group after group until nobody waits.
    pub(crate) async fn lead(&self, shared: &Arc<Shared>, lanes: &Lanes) {
        let leader = Leader(self);
        loop {
            let members = self.next();
            if members.is_empty() {
                // The lead was given up with the last look, and may be somebody else's by now.
                std::mem::forget(leader);
                return;
            }
            if members.len() == 1 {
                for member in members {
                    let answer = write(shared, lanes, Arc::new(member.tasks.clone())).await;
                    member.answer(answer);
                }
                continue;
            }
            let all: Vec<NewTask> = members.iter().flat_map(|member| member.tasks.iter().cloned()).collect();
            match write(shared, lanes, Arc::new(all)).await {
                Ok(given) => {
                    let mut given = given.into_iter();
                    for member in members {
                        let own: Vec<Enqueued> = given.by_ref().take(member.tasks.len()).collect();
                        member.answer(Ok(own));
                    }
                }
                // Nothing is known: all are told so. Otherwise one of them is at fault, and each is tried alone.
                Err(error) if error.kind() == StoreErrorKind::Unavailable => {
                    members.into_iter().for_each(|member| member.answer(Err(error.clone())));
                }
                Err(_) => {
                    for member in members {
                        let answer = write(shared, lanes, Arc::new(member.tasks.clone())).await;
                        member.answer(answer);
                    }
                }
            }
        }
    }
}

/// Writes tasks in a transaction of their own. What turns out to be there already is looked at.
pub(crate) async fn write(
    shared: &Arc<Shared>,
    lanes: &Lanes,
    tasks: Arc<Vec<NewTask>>,
) -> Result<Vec<Enqueued>, StoreError> {
    let mut careful = false;
    lanes
        .run(shared, move |session, sent| {
            let tasks = Arc::clone(&tasks);
            // A second time the first may have arrived.
            let look = std::mem::replace(&mut careful, true);
            *sent = Some(());
            Box::pin(async move {
                match tasks::enqueue(session, &tasks, look).await {
                    Err(fault) if fault.is_duplicate() => Err(Fault::Moved),
                    other => other,
                }
            })
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use punctual_task::{Due, TaskId, TaskOptions};

    /// Where the leader is lost, those who wait are told instead of left waiting, and the next caller leads.
    #[test]
    fn nobody_waits_for_a_lost_leader() {
        let groups = Groups::default();
        let mut first = groups.join(tasks(1), 30).expect("room");
        assert!(first.leads);
        drop(Leader(&groups));
        assert_eq!(first.answer.try_recv().err(), Some(oneshot::error::TryRecvError::Closed));
        assert!(groups.join(tasks(1), 30).expect("room").leads);
    }

    fn tasks(count: i64) -> Vec<NewTask> {
        let task = |id| NewTask {
            id: TaskId(id),
            method: "Demo/run".to_owned(),
            queue: "Demo".to_owned(),
            level: 1,
            due: Due::Now,
            args: Bytes::from_static(b"1"),
            schema: 7,
            options: TaskOptions::default(),
            key: None,
        };
        (1..=count).map(task).collect()
    }

    /// Those who come while a group is written are the next one, which stays within its limits; one caller leads at a time.
    #[test]
    fn groups_gather() {
        let groups = Groups::default();
        let joined: Vec<Joined> = (0..30).map(|_| groups.join(tasks(40), 30).expect("room")).collect();
        assert!(joined.iter().enumerate().all(|(at, joined)| joined.leads == (at == 0)));
        assert!(groups.join(tasks(1), 30).is_err_and(|error| error.is_retryable()));
        let sizes: Vec<usize> = (0..4).map(|_| groups.next().len()).collect();
        assert_eq!(sizes, [12, 12, 6, 0]);
        assert!(groups.join(tasks(1), 30).expect("room").leads, "nobody leads after the last group");
        assert!(Groups::takes(&tasks(50)) && !Groups::takes(&tasks(51)));
    }
}
