//! Once after the start: schedules whose cursor was computed with another time zone database than this build's.
//!
//! A newer database may have moved a slot to an earlier instant, for which no sweep would look. So each such schedule is
//! checked when the engine starts, and its cursor's instant computed anew; sweeps do the same for those that are due.

use crate::pacing::Pace;
use crate::shared::{Phase, Shared};
use punctual_task::schedule::tzdb_version;
use punctual_task::{Page, ScheduleCommand, ScheduleView, Steered, StoreError, StoreErrorKind};
use std::sync::Arc;

/// Runs until all schedules are checked, or the engine drains.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut pace = Pace::default();
    let mut after = None;
    while shared.phase() < Phase::Draining {
        match page(&shared, after.clone()).await {
            Ok(None) => return,
            Ok(last) => {
                pace.succeeded();
                after = last;
            }
            Err(error) => {
                shared.store_failed("checking the time zones of schedules", &error);
                if !shared.sleep(pace.failed(&*shared.entropy), Phase::Draining).await {
                    return;
                }
            }
        }
    }
}

/// Checks one page of schedules; gives the last name, or `None` after the last page.
async fn page(shared: &Shared, after: Option<String>) -> Result<Option<String>, StoreError> {
    let views = shared.store.schedules(after, Page::LIMIT_MAX).await?;
    for view in views.iter().filter(|view| differs(view)) {
        let name = &view.spec.name;
        match shared.store.steer(name.clone(), ScheduleCommand::CheckZone).await {
            Ok(Steered::Applied) => {
                tracing::info!(schedule = name, tzdb = tzdb_version(), "the next slot was computed anew");
                shared.sweeps.now();
            }
            Ok(_) => {}
            // It is cancelled, or left to a host with a newer database.
            Err(error) if error.kind() == StoreErrorKind::Refused => {
                tracing::warn!(schedule = name, %error, "a schedule is left alone by this host");
            }
            Err(error) => return Err(error),
        }
    }
    let full = views.len() >= Page::LIMIT_MAX as usize;
    Ok(views.last().filter(|_| full).map(|view| view.spec.name.clone()))
}

fn differs(view: &ScheduleView) -> bool {
    view.position.cursor.is_some() && view.position.zone.as_ref().is_some_and(|zone| zone.tzdb != tzdb_version())
}
