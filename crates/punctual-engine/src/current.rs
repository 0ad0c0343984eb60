//! The attempt that code runs in: what a handler says to the engine beside its result.

use crate::lane::Lane;
use crate::{Error, ErrorKind, Verdict};
use bytes::Bytes;
use punctual_clock::Timestamp;
use punctual_context::Context;
use punctual_task::{
    CHECKPOINT_BYTES_MAX, FOLLOW_UPS_MAX, FollowOn, NewTask, PAYLOAD_BYTES_MAX, PROGRESS_MESSAGE_BYTES_MAX, Report,
    TaskId,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// The durable attempt that this code runs in.
///
/// What is said to it counts as long as its handler runs; to one that has ended nothing can be said. Clones are the same attempt.
#[derive(Debug, Clone)]
pub struct Attempt {
    lane: Arc<Lane>,
    key: u64,
    task: TaskId,
}

/// What a handler said while it ran.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// What becomes of the task if the handler returns an error.
    pub(crate) on_error: Option<Verdict>,
    /// Tasks that are written with the end, which have no ids yet.
    pub(crate) follow_ups: Vec<(FollowOn, NewTask)>,
    percent: Option<u8>,
    message: String,
    /// What no report has taken yet.
    checkpoint: Option<Bytes>,
    /// Whether something was said that no report has taken.
    said: bool,
}

impl Notes {
    /// What was said since the last report.
    pub(crate) fn take_report(&mut self, task: TaskId, n: u32, at: Timestamp) -> Option<Report> {
        let report = |notes: &mut Notes| Report {
            task,
            n,
            at,
            percent: notes.percent,
            message: notes.message.clone(),
            checkpoint: notes.checkpoint.take(),
        };
        std::mem::take(&mut self.said).then(|| report(self))
    }

    /// Adds tasks, all or none.
    ///
    /// # Errors
    /// Beyond the limits of one attempt.
    pub(crate) fn follow(&mut self, on: FollowOn, tasks: Vec<NewTask>) -> Result<(), Error> {
        let count = self.follow_ups.len().saturating_add(tasks.len());
        if count > FOLLOW_UPS_MAX {
            let text = format!(
                "{count} follow-ups of one attempt are more than the limit of {FOLLOW_UPS_MAX}; enqueue one that enqueues them"
            );
            return Err(Error::new(ErrorKind::Refused, text));
        }
        let all = self.follow_ups.iter().map(|(_, task)| task).chain(&tasks);
        let bytes = all.fold(0usize, |sum, task| sum.saturating_add(task.args.len()));
        if bytes > PAYLOAD_BYTES_MAX {
            let text = format!(
                "the follow-ups of one attempt have {bytes} bytes of arguments; the limit is {PAYLOAD_BYTES_MAX}: store the data elsewhere and pass references"
            );
            return Err(Error::new(ErrorKind::Refused, text));
        }
        self.follow_ups.extend(tasks.into_iter().map(|task| (on, task)));
        Ok(())
    }
}

impl Attempt {
    /// The attempt whose handler this code runs in, or `None` outside of any and in a plain call.
    #[must_use]
    pub fn current() -> Option<Attempt> {
        Attempt::of(&Context::current()?)
    }

    /// The attempt that a context is of, or `None` for a plain call.
    #[must_use]
    pub fn of(context: &Context) -> Option<Attempt> {
        let (lane, key) = context.host_as::<Lane>()?;
        let task = i64::try_from(context.task()?.id).ok()?;
        Some(Attempt { lane, key, task: TaskId(task) })
    }

    /// Says what becomes of the task if the handler returns an error, in place of what the error itself says: for handlers whose
    /// error type knows nothing of tasks. The last word counts. It changes nothing where the handler returns a result, panics, is cancelled
    /// or runs out of its budget. Gives whether the handler still runs.
    ///
    /// ```
    /// # use punctual_engine::{Attempt, Verdict};
    /// # use std::time::Duration;
    /// fn not_yet() -> Result<u64, String> {
    ///     if let Some(attempt) = Attempt::current() {
    ///         // Again in a minute, without an attempt being spent.
    ///         attempt.on_error(Verdict::Snooze(Duration::from_secs(60)));
    ///     }
    ///     Err("the other side is not ready".to_owned())
    /// }
    /// # assert!(not_yet().is_err());
    /// ```
    pub fn on_error(&self, verdict: Verdict) -> bool {
        self.lane.note(self.key, |notes| notes.on_error = Some(verdict)).is_some()
    }

