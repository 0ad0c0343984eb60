//! The contract of the tests, and its server and client, as `#[punctual::service]` would write them.

use bytes::Bytes;
use punctual_context::{CancelReason, Context};
use punctual_proto::codec::Args;
use punctual_proto::contract::{MethodDescriptor, ServiceDescriptor};
use punctual_proto::schema::{EnumType, Field, Fields, Schema, StructType, Type, Variant};
use punctual_rpc::{Channel, Inbound, OneWay, Service, Status, Unary, auth};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, watch};

macro_rules! requests {
    ($($name:ident { $($field:ident: $ty:ty),* })*) => {$(
        #[derive(Debug, Clone, Serialize, Deserialize)]
        pub(crate) struct $name { $(pub(crate) $field: $ty),* }
        impl Args for $name {}
        impl Schema for $name {
            const TYPE: &'static Type = &Type::Struct(&StructType {
                name: stringify!($name),
                docs: "",
                fields: Fields::Named(&[$(Field {
                    name: stringify!($field), docs: "", ty: <$ty as Schema>::TYPE, optional: false,
                }),*]),
            });
        }
    )*};
}

requests! {
    Add { a: i32, b: i32 }
    Text { text: String }
    Wait { gate: u64 }
    Nothing {}
}

/// An application's error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Declined {
    Overflow,
    Because(String),
}

impl Schema for Declined {
    const TYPE: &'static Type = &Type::Enum(&EnumType {
        name: "Declined",
        docs: "",
        variants: &[
            Variant { name: "Overflow", docs: "", fields: Fields::Unit },
            Variant { name: "Because", docs: "", fields: Fields::Newtype(&Type::Str) },
        ],
    });
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Raw {
    pub(crate) data: Bytes,
}

impl Args for Raw {
    fn raw(&self) -> Option<&Bytes> {
        Some(&self.data)
    }

    fn from_raw(raw: Bytes) -> Option<Self> {
        Some(Raw { data: raw })
    }
}

impl Schema for Raw {
    const TYPE: &'static Type = &Type::Struct(&StructType {
        name: "Raw",
        docs: "",
        fields: Fields::Named(&[Field { name: "data", docs: "", ty: &Type::Bytes, optional: false }]),
    });
}

/// Arguments whose encoding takes time: it runs `during` before it writes anything.
#[derive(Clone)]
pub(crate) struct Tick {
    pub(crate) during: Arc<dyn Fn() + Send + Sync>,
}

impl Serialize for Tick {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.during)();
        serializer.serialize_u64(1)
    }
}

impl Args for Tick {}

impl Schema for Tick {
    const TYPE: &'static Type = &Type::U64;
}

const STATUS: &Type = &Type::Status;

pub(crate) static DESCRIPTOR: ServiceDescriptor = ServiceDescriptor::new(
    "Probe",
    "What the tests call.",
    &[
        MethodDescriptor::unary("Probe/add", Add::TYPE, &Type::I32, Declined::TYPE),
        MethodDescriptor::unary("Probe/echo", Raw::TYPE, &Type::Bytes, STATUS),
        MethodDescriptor::unary("Probe/wait", Wait::TYPE, &Type::U64, STATUS),
        MethodDescriptor::oneway("Probe/note", Text::TYPE),
        MethodDescriptor::unary("Probe/text", Text::TYPE, &Type::Str, STATUS),
        MethodDescriptor::unary("Probe/panic", Nothing::TYPE, &Type::Unit, STATUS),
        MethodDescriptor::unary("Probe/budget", Nothing::TYPE, &Type::U64, STATUS),
        MethodDescriptor::oneway("Probe/bulk_note", Raw::TYPE),
        MethodDescriptor::unary("Probe/quick", Nothing::TYPE, &Type::U64, STATUS).timeout(Duration::from_secs(2)),
        MethodDescriptor::unary("Probe/unserved", Nothing::TYPE, &Type::Unit, STATUS),
        MethodDescriptor::oneway("Probe/hold", Raw::TYPE),
        MethodDescriptor::unary("Probe/tick", Tick::TYPE, &Type::U64, STATUS),
        MethodDescriptor::oneway("Probe/tick_note", Tick::TYPE),
        MethodDescriptor::unary("Probe/repeat", Wait::TYPE, &Type::Str, STATUS),
        MethodDescriptor::unary("Probe/block", Nothing::TYPE, &Type::Unit, STATUS),
        MethodDescriptor::unary("Probe/published", Nothing::TYPE, &Type::U64, STATUS),
        MethodDescriptor::unary("Probe/flaky", Nothing::TYPE, &Type::U64, STATUS).idempotent(),
    ],
);

