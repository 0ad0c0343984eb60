//! Tasks: filters, ids and drafts, checked.

use super::catalog::Catalog;
use super::failures::{bad_field, from_input};
use crate::text::{parse_duration, parse_instant, shown};
use punctual::engine::Engine;
use punctual::task::{BadTaskId, Page, Policy, TaskFilter, TaskId, TaskState, check_name};
use punctual::{Bytes, Status};
use punctual_admin::{StoredTask, TaskDraft, TaskQuery};
use std::time::Duration;

/// The most tasks that one act takes.
const ACT_TASKS_MAX: usize = 1_000;

/// The states by name.
const STATES: [TaskState; 7] = [
    TaskState::Waiting,
    TaskState::Parked,
    TaskState::Running,
    TaskState::Succeeded,
    TaskState::Failed,
    TaskState::Cancelled,
    TaskState::Expired,
];

/// A query as the store's filter and page.
pub(super) fn filter(query: TaskQuery) -> Result<(TaskFilter, Page), Status> {
    let TaskQuery { state, queue, method, schedule, before, limit: asked } = query;
    let state = state.as_deref().map(self::state).transpose()?;
    let before = before.as_deref().map(|text| text.parse()).transpose();
    let before = before.map_err(|error: BadTaskId| Status::invalid_argument(format!("before: {error}")))?;
    Ok((TaskFilter { state, queue, method, schedule }, Page { before, limit: limit(asked, Page::default().limit)? }))
}

fn state(text: &str) -> Result<TaskState, Status> {
    STATES.into_iter().find(|state| state.as_str() == text).ok_or_else(|| {
        let names: Vec<&str> = STATES.iter().map(|state| state.as_str()).collect();
        Status::invalid_argument(format!("state `{}` is not known: write one of {}", shown(text), names.join(", ")))
    })
}

/// A page's length, `default` for 0.
pub(super) fn limit(asked: u32, default: u32) -> Result<u32, Status> {
    match asked {
        0 => Ok(default),
        1..=Page::LIMIT_MAX => Ok(asked),
        _ => Err(Status::invalid_argument(format!("limit {asked} is more than {}; ask for pages", Page::LIMIT_MAX))),
    }
}

/// A task's id.
pub(super) fn id(text: &str) -> Result<TaskId, Status> {
    text.parse().map_err(|error: BadTaskId| Status::invalid_argument(error.to_string()))
}

/// The ids of one act.
pub(super) fn ids(texts: &[String]) -> Result<Vec<TaskId>, Status> {
    if texts.len() > ACT_TASKS_MAX {
        return Err(Status::invalid_argument(format!(
            "{} tasks are more than the {ACT_TASKS_MAX} of one act; split them",
            texts.len()
        )));
    }
    texts.iter().map(|text| id(text)).collect()
}

/// A queue's, schedule's or method's name.
pub(super) fn name(field: &str, text: &str) -> Result<(), Status> {
    check_name(field, text).map_err(|error| Status::invalid_argument(error.to_string()))
}

/// `Service/method`, of which both parts are names as contracts have them.
pub(super) fn method(text: &str) -> Result<(), Status> {
    let word =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.' || c == '-');
    match text.split_once('/') {
        Some((service, method)) if word(service) && word(method) => name("method", text),
        _ => Err(Status::invalid_argument(format!(
            "method `{}` is not Service/method, such as Billing/charge",
            shown(text)
        ))),
    }
}

/// A level inside a queue.
pub(super) fn priority(level: Option<u8>) -> Result<u8, Status> {
    let level = level.unwrap_or(Policy::LEVEL_DEFAULT);
    if level > Policy::LEVEL_MAX {
        return Err(Status::invalid_argument(format!(
            "priority {level} is not 0 (first) to {} (last)",
            Policy::LEVEL_MAX
        )));
    }
    Ok(level)
}

/// The budget of one attempt.
pub(super) fn timeout(text: Option<&str>) -> Result<Option<Duration>, Status> {
    let timeout = text.map(parse_duration).transpose().map_err(|error| bad_field("timeout", &error))?;
    if timeout == Some(Duration::ZERO) {
        return Err(Status::invalid_argument(
            "timeout: no attempt can be made in no time; leave it out for the method's own",
        ));
    }
    Ok(timeout)
}

/// How many attempts may be spent.
pub(super) fn attempts(count: Option<u32>) -> Result<Option<u32>, Status> {
    if count == Some(0) {
        return Err(Status::invalid_argument("attempts: a task needs at least 1"));
    }
    Ok(count)
}

/// Stores a task.
pub(super) async fn enqueue(engine: &Engine, catalog: &Catalog, draft: TaskDraft) -> Result<StoredTask, Status> {
    let TaskDraft { method: text, args, queue, key, delay, at, priority: level, attempts: count, timeout: budget } =
        draft;
    method(&text)?;
    catalog.admit(&text, args.as_bytes())?;
    let queue = match queue {
        Some(queue) => queue,
        None => catalog.queue(&text),
    };
    name("queue", &queue)?;
    let mut call = engine.enqueue_json(&text, Bytes::from(args)).queue(queue.clone());
    if let Some(level) = level {
        call = call.priority(priority(Some(level))?);
    }
    if let Some(count) = attempts(count)? {
        call = call.attempts(count);
    }
    if let Some(budget) = timeout(budget.as_deref())? {
        call = call.timeout(budget);
    }
    if let Some(key) = key {
        call = call.key(key);
    }
    match (delay, at) {
        (None, None) => {}
        (Some(delay), None) => call = call.delay(parse_duration(&delay).map_err(|error| bad_field("delay", &error))?),
        (None, Some(at)) => call = call.at(parse_instant(&at).map_err(|error| bad_field("at", &error))?),
        (Some(_), Some(_)) => {
            return Err(Status::invalid_argument("delay and at are both given; one says when it is due"));
        }
    }
    let task = call.await.map_err(from_input)?;
    // The holder of a key may lie in another queue than was asked for.
    let queue = if task.inserted {
        queue
    } else {
        let holder = engine.store().task(task.id).await.map_err(super::from_store)?;
        holder.map_or(queue, |holder| holder.view.queue)
    };
    Ok(StoredTask { id: task.id.to_string(), inserted: task.inserted, queue })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A query that cannot be meant is refused by its field, and limits have their defaults.
    #[test]
    fn queries_are_checked() {
        let (filter, page) = filter(TaskQuery { state: Some("failed".to_owned()), ..TaskQuery::default() }).unwrap();
        assert_eq!((filter.state, page.limit), (Some(TaskState::Failed), 50));
        let refused = |query: TaskQuery, word: &str| {
            let status = super::filter(query).unwrap_err();
            assert!(status.message().contains(word), "{status}");
        };
        refused(TaskQuery { state: Some("done".to_owned()), ..TaskQuery::default() }, "succeeded");
        refused(TaskQuery { before: Some("not an id".to_owned()), ..TaskQuery::default() }, "task id");
        refused(TaskQuery { limit: 1_001, ..TaskQuery::default() }, "1001");
        assert!(ids(&vec!["1".to_owned(); 1_001]).is_err());
    }

    /// Methods are named by service and method, so that no task is stored that no worker can ever know.
    #[test]
    fn methods_are_two_names() {
        assert!(method("Billing/charge").is_ok());
        for bad in ["", "charge", "/charge", "Billing/", "a/b/c", "a b/c", "a/b\n", "Billing /charge"] {
            assert!(method(bad).is_err(), "{bad:?}");
        }
    }
}
