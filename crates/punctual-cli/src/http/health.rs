//! Whether the daemon lives, and whether it should get work.

use super::answer::{body, json};
use super::app::App;
use axum::http::StatusCode;
use axum::response::Response;
use punctual::rpc::ServerPhase;
use serde::Serialize;
use std::time::Duration;

/// How long the database may take to tell the time.
const STORE_WAIT_MAX: Duration = Duration::from_secs(2);

#[derive(Serialize)]
struct Alive {
    status: &'static str,
}

#[derive(Serialize)]
struct Ready {
    ready: bool,
    checks: Checks,
}

/// Each is `ok`, or what is wrong.
#[derive(Serialize)]
struct Checks {
    daemon: &'static str,
    server: &'static str,
    worker: &'static str,
    store: &'static str,
}

const OK: &str = "ok";

/// The process answers.
pub(super) fn alive() -> Response {
    json(&Alive { status: OK })
}

/// It takes calls, runs tasks and reaches its database. The words say which of them it does not, and nothing of why: that is in
/// the log.
pub(super) async fn ready(app: &App) -> Response {
    let store = match tokio::time::timeout(STORE_WAIT_MAX, app.engine.store().now()).await {
        Ok(Ok(_)) => OK,
        Ok(Err(error)) => {
            tracing::warn!(%error, "not ready: the database does not answer");
            "fails"
        }
        Err(_) => "slow",
    };
    let checks = Checks {
        daemon: if app.is_draining() { "stopping" } else { OK },
        server: if app.server.phase() == ServerPhase::Ready { OK } else { "not serving" },
        worker: if app.engine.worker().is_some() { OK } else { "not registered" },
        store,
    };
    let ready = [checks.daemon, checks.server, checks.worker, checks.store].iter().all(|check| *check == OK);
    let answer = json(&Ready { ready, checks });
    if ready {
        return answer;
    }
    let (parts, told) = answer.into_parts();
    let mut answer = body(StatusCode::SERVICE_UNAVAILABLE, "application/json", told);
    *answer.headers_mut() = parts.headers;
    answer
}