/// What the handlers did, for the tests to look at.
#[derive(Default)]
pub(crate) struct Ledger {
    /// Bodies of `note`, in order of their handlers' start.
    pub(crate) notes: Mutex<Vec<String>>,
    /// Budgets of the notes, in microseconds; 0 without one.
    pub(crate) note_budgets: Mutex<Vec<u64>>,
    pub(crate) bulk_bytes: AtomicU64,
    /// `wait` handlers that were started, and dropped without an end.
    pub(crate) waiting: watch::Sender<u64>,
    pub(crate) dropped: watch::Sender<u64>,
    pub(crate) cancelled: Mutex<Vec<CancelReason>>,
    /// Open to let `wait` go on.
    pub(crate) gate: watch::Sender<bool>,
    pub(crate) changed: Notify,
    /// What `flaky` fails with, one attempt after the other, and the attempts that it saw.
    pub(crate) failures: Mutex<VecDeque<Status>>,
    pub(crate) attempts: AtomicU64,
    blocked: Mutex<bool>,
    unblocked: Condvar,
    /// Run while the result of `published` is encoded.
    pub(crate) on_publish: Mutex<Option<Box<dyn Fn() + Send>>>,
}

/// A result whose encoding the test watches.
pub(crate) struct Published(Arc<Ledger>);

impl Serialize for Published {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Some(watch) = &*self.0.on_publish.lock().unwrap() {
            watch();
        }
        serializer.serialize_u64(1)
    }
}

impl Ledger {
    fn changed(&self) {
        self.changed.notify_waiters();
    }

    fn block(&self) {
        self.waiting.send_modify(|count| *count += 1);
        self.changed();
        let blocked = self.blocked.lock().unwrap();
        drop(self.unblocked.wait_while(blocked, |unblocked| !*unblocked).unwrap());
    }

    /// Lets `block` go on.
    pub(crate) fn unblock(&self) {
        *self.blocked.lock().unwrap() = true;
        self.unblocked.notify_all();
    }

    /// Waits until `done` holds.
    pub(crate) async fn until(&self, mut done: impl FnMut(&Self) -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if done(self) {
                return;
            }
            changed.await;
        }
    }

    pub(crate) fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap().clone()
    }
}

#[derive(Clone, Default)]
pub(crate) struct Probe {
    pub(crate) ledger: Arc<Ledger>,
}

/// Counts a handler that was dropped before its end.
struct Dropped(Arc<Ledger>, bool);

impl Drop for Dropped {
    fn drop(&mut self) {
        if !self.1 {
            self.0.dropped.send_modify(|count| *count += 1);
            self.0.changed();
        }
    }
}

impl Probe {
    async fn add(args: Add) -> Result<i32, Declined> {
        if let Some(context) = Context::current().filter(|context| !context.metadata().is_empty()) {
            context.respond_with("sum-of", format!("{} {}", args.a, args.b)).unwrap();
        }
        args.a.checked_add(args.b).ok_or(Declined::Overflow)
    }

    pub(crate) async fn wait(self, args: Wait) -> Result<u64, Status> {
        let mut dropped = Dropped(Arc::clone(&self.ledger), false);
        self.ledger.waiting.send_modify(|count| *count += 1);
        self.ledger.changed();
        if let Some(context) = Context::current() {
            let ledger = Arc::clone(&self.ledger);
            tokio::spawn(async move {
                let reason = context.cancelled().await;
                ledger.cancelled.lock().unwrap().push(reason);
                ledger.changed();
            });
        }
        let mut gate = self.ledger.gate.subscribe();
        gate.wait_for(|open| *open).await.map_err(|_| Status::aborted("the test is over"))?;
        dropped.1 = true;
        Ok(args.gate)
    }

