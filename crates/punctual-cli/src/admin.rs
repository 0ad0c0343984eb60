//! The admin contract over an engine: in a daemon over the one that runs tasks, elsewhere over one that serves nothing
//! and only stores and asks.
//!
//! All input is checked here. What the checks let through and the store refuses is a matter of state.

mod catalog;
mod crontab;
mod failures;
mod lines;
mod preview;
mod schedules;
mod tasks;

pub(crate) use catalog::{Catalog, Commands};
pub(crate) use preview::preview_now;

use failures::{from_engine, from_store};
use punctual::Status;
use punctual::engine::Engine;
use punctual::task::Store;
use punctual::task::schedule::tzdb_version;
use punctual_admin::{
    Admin, BackfillDraft, BackfillReport, CrontabImport, CrontabReport, PreviewSlot, QueueAct, QueueLine, RuleText,
    ScheduleAct, ScheduleDraft, ScheduleEdit, ScheduleLine, ScheduleReport, ServerInfo, StoredTask, TaskAct, TaskDraft,
    TaskLine, TaskQuery, TaskReport, Triggered, WorkerLine,
};
use std::sync::{Arc, OnceLock};

/// The service. It can be bound to addresses before there is an engine, and answers `unavailable` until then.
#[derive(Debug)]
pub(crate) struct AdminService {
    engine: OnceLock<Engine>,
    catalog: Catalog,
}

impl AdminService {
    /// The service, which knows the methods of `catalog` and waits for its engine.
    pub(crate) fn new(catalog: Catalog) -> Self {
        AdminService { engine: OnceLock::new(), catalog }
    }

    /// Gives it its engine; a second one is not taken.
    pub(crate) fn start(&self, engine: Engine) {
        let _ = self.engine.set(engine);
    }

    /// The methods whose tasks this process runs.
    pub(crate) fn runs(&self) -> Vec<String> {
        self.catalog.runs()
    }

    fn engine(&self) -> Result<&Engine, Status> {
        self.engine.get().ok_or_else(|| Status::unavailable("the daemon is starting; try again in a moment"))
    }

    fn store(&self) -> Result<&Arc<dyn Store>, Status> {
        Ok(self.engine()?.store())
    }
}

