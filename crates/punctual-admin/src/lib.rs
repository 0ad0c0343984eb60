//! The contracts of the daemon: what an operator can see and do, and the two durable services that it ships with.
//!
//! [`Admin`] is spoken by the command line, over RPC to a running daemon or in process to a service that it hosts itself
//! on a database file. Its types are plain data: instants are RFC 3339 text in UTC, durations are text such as `90s` or
//! `1h 30m`, task ids are the base-32 text that people copy. Whoever implements the contract validates; whoever calls it
//! only prints.
//!
//! [`Http`] and [`Command`] are what the daemon can run without a line of Rust from its user. A program of your own may
//! enqueue them as well: `engine.enqueue(punctual_admin::http::Request { .. })`.

mod contract;
mod queue;
mod schedule;
mod server;
mod task;
mod worker;

pub use contract::admin::{Admin, AdminClient, AdminServer, admin};
pub use contract::command::{Captured, Command, CommandClient, CommandError, CommandServer, Finished, command};
pub use contract::http::{Http, HttpClient, HttpError, HttpServer, Response, http};
pub use queue::{QueueAct, QueueLine};
pub use schedule::{
    BackfillDraft, BackfillLine, BackfillReport, BackfillState, CrontabImport, CrontabLine, CrontabReport, JitterLine,
    LossLine, LostCount, PendingLine, PreviewSlot, RuleText, ScheduleAct, ScheduleDraft, ScheduleEdit, ScheduleLine,
    ScheduleReport, Triggered, ZoneLine,
};
pub use server::ServerInfo;
pub use task::{AttemptLine, ProgressLine, StoredTask, TaskAct, TaskDraft, TaskLine, TaskQuery, TaskReport};
pub use worker::WorkerLine;