    /// The number of the attempt, once there is no failure left. One that says `hang` does.
    async fn flaky(self) -> Result<u64, Status> {
        let attempt = self.ledger.attempts.fetch_add(1, Ordering::SeqCst) + 1;
        self.ledger.changed();
        let failure = self.ledger.failures.lock().unwrap().pop_front();
        if failure.as_ref().is_some_and(|failure| failure.message() == "hang") {
            let _dropped = Dropped(self.ledger, false);
            return std::future::pending().await;
        }
        failure.map_or(Ok(attempt), Err)
    }

    async fn note(self, args: Text) {
        let budget = Context::current().and_then(|context| context.remaining()).unwrap_or_default();
        if args.text == "meta" {
            let refused = Context::current().unwrap().respond_with("name", "value").unwrap_err();
            self.ledger.notes.lock().unwrap().push(refused.to_string());
        }
        self.ledger.note_budgets.lock().unwrap().push(u64::try_from(budget.as_micros()).unwrap());
        self.ledger.notes.lock().unwrap().push(args.text);
        self.ledger.changed();
    }

    async fn bulk_note(self, args: Raw) {
        self.ledger.bulk_bytes.fetch_add(args.data.len() as u64, Ordering::SeqCst);
        self.ledger.changed();
    }

    async fn text(args: Text) -> Result<String, Status> {
        if args.text == "who" {
            let caller = auth::caller()?;
            auth::require_scope("add")?;
            return Ok(format!("{} of {}, may add", caller.subject, caller.tenant.unwrap_or_default()));
        }
        if let Some(entries) = args.text.strip_prefix("meta:") {
            return respond(entries);
        }
        match args.text.strip_prefix("fail:") {
            Some(why) => Err(Status::failed_precondition(why)),
            None => Ok(args.text.to_uppercase()),
        }
    }

    async fn budget() -> Result<u64, Status> {
        let budget = Context::current().and_then(|context| context.remaining()).unwrap_or_default();
        Ok(u64::try_from(budget.as_micros()).unwrap())
    }
}

impl Service for Probe {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &DESCRIPTOR
    }

    fn dispatch(&self, method: usize, call: Inbound<'_>) {
        let probe = self.clone();
        match method {
            0 => call.unary(Probe::add),
            1 => call.unary(|args: Raw| async move { Ok::<_, Status>(args.data) }),
            2 => call.unary(move |args: Wait| probe.wait(args)),
            3 => call.oneway(move |args: Text| probe.note(args)),
            4 => call.unary(Probe::text),
            5 => call.unary(|_: Nothing| async { Err::<(), Status>(panic_on_purpose()) }),
            6 | 8 => call.unary(|_: Nothing| Probe::budget()),
            7 => call.oneway(move |args: Raw| probe.bulk_note(args)),
            13 => call.unary(|args: Wait| async move { Ok::<_, Status>("x".repeat(args.gate as usize)) }),
            14 => call.unary(move |_: Nothing| async move {
                probe.ledger.block();
                Ok::<_, Status>(())
            }),
            15 => call.unary(move |_: Nothing| async move { Ok::<_, Status>(Published(probe.ledger)) }),
            16 => call.unary(move |_: Nothing| probe.flaky()),
            10 => call.oneway(move |_: Raw| async move {
                let mut gate = probe.ledger.gate.subscribe();
                // The test may be over.
                let _ = gate.wait_for(|open| *open).await;
            }),
            _ => call.unimplemented(),
        }
    }
}