impl Admin for AdminService {
    async fn info(&self) -> Result<ServerInfo, Status> {
        let store = self.store()?.info();
        Ok(ServerInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            store: store.kind.to_owned(),
            location: store.location,
            store_version: store.version,
            schema_version: store.schema_version,
            tzdb: tzdb_version().to_owned(),
            runs: self.catalog.runs(),
        })
    }

    async fn list_tasks(&self, query: TaskQuery) -> Result<Vec<TaskLine>, Status> {
        let (filter, page) = tasks::filter(query)?;
        let views = self.store()?.tasks(filter, page).await.map_err(from_store)?;
        Ok(views.iter().map(lines::task_line).collect())
    }

    async fn show_task(&self, id: String) -> Result<TaskReport, Status> {
        let id = tasks::id(&id)?;
        let detail = self.store()?.task(id).await.map_err(from_store)?;
        let detail = detail.ok_or_else(|| {
            Status::not_found(format!("there is no task {id}; `punctual tasks list` shows those that are kept"))
        })?;
        Ok(lines::task_report(&detail))
    }

    async fn enqueue_task(&self, task: TaskDraft) -> Result<StoredTask, Status> {
        tasks::enqueue(self.engine()?, &self.catalog, task).await
    }

    async fn cancel_tasks(&self, ids: Vec<String>) -> Result<Vec<TaskAct>, Status> {
        let tasks = tasks::ids(&ids)?;
        let outcomes = self.engine()?.cancel(tasks.clone()).await.map_err(from_engine)?;
        Ok(tasks.into_iter().zip(outcomes).map(|(task, outcome)| lines::cancel_act(task, outcome)).collect())
    }

    async fn retry_tasks(&self, ids: Vec<String>) -> Result<Vec<TaskAct>, Status> {
        let tasks = tasks::ids(&ids)?;
        let outcomes = self.engine()?.retry(tasks.clone()).await.map_err(from_engine)?;
        Ok(tasks.into_iter().zip(outcomes).map(|(task, outcome)| lines::retry_act(task, &outcome)).collect())
    }

    async fn list_schedules(&self, after: String, limit: u32) -> Result<Vec<ScheduleLine>, Status> {
        let after = Some(after).filter(|after| !after.is_empty());
        let limit = tasks::limit(limit, 50)?;
        let views = self.store()?.schedules(after, limit).await.map_err(from_store)?;
        Ok(views.iter().map(lines::schedule_line).collect())
    }

    async fn show_schedule(&self, name: String) -> Result<ScheduleReport, Status> {
        schedules::show(self.engine()?, name).await
    }

    async fn add_schedule(&self, schedule: ScheduleDraft, replace: bool) -> Result<ScheduleAct, Status> {
        schedules::add(self.engine()?, &self.catalog, schedule, replace).await
    }

    async fn preview_rule(&self, rule: RuleText, count: u32) -> Result<Vec<PreviewSlot>, Status> {
        let now = self.store()?.now().await.map_err(from_store)?;
        preview::of_rule(&rule, count, now)
    }

    async fn preview_schedule(&self, name: String, count: u32) -> Result<Vec<PreviewSlot>, Status> {
        let view = schedules::find(self.engine()?, &name).await?;
        preview::of_schedule(&view, count)
    }

    async fn pause_schedule(&self, name: String, note: String) -> Result<ScheduleAct, Status> {
        schedules::pause(self.engine()?, name, note).await
    }

    async fn resume_schedule(&self, name: String, mode: String) -> Result<ScheduleAct, Status> {
        schedules::resume(self.engine()?, name, &mode).await
    }

    async fn unhalt_schedule(&self, name: String, mode: String) -> Result<ScheduleAct, Status> {
        schedules::unhalt(self.engine()?, name, &mode).await
    }

    async fn edit_schedule(&self, name: String, edit: ScheduleEdit) -> Result<ScheduleAct, Status> {
        schedules::edit(self.engine()?, &self.catalog, name, edit).await
    }

    async fn backfill_schedule(&self, name: String, backfill: BackfillDraft) -> Result<BackfillReport, Status> {
        schedules::backfill::begin(self.engine()?, name, backfill).await
    }

    async fn stop_backfill(&self, name: String) -> Result<ScheduleAct, Status> {
        schedules::backfill::stop(self.engine()?, name).await
    }

    async fn trigger_schedule(&self, name: String, force: bool) -> Result<Triggered, Status> {
        schedules::trigger(self.engine()?, name, force).await
    }

    async fn cancel_schedule(&self, name: String) -> Result<ScheduleAct, Status> {
        schedules::cancel(self.engine()?, name).await
    }

    async fn import_crontab(&self, import: CrontabImport) -> Result<CrontabReport, Status> {
        crontab::import(self.engine()?, &self.catalog, import).await
    }

    async fn list_queues(&self) -> Result<Vec<QueueLine>, Status> {
        let views = self.store()?.queues().await.map_err(from_store)?;
        Ok(views.into_iter().map(lines::queue_line).collect())
    }

    async fn pause_queue(&self, name: String, paused: bool) -> Result<QueueAct, Status> {
        tasks::name("queue", &name)?;
        let changed = self.engine()?.pause_queue(name.clone(), paused).await.map_err(from_engine)?;
        Ok(QueueAct { name, paused, changed })
    }

    async fn list_workers(&self) -> Result<Vec<WorkerLine>, Status> {
        let views = self.store()?.workers().await.map_err(from_store)?;
        Ok(views.into_iter().map(lines::worker_line).collect())
    }
}
