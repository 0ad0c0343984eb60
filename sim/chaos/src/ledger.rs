//! What happened: calls by how they ended, faults by kind, and everything that must not have happened.

use anyhow::ensure;
use punctual::{Code, Status};
use punctual_clock::{Clock, Instant, SystemClock};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A fault explains errors of calls that end within this time behind it: a silent link is left after `dead_after`, a reconnect
/// waits for at most its longest backoff, and a call in between fails at once or waits for its deadline.
pub(crate) const AFTERMATH: Duration = Duration::from_secs(5);

/// Wrong things that are kept to be shown.
const SHOWN_MAX: usize = 20;

/// How one call ended.
#[derive(Debug)]
pub(crate) enum End {
    /// With the result that it must have.
    Right,
    /// The caller left before.
    Left,
    /// With an error.
    Failed(Status),
    /// With a result that it must not have.
    Wrong(String),
}

/// The record of a run.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Records>);

#[derive(Debug, Default)]
struct Records {
    calls: BTreeMap<(&'static str, &'static str), u64>,
    faults: BTreeMap<&'static str, u64>,
    /// Since when there is a fault at each server, and until when the last one explains errors.
    weather: BTreeMap<usize, Vec<(Instant, Option<Instant>)>>,
    wrong: u64,
    shown: Vec<String>,
}

impl Ledger {
    fn records(&self) -> MutexGuard<'_, Records> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A fault begins at a server.
    pub(crate) fn fault(&self, site: usize, kind: &'static str) {
        let mut records = self.records();
        *records.faults.entry(kind).or_default() += 1;
        let now = SystemClock.now();
        records.weather.entry(site).or_default().push((now, None));
    }

    /// The faults at a server are over.
    pub(crate) fn calm(&self, site: usize) {
        let now = SystemClock.now();
        for (_, end) in self.records().weather.entry(site).or_default() {
            end.get_or_insert(now);
        }
    }

    /// A call to a server ended, with an own timeout of so much; `hasty` ones may meet it without a fault.
    pub(crate) fn call(
        &self,
        site: usize,
        shape: &'static str,
        began: Instant,
        timeout: Duration,
        hasty: bool,
        end: End,
    ) {
        let now = SystemClock.now();
        let mut records = self.records();
        let explained = records.weather.get(&site).is_some_and(|faults| {
            faults.iter().any(|(from, until)| *from <= now && until.is_none_or(|until| until.after(AFTERMATH) >= began))
        });
        let (how, wrong) = match end {
            End::Right => ("right", None),
            End::Left => ("left by the caller", None),
            End::Wrong(what) => ("wrong", Some(what)),
            End::Failed(status) => match status.code() {
                Code::DeadlineExceeded if hasty || explained => ("deadline", None),
                Code::Unavailable | Code::ConnectionClosed | Code::HeartbeatLost | Code::Cancelled if explained => {
                    ("failed by a fault", None)
                }
                _ => ("failed", Some(format!("an error that no fault explains: {status}"))),
            },
        };
        *records.calls.entry((shape, how)).or_default() += 1;
        let late = now.since(began).saturating_sub(timeout);
        let wrong = wrong.or_else(|| (late > LATE).then(|| format!("it ended {late:?} behind its deadline")));
        if let Some(what) = wrong {
            records.wrong += 1;
            if records.shown.len() < SHOWN_MAX {
                records.shown.push(format!("{shape} at server {site}: {what}"));
            }
        }
    }

    /// Fails the run where something happened that must not.
    pub(crate) fn judge(&self) -> anyhow::Result<()> {
        let records = self.records();
        let right: u64 = records.calls.iter().filter(|((_, how), _)| *how == "right").map(|(_, count)| count).sum();
        ensure!(records.wrong == 0, "{} calls ended as none may", records.wrong);
        ensure!(
            right > 0 && !records.faults.is_empty(),
            "nothing was called, or nothing went wrong: the run shows nothing"
        );
        Ok(())
    }
}

/// Behind its deadline a call may end this late: the machine is shared, and a caller waits for its turn. It is here to find calls
/// that hang, not to measure.
const LATE: Duration = Duration::from_secs(20);

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let records = self.records();
        for ((shape, how), count) in &records.calls {
            writeln!(f, "{shape:<8} {how:<20} {count:>10}")?;
        }
        for (kind, count) in &records.faults {
            writeln!(f, "fault    {kind:<20} {count:>10}")?;
        }
        records.shown.iter().try_for_each(|wrong| writeln!(f, "WRONG {wrong}"))
    }
}
