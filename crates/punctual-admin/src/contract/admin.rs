//! What an operator can see and do.

use crate::{
    BackfillDraft, BackfillReport, CrontabImport, CrontabReport, PreviewSlot, QueueAct, QueueLine, RuleText,
    ScheduleAct, ScheduleDraft, ScheduleEdit, ScheduleLine, ScheduleReport, ServerInfo, StoredTask, TaskAct, TaskDraft,
    TaskLine, TaskQuery, TaskReport, Triggered, WorkerLine,
};
use punctual::Status;

/// What an operator can see and do.
///
/// Every method answers `not_found` for a name or id that is not there, `invalid_argument` with the field's name for
/// input that does not parse or is over a limit, and `failed_precondition` where the state does not allow the act.
#[punctual::service]
pub trait Admin {
    /// What answers, and where it keeps its state.
    #[rpc(idempotent)]
    async fn info(&self) -> Result<ServerInfo, Status>;

    /// A page of tasks, newest first; the next page begins before the last id.
    #[rpc(idempotent)]
    async fn list_tasks(&self, query: TaskQuery) -> Result<Vec<TaskLine>, Status>;

    /// All that is kept of one task.
    #[rpc(idempotent)]
    async fn show_task(&self, id: String) -> Result<TaskReport, Status>;

    /// Stores a task, or finds the holder of its key.
    async fn enqueue_task(&self, task: TaskDraft) -> Result<StoredTask, Status>;

    /// Cancels tasks: waiting ones at once, running ones by asking their handlers. At most 1,000 at once.
    #[rpc(idempotent)]
    async fn cancel_tasks(&self, ids: Vec<String>) -> Result<Vec<TaskAct>, Status>;

    /// Makes ended tasks wait again with all their attempts. At most 1,000 at once.
    async fn retry_tasks(&self, ids: Vec<String>) -> Result<Vec<TaskAct>, Status>;

    /// Schedules by name, those after `after` (empty for the first page), at most `limit` (1 to 1,000; 0 means 50).
    #[rpc(idempotent)]
    async fn list_schedules(&self, after: String, limit: u32) -> Result<Vec<ScheduleLine>, Status>;

    /// All that is kept of one schedule.
    #[rpc(idempotent)]
    async fn show_schedule(&self, name: String) -> Result<ScheduleReport, Status>;

    /// Stores a schedule. One of the same name and definition stays as it is; one of another definition is refused with
    /// `already_exists`, unless `replace` is set.
    #[rpc(idempotent)]
    async fn add_schedule(&self, schedule: ScheduleDraft, replace: bool) -> Result<ScheduleAct, Status>;

    /// The next `count` slots (1 to 1,000; 0 means 10) of a rule, whether or not a schedule has it.
    #[rpc(idempotent)]
    async fn preview_rule(&self, rule: RuleText, count: u32) -> Result<Vec<PreviewSlot>, Status>;

    /// The next `count` slots (1 to 1,000; 0 means 10) of a stored schedule, from its cursor on.
    #[rpc(idempotent)]
    async fn preview_schedule(&self, name: String, count: u32) -> Result<Vec<PreviewSlot>, Status>;

    /// Stops a schedule from making occurrences.
    #[rpc(idempotent)]
    async fn pause_schedule(&self, name: String, note: String) -> Result<ScheduleAct, Status>;

    /// Goes on after a pause or halt. `mode` says what becomes of the slots that were not decided meanwhile: `policy`
    /// (the missed policy decides; not after a halt), `now` (they are lost), `all` (all run), or `last:N` (the last N
    /// run).
    #[rpc(idempotent)]
    async fn resume_schedule(&self, name: String, mode: String) -> Result<ScheduleAct, Status>;

    /// Goes on after a halt. `mode` says what becomes of the slots that halted it: `now` (they are lost), `all` (all run), or
    /// `last:N` (the last N run).
    #[rpc(idempotent)]
    async fn unhalt_schedule(&self, name: String, mode: String) -> Result<ScheduleAct, Status>;

    /// Changes a schedule's definition by compare-and-swap. With another rule the slots that are due and not decided are lost,
    /// unless they are decided first, and the next one is the new rule's first after now.
    async fn edit_schedule(&self, name: String, edit: ScheduleEdit) -> Result<ScheduleAct, Status>;

    /// Begins to create past slots after all, oldest first, or only says what that would do.
    async fn backfill_schedule(&self, name: String, backfill: BackfillDraft) -> Result<BackfillReport, Status>;

    /// Ends the backfill that is under way; what it has created goes on.
    #[rpc(idempotent)]
    async fn stop_backfill(&self, name: String) -> Result<ScheduleAct, Status>;

    /// Creates one occurrence now, beside the slots; `force` also when as many are live as may be.
    async fn trigger_schedule(&self, name: String, force: bool) -> Result<Triggered, Status>;

    /// Ends a schedule for good: waiting occurrences are cancelled, running ones are asked to stop.
    #[rpc(idempotent)]
    async fn cancel_schedule(&self, name: String) -> Result<ScheduleAct, Status>;

    /// Reads a crontab and makes a schedule of each line that it can take, or only says what it would do. Doing it again
    /// changes nothing.
    #[rpc(idempotent, timeout = "5m")]
    async fn import_crontab(&self, import: CrontabImport) -> Result<CrontabReport, Status>;

    /// All queues.
    #[rpc(idempotent)]
    async fn list_queues(&self) -> Result<Vec<QueueLine>, Status>;

    /// Stops or resumes claims from a queue.
    #[rpc(idempotent)]
    async fn pause_queue(&self, name: String, paused: bool) -> Result<QueueAct, Status>;

    /// All workers that are alive or died lately.
    #[rpc(idempotent)]
    async fn list_workers(&self) -> Result<Vec<WorkerLine>, Status>;
}
