//! From requests to arguments, by the real table and contract.

use super::*;
use crate::http::rest::{ADMIN, TABLE};
use crate::http::route::Route;
use serde_json::json;

fn row(path: &str) -> (&'static Call, &'static MethodDescription) {
    let mut rows = TABLE.iter().filter_map(|route: &Route| Some((route, route.action.call()?)));
    let (_, call) = rows.find(|(route, call)| format!("{} {}", route.verb.as_str(), call.method) == path).unwrap();
    (call, ADMIN.method(call.method).unwrap())
}

fn args(path: &str, place: &str, query: &str, body: &str) -> Result<Value, (u16, Option<String>)> {
    let (call, method) = row(path);
    let place = [("name".to_owned(), place.to_owned()), ("id".to_owned(), place.to_owned())];
    let query = Some(query).filter(|query| !query.is_empty());
    of(call, method, &place, query, body.as_bytes()).map(Value::Object).map_err(|refusal| {
        let told: Value = serde_json::from_str(&refusal.json()).unwrap();
        (refusal.answer().status().as_u16(), told["error"]["field"].as_str().map(str::to_owned))
    })
}

/// Arguments come from the path, the query and the body; what may be left out has its empty value, and what may not is asked for.
#[test]
fn arguments_come_from_where_the_table_says() {
    assert_eq!(args("GET show_task", "a%2Fb", "", ""), Ok(json!({"id": "a%2Fb"})));
    assert_eq!(
        args("GET list_tasks", "", "state=failed&limit=7&method=A%2Fb", ""),
        Ok(json!({"query": {"state": "failed", "limit": 7, "method": "A/b"}}))
    );
    assert_eq!(args("GET list_tasks", "", "limit=0", ""), Ok(json!({"query": {"limit": 50}})));
    assert_eq!(args("GET list_schedules", "", "", ""), Ok(json!({"after": "", "limit": 50})));
    assert_eq!(args("GET preview_schedule", "x", "", ""), Ok(json!({"name": "x", "count": 0})));
    assert_eq!(args("POST pause_schedule", "x", "", " "), Ok(json!({"name": "x", "note": ""})));
    assert_eq!(
        args("POST enqueue_task", "", "", r#"{"method":"A/b","args":"{}"}"#),
        Ok(json!({"task": {"method": "A/b", "args": "{}"}}))
    );
    assert_eq!(
        args("POST add_schedule", "", "", r#"{"schedule":{"name":"n","rule":{"cron":"@daily"}}}"#),
        Ok(json!({"schedule": {"name": "n", "rule": {"cron": "@daily"}}, "replace": false}))
    );
}

/// What is misspelt, twice there, of another type or missing is refused by its name, and nothing is passed over.
#[test]
fn what_is_not_asked_for_is_refused() {
    for (path, query, body, field) in [
        ("GET list_tasks", "stat=failed", "", Some("stat")),
        ("GET list_tasks", "limit=many", "", Some("limit")),
        ("GET list_tasks", "limit=-1", "", Some("limit")),
        ("GET list_tasks", "limit=4294967296", "", Some("limit")),
        ("GET list_tasks", "limit=1&limit=2", "", Some("limit")),
        ("GET list_queues", "limit=1", "", Some("limit")),
        ("POST cancel_tasks", "", "{}", Some("ids")),
        ("POST cancel_tasks", "", r#"{"ids":[],"id":1}"#, Some("id")),
        ("POST enqueue_task", "", r#"{"method":"A/b","args":"{}","queu":"x"}"#, Some("queu")),
        ("POST add_schedule", "", r#"{"schedule":{"rule":{"cronn":"x"}}}"#, Some("schedule.rule.cronn")),
        ("POST resume_schedule", "", "", Some("mode")),
        ("POST cancel_tasks", "", "[]", None),
        ("POST cancel_tasks", "", "{", None),
    ] {
        let refused = args(path, "x", query, body).unwrap_err();
        assert_eq!(refused, (400, field.map(str::to_owned)), "{path} {query} {body}");
    }
}

/// The contract's own refusals name their field at their beginning.
#[test]
fn refusals_of_the_contract_have_their_field() {
    let field = |method: &str, text: &str| {
        let (_, method) = row(method);
        field_of(method, &Status::invalid_argument(text))
    };
    assert_eq!(field("GET list_tasks", "limit 5000 is more than 1000").as_deref(), Some("limit"));
    assert_eq!(field("POST enqueue_task", "delay: `x` is no duration").as_deref(), Some("delay"));
    assert_eq!(field("POST add_schedule", "cron: no").as_deref(), Some("cron"));
    assert_eq!(field("GET show_task", "`x` is no task id").as_deref(), Some("id"));
    assert_eq!(field("POST enqueue_task", "something else"), None);
}
