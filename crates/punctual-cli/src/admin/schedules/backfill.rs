//! Backfills: begun, previewed, stopped.

use super::{act, find, steer};
use crate::admin::failures::{bad_field, bad_rule, from_engine, from_store};
use crate::text::{parse_instant, show_instant};
use punctual::Status;
use punctual::engine::Engine;
use punctual::task::schedule::CompiledRule;
use punctual::task::{BackfillPreview, BackfillRequest, BackfillSlot, ScheduleCommand, ScheduleState, ScheduleView};
use punctual_admin::{BackfillDraft, BackfillLine, BackfillReport, BackfillState, ScheduleAct};

/// How many slots a report shows one by one.
const SHOWN: usize = 100;

pub(in crate::admin) async fn begin(
    engine: &Engine,
    name: String,
    draft: BackfillDraft,
) -> Result<BackfillReport, Status> {
    let view = find(engine, &name).await?;
    let request = request(engine, &draft).await?;
    // Said before it is begun: afterwards its first slots would be those of this backfill.
    let preview = engine.preview_backfill(name.clone(), request).await.map_err(from_engine)?;
    let pass = match draft.dry_run {
        true => None,
        false => Some(engine.backfill(name, request).await.map_err(from_engine)?),
    };
    report(&view, &request, &preview, pass)
}

async fn request(engine: &Engine, draft: &BackfillDraft) -> Result<BackfillRequest, Status> {
    let from = parse_instant(&draft.from).map_err(|error| bad_field("from", &error))?;
    let to = match &draft.to {
        Some(to) => parse_instant(to).map_err(|error| bad_field("to", &error))?,
        None => engine.store().now().await.map_err(from_store)?,
    };
    let mut request = BackfillRequest { limit: draft.limit, rerun: draft.rerun, ..BackfillRequest::new(0, from, to) };
    if let Some(count) = draft.max_pending {
        request.max_pending = count;
    }
    request.validate().map_err(|error| Status::invalid_argument(error.to_string()))?;
    Ok(request)
}

fn report(
    view: &ScheduleView,
    request: &BackfillRequest,
    preview: &BackfillPreview,
    pass: Option<u32>,
) -> Result<BackfillReport, Status> {
    let compiled = CompiledRule::new(&view.spec.rule, view.created).map_err(|error| bad_rule(&error))?;
    let limit = request.limit.unwrap_or(u64::MAX);
    let creates = preview.slots.iter().filter(|(_, what)| what.is_created(request.rerun)).count() as u64;
    let mut left = limit;
    let mut lines = Vec::new();
    for (slot, what) in preview.slots.iter().take(SHOWN) {
        let creates = what.is_created(request.rerun) && left > 0;
        left -= u64::from(creates);
        lines.push(BackfillLine {
            at: show_instant(slot.at),
            local: compiled.local(slot.at),
            what: what.as_str().to_owned(),
            creates,
        });
    }
    let count = |what| preview.count(what) as u64;
    Ok(BackfillReport {
        schedule: view.spec.name.clone(),
        dry_run: pass.is_none(),
        pass,
        creates: creates.min(limit),
        new: count(BackfillSlot::New),
        exists: count(BackfillSlot::Exists),
        missed: count(BackfillSlot::Missed),
        unknown: count(BackfillSlot::Unknown),
        more: preview.more,
        slots: lines,
    })
}

pub(in crate::admin) async fn stop(engine: &Engine, name: String) -> Result<ScheduleAct, Status> {
    let view = find(engine, &name).await?;
    if view.position.state == ScheduleState::Cancelled {
        return act(engine, &name, "unchanged", Vec::new()).await;
    }
    steer(engine, name, ScheduleCommand::StopBackfill).await
}

/// The last backfill of a schedule, for its report.
pub(in crate::admin) fn state(view: &ScheduleView) -> Option<BackfillState> {
    let backfill = view.position.backfill?;
    Some(BackfillState {
        pass: backfill.request.pass,
        state: if backfill.is_active() { "active" } else { "over" }.to_owned(),
        from: show_instant(backfill.request.from),
        to: show_instant(backfill.request.to),
        next: backfill.cursor.map(|slot| show_instant(slot.at)),
        max_pending: backfill.request.max_pending,
        live: view.live_backfilled,
        created: backfill.created,
        existed: backfill.existed,
    })
}