/// Sends `name=length` entries along, then a text of as many characters as `body` says, or a failure.
fn respond(entries: &str) -> Result<String, Status> {
    let (mut body, mut fail) = (0, false);
    for entry in entries.split(' ') {
        let (name, value) = entry.split_once('=').unwrap();
        let value: usize = value.parse().unwrap();
        match name {
            "body" => body = value,
            "fail" => fail = true,
            name => {
                let context = Context::current().unwrap();
                context
                    .respond_with(name, vec![b'm'; value])
                    .map_err(|error| Status::failed_precondition(error.to_string()))?;
            }
        }
    }
    if fail { Err(Status::aborted("x".repeat(body))) } else { Ok("x".repeat(body)) }
}

pub(crate) fn panic_on_purpose() -> Status {
    panic!("a secret that no peer may see")
}

#[derive(Debug, Clone)]
pub(crate) struct ProbeClient {
    pub(crate) channel: Channel,
}

impl ProbeClient {
    pub(crate) fn new(channel: Channel) -> Self {
        ProbeClient { channel }
    }

    pub(crate) fn add(&self, a: i32, b: i32) -> Unary<Add, i32, Declined> {
        self.channel.unary(&DESCRIPTOR, 0, Add { a, b })
    }

    pub(crate) fn echo(&self, data: impl Into<Bytes>) -> Unary<Raw, Bytes, Status> {
        self.channel.unary(&DESCRIPTOR, 1, Raw { data: data.into() })
    }

    pub(crate) fn wait(&self, gate: u64) -> Unary<Wait, u64, Status> {
        self.channel.unary(&DESCRIPTOR, 2, Wait { gate })
    }

    pub(crate) fn note(&self, text: &str) -> OneWay<Text> {
        self.channel.oneway(&DESCRIPTOR, 3, Text { text: text.to_owned() })
    }

    pub(crate) fn text(&self, text: &str) -> Unary<Text, String, Status> {
        self.channel.unary(&DESCRIPTOR, 4, Text { text: text.to_owned() })
    }

    pub(crate) fn panic(&self) -> Unary<Nothing, (), Status> {
        self.channel.unary(&DESCRIPTOR, 5, Nothing {})
    }

    pub(crate) fn budget(&self) -> Unary<Nothing, u64, Status> {
        self.channel.unary(&DESCRIPTOR, 6, Nothing {})
    }

    pub(crate) fn bulk_note(&self, data: impl Into<Bytes>) -> OneWay<Raw> {
        self.channel.oneway(&DESCRIPTOR, 7, Raw { data: data.into() })
    }

    pub(crate) fn quick(&self) -> Unary<Nothing, u64, Status> {
        self.channel.unary(&DESCRIPTOR, 8, Nothing {})
    }

    pub(crate) fn hold(&self, data: impl Into<Bytes>) -> OneWay<Raw> {
        self.channel.oneway(&DESCRIPTOR, 10, Raw { data: data.into() })
    }

    pub(crate) fn tick(&self, during: impl Fn() + Send + Sync + 'static) -> Unary<Tick, u64, Status> {
        self.channel.unary(&DESCRIPTOR, 11, Tick { during: Arc::new(during) })
    }

    pub(crate) fn tick_note(&self, during: impl Fn() + Send + Sync + 'static) -> OneWay<Tick> {
        self.channel.oneway(&DESCRIPTOR, 12, Tick { during: Arc::new(during) })
    }

    /// A reply of this many characters.
    pub(crate) fn repeat(&self, len: usize) -> Unary<Wait, String, Status> {
        self.channel.unary(&DESCRIPTOR, 13, Wait { gate: len as u64 })
    }

    /// Blocks its thread until the ledger says otherwise.
    pub(crate) fn block(&self) -> Unary<Nothing, (), Status> {
        self.channel.unary(&DESCRIPTOR, 14, Nothing {})
    }

    pub(crate) fn published(&self) -> Unary<Nothing, u64, Status> {
        self.channel.unary(&DESCRIPTOR, 15, Nothing {})
    }

    /// Fails as its ledger says.
    pub(crate) fn flaky(&self) -> Unary<Nothing, u64, Status> {
        self.channel.unary(&DESCRIPTOR, 16, Nothing {})
    }

    pub(crate) fn unserved(&self) -> Unary<Nothing, (), Status> {
        self.channel.unary(&DESCRIPTOR, 9, Nothing {})
    }
}
