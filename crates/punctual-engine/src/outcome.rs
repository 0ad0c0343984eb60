//! How a task ended, with the types of its method.

use crate::record::read_error;
use crate::shared::Shared;
use crate::{Error, ErrorKind};
use punctual_task::{Outcome, TaskDetail, TaskId, TaskState};
use serde::de::DeserializeOwned;
use std::fmt;
use std::time::Duration;

/// The first wait before a task that another process may run is looked at again; it doubles to [`POLL_LAST`].
const POLL_FIRST: Duration = Duration::from_millis(50);
const POLL_LAST: Duration = Duration::from_secs(1);

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskEnd<T, E> {
    /// With this result.
    Succeeded(T),
    /// For good, after its last attempt.
    Failed(TaskError<E>),
    /// It was cancelled.
    Cancelled,
    /// It was not started in time.
    Expired,
}

/// Why a task failed: what its last attempt ended with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskError<E> {
    /// How the last attempt ended: failed, panicked, timed out or lost.
    pub outcome: Outcome,
    /// What went wrong, for people.
    pub message: String,
    /// The method's own error, if it returned one and it still reads as this type.
    pub error: Option<E>,
}

impl<E> fmt::Display for TaskError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.outcome.as_str(), self.message)
    }
}

impl<E: fmt::Debug> std::error::Error for TaskError<E> {}

impl<T, E> TaskEnd<T, E> {
    /// The result, if it succeeded.
    #[must_use]
    pub fn succeeded(self) -> Option<T> {
        match self {
            TaskEnd::Succeeded(value) => Some(value),
            _ => None,
        }
    }

    /// The error, if it failed.
    #[must_use]
    pub fn failed(self) -> Option<TaskError<E>> {
        match self {
            TaskEnd::Failed(error) => Some(error),
            _ => None,
        }
    }
}

/// Reads the end of a task; `None` while it has not ended.
fn read<T: DeserializeOwned, E: DeserializeOwned>(detail: &TaskDetail) -> Result<Option<TaskEnd<T, E>>, Error> {
    let last = detail.attempts.last();
    Ok(match detail.view.state {
        TaskState::Succeeded => {
            let out = last.map(|attempt| &attempt.out[..]).unwrap_or_default();
            let value = serde_json::from_slice(out).map_err(|error| {
                let text = format!(
                    "the result of task {} ({}) does not read as the type asked for: {error}",
                    detail.view.id, detail.view.method
                );
                Error::new(ErrorKind::Payload, text)
            })?;
            Some(TaskEnd::Succeeded(value))
        }
        TaskState::Failed => {
            let outcome = last.map_or(Outcome::Failed, |attempt| attempt.outcome);
            let (message, error) = last.map(|attempt| read_error(&attempt.out)).unwrap_or_default();
            Some(TaskEnd::Failed(TaskError { outcome, message, error }))
        }
        TaskState::Cancelled => Some(TaskEnd::Cancelled),
        TaskState::Expired => Some(TaskEnd::Expired),
        TaskState::Waiting | TaskState::Parked | TaskState::Running => None,
    })
}

impl Shared {
    pub(crate) async fn outcome<T, E>(&self, id: TaskId) -> Result<Option<TaskEnd<T, E>>, Error>
    where
        T: DeserializeOwned,
        E: DeserializeOwned,
    {
        match self.store.task(id).await? {
            Some(detail) => read(&detail),
            None => Err(Error::new(ErrorKind::NotFound, format!("there is no task {id}"))),
        }
    }

    pub(crate) async fn wait<T, E>(&self, id: TaskId) -> Result<TaskEnd<T, E>, Error>
    where
        T: DeserializeOwned,
        E: DeserializeOwned,
    {
        let waiting = self.waiters.wait(id);
        let mut poll = POLL_FIRST;
        loop {
            let told = waiting.ended.notified();
            tokio::pin!(told);
            // Registered before the look, so that an end between look and wait is not missed.
            told.as_mut().enable();
            match self.outcome(id).await {
                Ok(Some(end)) => return Ok(end),
                Ok(None) => {}
                Err(error) if error.is_retryable() => {}
                Err(error) => return Err(error),
            }
            // Not cut short by the end of the engine: another process may run the task, and the look would spin.
            tokio::select! {
                biased;
                () = told => poll = POLL_FIRST,
                () = tokio::time::sleep(poll) => poll = (poll * 2).min(POLL_LAST),
            }
        }
    }
}
