//! A task for people.

use crate::exit::Failure;
use crate::output::Output;
use punctual_admin::{AttemptLine, ProgressLine, TaskReport};
use serde_json::Value;

/// Prints all that is kept of a task.
pub(super) fn print(report: &TaskReport, output: &mut Output) -> Result<(), Failure> {
    let task = &report.task;
    let mut field = |name: &str, value: &str| output.line(format!("{name:<10}{value}"));
    field("id", &task.id)?;
    field("state", &task.state)?;
    field("method", &task.method)?;
    field("queue", &format!("{} (priority {})", task.queue, task.priority))?;
    field("created", &task.created)?;
    field("due", &task.due)?;
    if let Some(schedule) = &task.schedule {
        field("schedule", schedule)?;
    }
    if let Some(slot) = &task.slot {
        field("slot", slot)?;
    }
    if let Some(run) = report.run {
        field("run", &run.to_string())?;
    }
    if let Some(key) = &report.key {
        field("key", key)?;
    }
    field("args", &report.args.to_string())?;
    if let Some(progress) = &report.progress {
        field("progress", &said_of_itself(progress))?;
    }
    if report.attempts.is_empty() {
        return field("attempts", "none ended yet");
    }
    for attempt in &report.attempts {
        let AttemptLine { n, worker, started, ended, outcome, out } = attempt;
        // An end without an attempt had no worker.
        let by = if *worker == 0 { String::new() } else { format!(", worker {worker}") };
        field("attempt", &format!("{n} {outcome}, {started} to {ended}{by}"))?;
        field("", &said(out))?;
    }
    for (name, text) in report.attempts.last().map(|attempt| written(&attempt.out)).unwrap_or_default() {
        output.line(format!("\n{name} of the last attempt:"))?;
        output.line(text.trim_end())?;
    }
    Ok(())
}

/// `40 %, row 4 of 10 (attempt 2, 2026-03-02T00:00:00Z, a checkpoint of 3 bytes)`, as far as it was said.
fn said_of_itself(progress: &ProgressLine) -> String {
    let ProgressLine { attempt, at, percent, message, checkpoint_bytes } = progress;
    let percent = percent.map(|percent| format!("{percent} %"));
    let said: Vec<&str> =
        percent.iter().map(String::as_str).chain([message.as_str()]).filter(|said| !said.is_empty()).collect();
    let kept = checkpoint_bytes.map(|bytes| format!(", a checkpoint of {bytes} bytes")).unwrap_or_default();
    let said = said.join(", ");
    let space = if said.is_empty() { "" } else { " " };
    format!("{said}{space}(attempt {attempt}, {at}{kept})")
}

/// What a program wrote, of the results and errors that hold such.
fn written(out: &Value) -> Vec<(&'static str, &str)> {
    let error = out.get("detail").and_then(Value::as_object).and_then(|detail| detail.values().next());
    let place = error.unwrap_or(out);
    let text = |name: &'static str| {
        let text = place.get(name)?.get("text")?.as_str()?;
        (!text.is_empty()).then_some((name, text))
    };
    ["stdout", "stderr"].into_iter().filter_map(text).collect()
}

/// An error by its message, a result as it is; one line, whatever it holds.
fn said(out: &Value) -> String {
    match out.get("message").and_then(Value::as_str) {
        Some(message) => message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect(),
        None => out.to_string(),
    }
}
