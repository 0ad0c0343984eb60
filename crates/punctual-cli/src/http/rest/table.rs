//! Which route is which method, who may ask for it, and where its arguments come from.

use crate::http::role::Role;
use crate::http::route::{Access, Action, Route, Verb};

/// How long a page is where nobody says.
pub(in crate::http) const PAGE_DEFAULT: u64 = 50;

/// A method of the admin contract as a route.
#[derive(Debug)]
pub(in crate::http) struct Call {
    /// Its name in the contract.
    pub(in crate::http) method: &'static str,
    pub(in crate::http) from: &'static [Source],
    /// Where its list has pages.
    pub(in crate::http) page: Option<Page>,
}

/// Where one argument comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Source {
    /// The part of the path that has its name.
    Path(&'static str),
    /// The query; nothing, zero or false where it is not there.
    Query(&'static str),
    /// The query, each of its fields by name.
    QueryFields(&'static str),
    /// The whole body.
    Body(&'static str),
    /// A field of the body.
    Field(&'static str),
    /// A field of the body; nothing, zero or false where it is not there.
    FieldOr(&'static str),
}

/// How a list goes on.
#[derive(Debug)]
pub(in crate::http) struct Page {
    /// The parameter that names the last line of the page before.
    pub(in crate::http) key: &'static str,
    /// Where a line has its name.
    pub(in crate::http) of: &'static [&'static str],
}

const fn row(verb: Verb, path: &'static str, role: Role, call: &'static Call) -> Route {
    Route { verb, path, access: Access::Role(role), action: Action::Admin(call) }
}

macro_rules! call {
    ($method:literal, [$($from:expr),*]) => {
        &Call { method: $method, from: &[$($from),*], page: None }
    };
    ($method:literal, [$($from:expr),*], $key:literal, $of:literal) => {
        &Call { method: $method, from: &[$($from),*], page: Some(Page { key: $key, of: &[$of] }) }
    };
}

use Role::{Admin, Operate, View};
use Source::{Body, Field, FieldOr, Path, Query, QueryFields};
use Verb::{Get, Patch, Post};

/// Every method of the contract, once.
pub(in crate::http) static TABLE: &[Route] = &[
    row(Get, "/api/v1/info", View, call!("info", [])),
    row(Get, "/api/v1/tasks", View, call!("list_tasks", [QueryFields("query")], "before", "id")),
    row(Get, "/api/v1/tasks/{id}", View, call!("show_task", [Path("id")])),
    row(Post, "/api/v1/tasks", Admin, call!("enqueue_task", [Body("task")])),
    row(Post, "/api/v1/tasks/cancel", Operate, call!("cancel_tasks", [Field("ids")])),
    row(Post, "/api/v1/tasks/retry", Operate, call!("retry_tasks", [Field("ids")])),
    row(Get, "/api/v1/schedules", View, call!("list_schedules", [Query("after"), Query("limit")], "after", "name")),
    row(Post, "/api/v1/schedules", Admin, call!("add_schedule", [Field("schedule"), FieldOr("replace")])),
    row(Get, "/api/v1/schedules/{name}", View, call!("show_schedule", [Path("name")])),
    row(Patch, "/api/v1/schedules/{name}", Admin, call!("edit_schedule", [Path("name"), Body("edit")])),
    row(Get, "/api/v1/schedules/{name}/preview", View, call!("preview_schedule", [Path("name"), Query("count")])),
    row(Post, "/api/v1/schedules/{name}/pause", Operate, call!("pause_schedule", [Path("name"), FieldOr("note")])),
    row(Post, "/api/v1/schedules/{name}/resume", Operate, call!("resume_schedule", [Path("name"), Field("mode")])),
    row(Post, "/api/v1/schedules/{name}/unhalt", Operate, call!("unhalt_schedule", [Path("name"), Field("mode")])),
    row(Post, "/api/v1/schedules/{name}/trigger", Operate, call!("trigger_schedule", [Path("name"), FieldOr("force")])),
    row(
        Post,
        "/api/v1/schedules/{name}/backfill",
        Operate,
        call!("backfill_schedule", [Path("name"), Body("backfill")]),
    ),
    row(Post, "/api/v1/schedules/{name}/backfill/stop", Operate, call!("stop_backfill", [Path("name")])),
    row(Post, "/api/v1/schedules/{name}/cancel", Admin, call!("cancel_schedule", [Path("name")])),
    row(Post, "/api/v1/rules/preview", View, call!("preview_rule", [Field("rule"), FieldOr("count")])),
    row(Post, "/api/v1/crontab", Admin, call!("import_crontab", [Body("import")])),
    row(Get, "/api/v1/queues", View, call!("list_queues", [])),
    row(Post, "/api/v1/queues/{name}/pause", Operate, call!("pause_queue", [Path("name"), Field("paused")])),
    row(Get, "/api/v1/workers", View, call!("list_workers", [])),
];
