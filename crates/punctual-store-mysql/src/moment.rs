//! The database's clock: read by the server in UTC to the microsecond, whatever the session's time zone; or the clock that
//! stands for it in tests.

use crate::answers::{Answers, cell};
use crate::errors::{Done, Fault};
use crate::script::Script;
use punctual_clock::{Clock, Timestamp};
use std::sync::Arc;

const SERVER: &str = "SET @now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))";
const GIVEN: &str = "SET @now = ?";
const READ: &str = "SELECT @now";

/// One reading of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    /// What decides what is due.
    pub(crate) now: Timestamp,
    /// What decides which lease has ended, in microseconds: the same, unless a clock was given.
    pub(crate) lease: i64,
}

/// Where the time comes from.
#[derive(Debug, Clone)]
pub(crate) struct TimeSource(pub(crate) Option<Arc<dyn Clock>>);

impl TimeSource {
    /// Adds the statements that read the clock: `@now` is the time in what follows.
    pub(crate) fn ask(&self, script: &mut Script) {
        match &self.0 {
            None => script.add(SERVER, &[]),
            Some(clock) => script.add(GIVEN, &[clock.timestamp().as_micros().into()]),
        }
        script.add(READ, &[]);
    }

    /// The answer to [`TimeSource::ask`].
    pub(crate) fn answer(&self, answers: &mut Answers) -> Done<Moment> {
        answers.skip(1)?;
        let rows = answers.rows()?;
        let row = rows.first().ok_or_else(|| Fault::bug("the clock gave no row"))?;
        let now: i64 = cell(row, 0)?;
        Ok(Moment { now: Timestamp::from_micros(now), lease: self.monotonic().unwrap_or(now) })
    }

    /// The given clock's monotonic time in microseconds, which then decides which lease has ended.
    pub(crate) fn monotonic(&self) -> Option<i64> {
        self.0.as_ref().map(|clock| i64::try_from(clock.now().as_nanos() / 1_000).unwrap_or(i64::MAX))
    }
}
