//! What `punctual doctor` looks at, and what it makes of what it sees. Nothing is changed, and nothing is created.

mod findings;

pub(crate) use findings::{Finding, Findings, State};

use crate::config::Settings;
use crate::target::{must_be_there, open_unchanged, shown};
use crate::text::{show_duration, show_instant};
use punctual::clock::{Clock, SystemClock, Timestamp};
use punctual::task::schedule::{CompiledRule, ZoneVerdict, tzdb_version};
use punctual::task::{ScheduleView, Store, StoreErrorKind, WorkerView};
use std::time::Duration;

/// A difference of two clocks that people notice, when they compare logs or look at what is due.
const SKEW_ODD: Duration = Duration::from_secs(1);

/// A difference with which nothing that a person reads can be trusted any more.
const SKEW_BAD: Duration = Duration::from_secs(60);

/// Schedules that are looked at. Beyond it the first ones stand for all.
const SCHEDULES_MAX: usize = 10_000;

/// Schedules of one read.
const SCHEDULES_PAGE: u32 = 500;

/// Names that a finding lists.
const NAMES_MAX: usize = 5;

/// The settings' own state: the certificates that they name. Whether they go together was seen when they were read.
pub(crate) fn look_at_settings(settings: &Settings, findings: &mut Findings) {
    findings.ok("configuration", "every setting is known and in its range");
    match settings.tls.as_ref().map(|files| files.load().map(drop)) {
        None => {}
        Some(Ok(())) => findings.ok("certificates", "they can be read, and the key fits"),
        Some(Err(error)) => findings.fail(
            "certificates",
            error.to_string(),
            "put the files in place that the section [tls] names; SIGHUP makes a running daemon read them again",
        ),
    }
}

/// The database and what is in it.
pub(crate) async fn look_at_database(settings: &Settings, findings: &mut Findings) {
    let location = &settings.database;
    if location == "memory:" {
        let advice = "name a file or a server by --db for anything that must not be lost";
        findings.warn("database", "it is in memory, and gone with the daemon's process", advice);
        return;
    }
    if let Err(failure) = must_be_there(location) {
        let advice = "`punctual serve` creates a file, too, where its folder is there";
        findings.fail("database", failure.to_string(), advice);
        return;
    }
    let before = SystemClock.now();
    let store = match open_unchanged(location).await {
        Ok(store) => store,
        Err(error) if error.kind() == StoreErrorKind::Version => {
            findings.ok("database", format!("{} can be reached", shown(location)));
            tables_differ(settings, &error.to_string(), findings);
            return;
        }
        Err(error) => {
            let advice = "check that the server runs and takes connections from here, and the address, user and password in --db";
            findings.fail("database", error.to_string(), advice);
            return;
        }
    };
    let took = SystemClock.now().since(before);
    let info = store.info();
    let took = show_duration(Duration::from_millis(u64::try_from(took.as_millis()).unwrap_or(u64::MAX)));
    findings.ok("database", format!("{} {} at {}, opened in {took}", info.kind, info.version, info.location));
    findings.ok("tables", format!("version {}, which is this build's", info.schema_version));
    look_at_clock(&*store, findings).await;
    look_at_zones(&*store, findings).await;
    look_at_workers(&*store, settings, findings).await;
}

fn tables_differ(settings: &Settings, told: &str, findings: &mut Findings) {
    if !settings.store.migrate {
        findings.fail("tables", told, "run `punctual migrate` on the database, or the build that the tables are of");
        return;
    }
    let advice = "where they are older, `punctual serve` brings them up when it starts; where they are newer, use the newer build";
    findings.warn("tables", told, advice);
}

async fn look_at_clock(store: &dyn Store, findings: &mut Findings) {
    let before = SystemClock.timestamp();
    let theirs = store.now().await;
    let after = SystemClock.timestamp();
    match theirs {
        Ok(theirs) => findings.add(judge_clock(before, theirs, after)),
        Err(error) => {
            findings.fail("clock", error.to_string(), "the database answered before, and now does not: look at its log")
        }
    }
}

/// The database's clock, read between two looks at this host's.
fn judge_clock(before: Timestamp, theirs: Timestamp, after: Timestamp) -> Finding {
    // Whatever the way there and back took cannot be told from a difference, and so is none.
    let (skew, which) =
        if theirs < before { (before.since(theirs), "behind") } else { (theirs.since(after), "ahead of") };
    let told = format!("the database's is {} {which} this host's", show_duration(skew));
    let advice = "let both hosts follow the same time servers; tasks and leases go by the database's clock alone";
    match skew {
        skew if skew >= SKEW_BAD => Finding::new("clock", State::Fail, told).advise(advice),
        skew if skew >= SKEW_ODD => Finding::new("clock", State::Warn, told).advise(advice),
        _ => Finding::new("clock", State::Ok, "this host and the database agree on the time"),
    }
}

