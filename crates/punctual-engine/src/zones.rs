//! What an occurrence does not carry of its schedule: the zone, for the wall-clock text in the handler's context, and how
//! many may be live, for refilling its window in time.

use crate::shared::Shared;
use punctual_clock::Instant;
use punctual_task::schedule::{CompiledRule, utc_text};
use punctual_task::{Occurrence, ScheduleId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A schedule's zone is read again after this long: an edit of it shows in contexts within a minute.
const FRESH: Duration = Duration::from_secs(60);
/// So many schedules are remembered; then all are forgotten.
const SCHEDULES_MAX: usize = 10_000;

/// Compiled rules by schedule.
#[derive(Debug, Default)]
pub(crate) struct Zones {
    known: Mutex<BTreeMap<ScheduleId, Known>>,
}

#[derive(Debug, Clone)]
struct Known {
    read: Instant,
    /// `None` where the schedule is gone or its rule does not compile.
    rule: Option<Arc<CompiledRule>>,
    max_pending: u32,
}

impl Shared {
    /// The slot's instant as its schedule's zone writes it; in UTC where the zone cannot be had, since the text is for
    /// people and the attempt must not wait for it.
    pub(crate) async fn local_text(&self, occurrence: &Occurrence) -> String {
        match self.rule_of(occurrence).await {
            Some(rule) => format!("{}[{}]", rule.local(occurrence.at), rule.zone_name()),
            None => utc_text(occurrence.at),
        }
    }

    async fn rule_of(&self, occurrence: &Occurrence) -> Option<Arc<CompiledRule>> {
        let now = self.clock.now();
        let known = {
            let known = self.zones.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.get(&occurrence.schedule).cloned()
        };
        if let Some(known) = known
            && now.since(known.read) < FRESH
        {
            return known.rule;
        }
        let view = self.store.schedule(occurrence.name.clone()).await.ok()?;
        let max_pending = view.as_ref().map_or(1, |view| view.spec.max_pending);
        let rule = view.and_then(|view| CompiledRule::new(&view.spec.rule, view.created).ok()).map(Arc::new);
        let mut known = self.zones.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= SCHEDULES_MAX {
            known.clear();
        }
        known.insert(occurrence.schedule, Known { read: now, rule: rule.clone(), max_pending });
        rule
    }

    /// How many occurrences of a schedule may be live; 1 while that is not known, so that nothing waits for more.
    pub(crate) fn window_of(&self, schedule: ScheduleId) -> u32 {
        let known = self.zones.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&schedule).map_or(1, |known| known.max_pending)
    }

    /// A schedule was changed through this engine.
    pub(crate) fn forget_zones(&self) {
        self.zones.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