    /// Says how far it is, for people: `punctual tasks show` and the admin service tell it. What is said within a second is
    /// written once, together with what others say; it costs the handler nothing. More than 100 percent are 100, and a
    /// message is cut to 1 KiB. Gives whether the handler still runs.
    pub fn progress(&self, percent: u8, message: impl Into<String>) -> bool {
        let message = line(message.into());
        self.say(|notes| (notes.percent, notes.message) = (Some(percent.min(100)), message))
    }

    /// Keeps where the next attempt may go on, in place of what was kept before. It is written like progress, at the latest before the
    /// attempt's end; after a crash the next attempt may find one that is a second or two old. Gives whether the handler still runs.
    ///
    /// ```
    /// # use punctual_engine::{Attempt, Error};
    /// async fn import(rows: Vec<u64>) -> Result<(), Error> {
    ///     let attempt = Attempt::current().expect("a durable handler");
    ///     let done: usize = attempt.last_checkpoint().await?.unwrap_or(0);
    ///     for (n, row) in rows.iter().enumerate().skip(done) {
    ///         // ..import the row..
    ///         attempt.checkpoint(&(n + 1))?;
    ///         attempt.progress(u8::try_from(n * 100 / rows.len()).unwrap_or(100), format!("row {row}"));
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// `Payload` for what has no JSON form, or more than
    /// [`CHECKPOINT_BYTES_MAX`](punctual_task::CHECKPOINT_BYTES_MAX) of it.
    pub fn checkpoint<T: Serialize + ?Sized>(&self, value: &T) -> Result<bool, Error> {
        let json = serde_json::to_vec(value).map_err(|error| {
            Error::new(ErrorKind::Payload, format!("a checkpoint cannot be written as JSON: {error}"))
        })?;
        if json.len() > CHECKPOINT_BYTES_MAX {
            let text = format!(
                "a checkpoint has {} bytes; the limit is {CHECKPOINT_BYTES_MAX}: store it elsewhere and keep a reference",
                json.len()
            );
            return Err(Error::new(ErrorKind::Payload, text));
        }
        Ok(self.say(|notes| notes.checkpoint = Some(json.into())))
    }

    /// What the last [`Attempt::checkpoint`] of this task kept, of an earlier attempt or of this one; `None` where there is none.
    ///
    /// # Errors
    /// `Payload` where it does not read as a `T`; what the store says; `Unavailable` where the engine has gone.
    ///
    /// # Cancel safety
    /// Dropping it loses nothing.
    pub async fn last_checkpoint<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        let gone = || Error::new(ErrorKind::Unavailable, "the engine that ran this attempt has gone");
        let shared = self.lane.shared().ok_or_else(gone)?;
        // What this attempt said itself may still be under way.
        let own = self.lane.note(self.key, |notes| notes.checkpoint.clone()).flatten();
        let kept = match own {
            Some(own) => Some(own),
            None => {
                shared.reports.flush(&shared, false).await;
                shared.store.task(self.task).await?.and_then(|detail| detail.progress?.checkpoint)
            }
        };
        let unread = |error| {
            let text = format!("the checkpoint of task {} does not read as the type asked for: {error}", self.task);
            Error::new(ErrorKind::Payload, text)
        };
        kept.map(|json| serde_json::from_slice(&json).map_err(unread)).transpose()
    }

    fn say(&self, say: impl FnOnce(&mut Notes)) -> bool {
        let said = self.lane.note(self.key, |notes| {
            say(notes);
            !std::mem::replace(&mut notes.said, true)
        });
        // One word a report is enough.
        if said == Some(true)
            && let Some(shared) = self.lane.shared()
        {
            shared.reports.said.notify_one();
        }
        said.is_some()
    }

    /// Adds tasks that are written with the end of this one.
    pub(crate) fn follow(&self, on: FollowOn, tasks: Vec<NewTask>) -> Result<(), Error> {
        self.lane.note(self.key, |notes| notes.follow(on, tasks)).unwrap_or_else(|| {
            let text = "the attempt has ended, and nothing can follow it any more; enqueue the task by itself";
            Err(Error::new(ErrorKind::Refused, text))
        })
    }
}

/// One line within the limit: characters that a terminal would obey are spaces.
fn line(text: String) -> String {
    let mut text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let end =
        (0..=PROGRESS_MESSAGE_BYTES_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.truncate(end);
    text
}
