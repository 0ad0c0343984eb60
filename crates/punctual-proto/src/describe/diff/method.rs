//! Two versions of one method.

use super::shape::{Difference, Reading, compare};
use super::{Change, ChangeKind, Impact, Outcome};
use crate::describe::{MethodDescription, StreamDescription, TypeDescription};

/// Adds what differs.
pub(super) fn diff(old: &MethodDescription, new: &MethodDescription, changes: &mut Vec<Change>) {
    let mut method =
        Method { subject: &old.full_name, durable: old.durable.is_some() && new.durable.is_some(), changes };
    if old.shape == new.shape && old.streams.len() == new.streams.len() {
        method.messages(old, new);
    } else {
        method.shape(old, new);
    }
    method.policy(old, new);
}

struct Method<'a> {
    subject: &'a str,
    /// Whether its arguments and results are also stored, by both versions.
    durable: bool,
    changes: &'a mut Vec<Change>,
}

/// Who writes a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writer {
    Client,
    Server,
}

/// A message of a method.
struct Message<'a> {
    place: &'a str,
    writer: Writer,
    old: &'a TypeDescription,
    new: &'a TypeDescription,
    /// Whether either version sends it as it is, without a codec.
    raw: (bool, bool),
    stored: bool,
}

impl Method<'_> {
    fn messages(&mut self, old: &MethodDescription, new: &MethodDescription) {
        let stored = self.durable;
        self.message(&Message {
            place: "args",
            writer: Writer::Client,
            old: &old.args,
            new: &new.args,
            raw: (old.raw_args, new.raw_args),
            stored,
        });
        for (at, (old, new)) in old.streams.iter().zip(&new.streams).enumerate() {
            self.stream(at + 1, old, new);
        }
        if old.shape == "oneway" {
            return;
        }
        let place = if old.item_err.is_some() { "result[]" } else { "result" };
        let raw = (old.raw_ok, new.raw_ok);
        self.message(&Message { place, writer: Writer::Server, old: &old.ok, new: &new.ok, raw, stored });
        self.error("error", Writer::Server, &old.err, &new.err);
        if let (Some(old), Some(new)) = (&old.item_err, &new.item_err) {
            self.error("result[] error", Writer::Server, old, new);
        }
    }

    fn stream(&mut self, number: usize, old: &StreamDescription, new: &StreamDescription) {
        // Streams are known by their number; the name is for people.
        let place = format!("stream {number}[]");
        let raw = |item: &TypeDescription| *item == TypeDescription::Bytes;
        self.message(&Message {
            place: &place,
            writer: Writer::Client,
            old: &old.item,
            new: &new.item,
            raw: (raw(&old.item), raw(&new.item)),
            stored: false,
        });
        self.error(&format!("stream {number} error"), Writer::Client, &old.err, &new.err);
    }

    fn message(&mut self, message: &Message<'_>) {
        let Message { place, writer, old, new, raw, stored } = *message;
        for mut difference in compare(old, new) {
            if raw == (true, true) {
                // No codec is asked, so no name is sent.
                difference.forward.named = Outcome::Works;
                difference.backward.named = Outcome::Works;
            }
            self.push(place, writer, stored, difference);
        }
        if raw.0 != raw.1 {
            let text = if raw.0 {
                "raw bytes became a message: what the old version sends has no fields"
            } else {
                "a message became raw bytes: what the new version sends has no fields"
            };
            let fails = Reading { named: Outcome::Fails, json: Outcome::Works };
            let (forward, backward) = if raw.0 { (fails, Reading::WORKS) } else { (Reading::WORKS, fails) };
            let text = text.to_owned();
            let kind = ChangeKind::RawChanged;
            self.push(place, writer, stored, Difference { path: String::new(), kind, text, forward, backward });
        }
    }

    /// An error of the type `Status` is sent as one, which every caller reads; another is sent as what it is.
    fn error(&mut self, place: &str, writer: Writer, old: &TypeDescription, new: &TypeDescription) {
        let is_status = |err: &TypeDescription| *err == TypeDescription::Status;
        let (forward, backward) = match (is_status(old), is_status(new)) {
            (true, true) => return,
            (false, false) => {
                for difference in compare(old, new) {
                    self.push(place, writer, false, difference);
                }
                return;
            }
            (true, false) => (Reading::WORKS, Reading::FAILS),
            (false, true) => (Reading::FAILS, Reading::WORKS),
        };
        let text = format!("{old} became {new}");
        let kind = ChangeKind::TypeChanged;
        self.push(place, writer, false, Difference { path: String::new(), kind, text, forward, backward });
    }

    fn push(&mut self, place: &str, writer: Writer, stored: bool, difference: Difference) {
        let Difference { path, kind, text, forward, backward } = difference;
        let when_stored = |outcome| if stored { outcome } else { Outcome::Works };
        let impact = match writer {
            // Old clients wrote what new servers read.
            Writer::Client => Impact {
                old_clients: forward.named,
                new_clients: backward.named.max(when_stored(backward.json)),
                json_callers: forward.json,
                stored_tasks: when_stored(forward.json),
            },
            // New servers write what old clients read. A result that is stored was written by the old version.
            Writer::Server => Impact {
                old_clients: backward.named,
                new_clients: forward.named,
                json_callers: backward.json,
                stored_tasks: when_stored(forward.json),
            },
        };
        self.changes.push(Change::new(kind, self.subject, &format!("{place}{path}"), text, impact));
    }

    fn shape(&mut self, old: &MethodDescription, new: &MethodDescription) {
        let text = format!("{} became {}", shown(old), shown(new));
        let (mut old_clients, mut new_clients) = (Outcome::Fails, Outcome::Fails);
        let nothing = TypeDescription::Unit;
        if old.streams.is_empty() && new.streams.is_empty() {
            // A server that runs a method one-way answers a caller who waits all the same, with nothing.
            match (old.shape.as_str(), new.shape.as_str()) {
                ("unary", "oneway") if old.ok == nothing => old_clients = Outcome::Works,
                ("oneway", "unary") if new.ok == nothing => new_clients = Outcome::Works,
                _ => {}
            }
        }
        let impact = Impact { old_clients, new_clients, json_callers: old_clients, stored_tasks: Outcome::Works };
        self.changes.push(Change::new(ChangeKind::ShapeChanged, self.subject, "", text, impact));
        // What is the same in both shapes is still told: it is what has to be edited back.
        let args = Message {
            place: "args",
            writer: Writer::Client,
            old: &old.args,
            new: &new.args,
            raw: (old.raw_args, new.raw_args),
            stored: self.durable,
        };
        self.message(&args);
    }

    fn policy(&mut self, old: &MethodDescription, new: &MethodDescription) {
        match (&old.durable, &new.durable) {
            (Some(_), None) => {
                let text = "the method cannot be stored any more".to_owned();
                let impact = Impact { stored_tasks: Outcome::Fails, ..Impact::NONE };
                self.changes.push(Change::new(ChangeKind::DurableRemoved, self.subject, "", text, impact));
            }
            (None, Some(_)) => {
                let text = "the method can be stored now".to_owned();
                let impact = Impact { new_clients: Outcome::Works, ..Impact::NONE };
                self.changes.push(Change::new(ChangeKind::DurableAdded, self.subject, "", text, impact));
            }
            (Some(old), Some(new)) => {
                self.changed("queue", &old.queue, &new.queue);
                self.changed("attempts", &old.attempts, &new.attempts);
                self.changed("backoff", &old.backoff, &new.backoff);
                self.changed("priority", &old.priority, &new.priority);
            }
            (None, None) => {}
        }
        self.changed("timeout in milliseconds", &old.timeout_ms, &new.timeout_ms);
        self.changed("idempotent", &Some(old.idempotent), &Some(new.idempotent));
        self.changed("detached", &Some(old.detached), &Some(new.detached));
    }

    /// What is no matter of bytes.
    fn changed<T: PartialEq + serde::Serialize>(&mut self, what: &str, old: &Option<T>, new: &Option<T>) {
        if old == new {
            return;
        }
        let shown = |value: &Option<T>| match value {
            Some(value) => serde_json::to_string(value).unwrap_or_default(),
            None => "the default".to_owned(),
        };
        let text = format!("{what} was {}, is {}", shown(old), shown(new));
        self.changes.push(Change::new(ChangeKind::PolicyChanged, self.subject, "", text, Impact::NONE));
    }
}

fn shown(method: &MethodDescription) -> String {
    match method.streams.len() {
        0 => method.shape.clone(),
        1 => format!("{} with 1 argument stream", method.shape),
        many => format!("{} with {many} argument streams", method.shape),
    }
}
