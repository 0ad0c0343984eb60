//! Two versions of a contract, compared: what their clients, servers and stored tasks can still say to each other.
//!
//! Peers of different contracts speak a codec that names its fields, and tasks are stored as JSON; so a change is judged by
//! what those two codecs read, in each direction that the version of either side can be the older one. The comparison is
//! pure, and its tests hold every judgement against bytes that the codecs wrote. Shapes are compared in `diff/shape.rs`.
//!
//! A description does not tell everything that serde can be told: an `alias` or `other` may save what is judged to fail,
//! and `deny_unknown_fields` may refuse what is judged to work.

mod conversion;
mod method;
mod shape;

#[cfg(test)]
mod tests;

use crate::describe::ServiceDescription;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// What becomes of the values that one version writes and the other reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Every value is read.
    Works,
    /// Some values are read, others refused: a number that is too large, a variant that is not known, an absent option.
    SomeFail,
    /// Nothing shows that any value is read.
    Fails,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::Works => "work",
            Outcome::SomeFail => "fail for some values",
            Outcome::Fails => "fail",
        })
    }
}

/// Whom a change concerns, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Impact {
    /// Clients that were built with the old contract, and call a server of the new one.
    pub old_clients: Outcome,
    /// Clients that were built with the new contract, and call a server of the old one; also tasks that a new engine stores
    /// and an old one runs. It matters while a fleet is upgraded, or rolled back.
    pub new_clients: Outcome,
    /// Whoever writes and reads JSON by the old description: tools, and callers through a gateway.
    pub json_callers: Outcome,
    /// Tasks and schedules that were stored by the old version, and run by the new one; and the results that it left.
    pub stored_tasks: Outcome,
}

impl Impact {
    /// Nobody notices, as far as bytes go.
    pub const NONE: Impact = Impact {
        old_clients: Outcome::Works,
        new_clients: Outcome::Works,
        json_callers: Outcome::Works,
        stored_tasks: Outcome::Works,
    };

    /// What it amounts to.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        if self.old_clients.max(self.json_callers).max(self.stored_tasks) > Outcome::Works {
            Verdict::Breaks
        } else if self.new_clients > Outcome::Works {
            Verdict::ServersFirst
        } else {
            Verdict::Compatible
        }
    }
}

/// What a change amounts to, from harmless to not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Old and new understand each other in any order of upgrade.
    Compatible,
    /// What is there keeps working; only new clients of old servers do not. Upgrade servers before their clients.
    ServersFirst,
    /// Something that worked with the old version fails with the new one.
    Breaks,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Compatible => "compatible",
            Verdict::ServersFirst => "servers first",
            Verdict::Breaks => "breaks",
        })
    }
}

/// What kind of edit a change is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChangeKind {
    /// A service is new.
    ServiceAdded,
    /// A service is gone, or has another name.
    ServiceRemoved,
    /// A method is new.
    MethodAdded,
    /// A method is gone, or has another name.
    MethodRemoved,
    /// A method runs in another way: one-way, unary, or with other streams.
    ShapeChanged,
    /// A named field, or an argument, is new.
    FieldAdded,
    /// A named field, or an argument, is gone, or has another name.
    FieldRemoved,
    /// A field that could be left out cannot any more.
    FieldRequired,
    /// A variant is new.
    VariantAdded,
    /// A variant is gone, or has another name.
    VariantRemoved,
    /// A type became another.
    TypeChanged,
    /// Raw bytes became a message, or a message raw bytes.
    RawChanged,
    /// A method can be stored now.
    DurableAdded,
    /// A method cannot be stored any more.
    DurableRemoved,
    /// Timeout, idempotence, queue, attempts, backoff or priority: it runs otherwise, and its bytes are the same.
    PolicyChanged,
}