async fn look_at_zones(store: &dyn Store, findings: &mut Findings) {
    findings.ok("tzdb", format!("{} is built in; the system's own is not used", tzdb_version()));
    let mut views: Vec<ScheduleView> = Vec::new();
    loop {
        let after = views.last().map(|view| view.spec.name.clone());
        match store.schedules(after, SCHEDULES_PAGE).await {
            Ok(page) if page.is_empty() || views.len() >= SCHEDULES_MAX => break,
            Ok(page) => views.extend(page),
            Err(error) => {
                findings.fail(
                    "schedules",
                    error.to_string(),
                    "the database answered before, and now does not: look at its log",
                );
                return;
            }
        }
    }
    findings.add(judge_zones(&views, SystemClock.timestamp()));
}

/// Schedules whose zone another host's database of zones says something else about.
fn judge_zones(views: &[ScheduleView], now: Timestamp) -> Finding {
    let (mut left, mut renewed) = (Vec::new(), 0_usize);
    for view in views {
        let Some(stamp) = &view.position.zone else { continue };
        let Ok(compiled) = CompiledRule::new(&view.spec.rule, view.created) else { continue };
        match compiled.judge_zone(Some(stamp), now) {
            ZoneVerdict::Leave(_) => left.push(view.spec.name.as_str()),
            ZoneVerdict::Restamp(_) if stamp.tzdb != tzdb_version() => renewed += 1,
            ZoneVerdict::Restamp(_) | ZoneVerdict::Same => {}
        }
    }
    let count = views.len();
    if left.is_empty() {
        let renewed = match renewed {
            0 => String::new(),
            renewed => format!("; this host will compute {renewed} anew, by its newer database"),
        };
        return Finding::new(
            "schedules",
            State::Ok,
            format!("of {count} none has a zone that this host knows less of{renewed}"),
        );
    }
    let named = left.iter().take(NAMES_MAX).copied().collect::<Vec<_>>().join(", ");
    let more = left.len().saturating_sub(NAMES_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Finding::new(
        "schedules",
        State::Warn,
        format!("{} of {count} are left alone by this host: {named}{more}", left.len()),
    )
    .advise("another host has a newer database of time zones: bring this build up to the other's version")
}

async fn look_at_workers(store: &dyn Store, settings: &Settings, findings: &mut Findings) {
    let workers = match store.workers().await {
        Ok(workers) => workers,
        Err(error) => {
            findings.fail(
                "workers",
                error.to_string(),
                "the database answered before, and now does not: look at its log",
            );
            return;
        }
    };
    match store.now().await {
        Ok(now) => findings.add(judge_workers(&workers, now, settings.engine.rescue)),
        Err(error) => findings.fail(
            "workers",
            error.to_string(),
            "the database answered before, and now does not: look at its log",
        ),
    }
    let poll = show_duration(settings.engine.poll);
    findings.ok("notifications", format!("none are needed, through no pooler: workers ask the database every {poll}"));
}

/// Whether somebody works, and whether somebody's lease ended and nobody has looked since.
fn judge_workers(workers: &[WorkerView], now: Timestamp, rescue: Duration) -> Finding {
    let stuck: Vec<&WorkerView> =
        workers.iter().filter(|worker| worker.alive && worker.until.after(rescue.saturating_mul(3)) < now).collect();
    let alive = workers.iter().filter(|worker| worker.alive).count() - stuck.len();
    if let Some(first) = stuck.first() {
        let held: u64 = stuck.iter().map(|worker| u64::from(worker.holds)).sum();
        let told = format!(
            "the lease of {} ended at {}, and it counts as alive still; such workers: {}, with {held} tasks",
            first.name,
            show_instant(first.until),
            stuck.len()
        );
        return Finding::new("workers", State::Warn, told)
            .advise("a worker that is alive takes their tasks over within seconds: start one with `punctual serve`");
    }
    if alive == 0 {
        return Finding::new("workers", State::Warn, "none is alive, so nothing runs")
            .advise("start one with `punctual serve`");
    }
    Finding::new("workers", State::Ok, format!("alive: {alive}, each within its lease"))
}

#[cfg(test)]
mod tests;