/// One difference between two versions of a contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Change {
    /// What it amounts to.
    pub verdict: Verdict,
    /// What kind of edit it is.
    pub kind: ChangeKind,
    /// The service, or `Service/method`.
    pub subject: String,
    /// Where in it: `args.order`, `result[].price`, `error.Declined`; empty for the whole.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// What was changed, in words.
    pub text: String,
    /// Whom it concerns.
    pub impact: Impact,
}

impl Change {
    fn new(kind: ChangeKind, subject: &str, place: &str, text: String, impact: Impact) -> Self {
        let verdict = impact.verdict();
        Change { verdict, kind, subject: subject.to_owned(), place: place.to_owned(), text, impact }
    }
}

impl fmt::Display for Change {
    /// One line: the verdict, where, what, and who fails.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<13}  {}", self.verdict, super::text::Plain(&self.subject))?;
        if !self.place.is_empty() {
            write!(f, " {}", super::text::Plain(&self.place))?;
        }
        write!(f, ": {}", super::text::Plain(&self.text))?;
        let impact = &self.impact;
        let mut separator = " (";
        for (who, outcome) in [
            ("old clients", impact.old_clients),
            ("new clients of old servers", impact.new_clients),
            ("callers in JSON", impact.json_callers),
            ("stored tasks", impact.stored_tasks),
        ] {
            if outcome > Outcome::Works {
                write!(f, "{separator}{who} {outcome}")?;
                separator = ", ";
            }
        }
        if separator == " (" { Ok(()) } else { f.write_str(")") }
    }
}

/// Everything that differs between two versions of some services, in the order of the old version, then what is new. Doc
/// comments and the names of types are on no wire and do not count.
#[must_use]
pub fn diff(old: &[ServiceDescription], new: &[ServiceDescription]) -> Vec<Change> {
    let mut changes = Vec::new();
    let named: BTreeMap<&str, &ServiceDescription> =
        new.iter().map(|service| (service.name.as_str(), service)).collect();
    for service in old {
        match named.get(service.name.as_str()) {
            Some(other) => diff_service(service, other, &mut changes),
            None => {
                let stored = service.methods.iter().any(|method| method.durable.is_some());
                let text = "the service was removed, or has another name".to_owned();
                changes.push(Change::new(ChangeKind::ServiceRemoved, &service.name, "", text, removed(stored)));
            }
        }
    }
    let known: BTreeMap<&str, ()> = old.iter().map(|service| (service.name.as_str(), ())).collect();
    for service in new.iter().filter(|service| !known.contains_key(service.name.as_str())) {
        let text = "the service was added".to_owned();
        changes.push(Change::new(ChangeKind::ServiceAdded, &service.name, "", text, ADDED));
    }
    changes
}

fn diff_service(old: &ServiceDescription, new: &ServiceDescription, changes: &mut Vec<Change>) {
    let named: BTreeMap<&str, _> = new.methods.iter().map(|method| (method.name.as_str(), method)).collect();
    for method in &old.methods {
        match named.get(method.name.as_str()) {
            Some(other) => method::diff(method, other, changes),
            None => {
                let text = "the method was removed, or has another name".to_owned();
                let impact = removed(method.durable.is_some());
                changes.push(Change::new(ChangeKind::MethodRemoved, &method.full_name, "", text, impact));
            }
        }
    }
    let known: BTreeMap<&str, ()> = old.methods.iter().map(|method| (method.name.as_str(), ())).collect();
    for method in new.methods.iter().filter(|method| !known.contains_key(method.name.as_str())) {
        let text = "the method was added".to_owned();
        changes.push(Change::new(ChangeKind::MethodAdded, &method.full_name, "", text, ADDED));
    }
}

/// What an old server does not have it says it does not have.
const ADDED: Impact = Impact { new_clients: Outcome::Fails, ..Impact::NONE };

const fn removed(stored: bool) -> Impact {
    Impact {
        old_clients: Outcome::Fails,
        new_clients: Outcome::Works,
        json_callers: Outcome::Fails,
        stored_tasks: if stored { Outcome::Fails } else { Outcome::Works },
    }
}
