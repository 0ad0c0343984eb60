//! Edits of services and methods: one row each.

use punctual::contract::ChangeKind::{
    DurableAdded, DurableRemoved, FieldAdded, FieldRemoved, MethodAdded, MethodRemoved, PolicyChanged, RawChanged,
    ServiceAdded, ServiceRemoved, ShapeChanged, TypeChanged,
};
use punctual::contract::Outcome::{Fails, SomeFail, Works};
use punctual::contract::Verdict::{Breaks, Compatible, ServersFirst};
use punctual::contract::{
    Backoff, ChangeKind, DurablePolicy, Field, Fields, Impact, MethodDescriptor, Outcome, ServiceDescription,
    ServiceDescriptor, StreamDescriptor, StructType, Type, Verdict, diff,
};
use punctual::{Bytes, message};
use punctual_proto::codec::{Codec, decode, encode};
use std::time::Duration;

const fn field(name: &'static str, ty: &'static Type, optional: bool) -> Field {
    Field { name, docs: "", ty, optional }
}

const fn args(fields: &'static [Field]) -> StructType {
    StructType { name: "Args", docs: "", fields: Fields::Named(fields) }
}

const NONE: &Type = &Type::Struct(&args(&[]));
const ONE: &Type = &Type::Struct(&args(&[field("a", &Type::U8, false)]));
const ONE_MORE: &Type = &Type::Struct(&args(&[field("a", &Type::U8, false), field("b", &Type::U8, true)]));
const TEXT: &Type = &Type::Struct(&args(&[field("a", &Type::Str, false)]));
const RAW: &Type = &Type::Struct(&args(&[field("data", &Type::Bytes, false)]));
const RAW_RENAMED: &Type = &Type::Struct(&args(&[field("bytes", &Type::Bytes, false)]));
const RAW_AND_NAME: &Type =
    &Type::Struct(&args(&[field("data", &Type::Bytes, false), field("name", &Type::Str, true)]));

const fn unary(args: &'static Type) -> MethodDescriptor {
    MethodDescriptor::unary("S/m", args, &Type::U64, &Type::Status)
}

const fn durable(args: &'static Type) -> MethodDescriptor {
    unary(args).durable(DurablePolicy::new())
}

const LINES: &[StreamDescriptor] = &[StreamDescriptor::new("lines", &Type::U8, &Type::Status)];
const LINES_RENAMED: &[StreamDescriptor] = &[StreamDescriptor::new("other", &Type::U8, &Type::Status)];
const TEXTS: &[StreamDescriptor] = &[StreamDescriptor::new("lines", &Type::Str, &Type::Status)];
const RAW_STREAM: &[StreamDescriptor] = &[StreamDescriptor::new("lines", &Type::Bytes, &Type::Status)];
const TWO: &[StreamDescriptor] = &[
    StreamDescriptor::new("lines", &Type::U8, &Type::Status),
    StreamDescriptor::new("more", &Type::U8, &Type::Status),
];

fn service(methods: Vec<MethodDescriptor>) -> ServiceDescription {
    ServiceDescription::from(&ServiceDescriptor::new("S", "", Vec::leak(methods)))
}

/// Old clients, new clients, JSON callers, stored tasks.
fn impact(impact: &Impact) -> [Outcome; 4] {
    [impact.old_clients, impact.new_clients, impact.json_callers, impact.stored_tasks]
}

type Expected = (ChangeKind, &'static str, Verdict, [Outcome; 4]);

/// Each edit of a method, and what is said of it.
#[test]
fn edits_of_methods() {
    const ALL_WORK: [Outcome; 4] = [Works; 4];
    let money = DurablePolicy::new().queue("money");
    let rows: Vec<(&str, MethodDescriptor, MethodDescriptor, Vec<Expected>)> = vec![
        ("nothing", unary(ONE), unary(ONE).docs("With words."), vec![]),
        (
            "timeout",
            unary(ONE).timeout(Duration::from_secs(1)),
            unary(ONE),
            vec![(PolicyChanged, "", Compatible, ALL_WORK)],
        ),
        ("idempotent", unary(ONE).idempotent(), unary(ONE), vec![(PolicyChanged, "", Compatible, ALL_WORK)]),
        ("detached", unary(ONE), unary(ONE).detached(), vec![(PolicyChanged, "", Compatible, ALL_WORK)]),
        ("first argument", unary(NONE), unary(ONE), vec![(FieldAdded, "args.a", Breaks, [Fails, Works, Fails, Works])]),
        ("one more", unary(ONE), unary(ONE_MORE), vec![(FieldAdded, "args.b", Compatible, ALL_WORK)]),
        ("one less", unary(ONE_MORE), unary(ONE), vec![(FieldRemoved, "args.b", Compatible, ALL_WORK)]),
        (
            "needed no more",
            unary(ONE),
            unary(NONE),
            vec![(FieldRemoved, "args.a", ServersFirst, [Works, Fails, Works, Works])],
        ),
        ("retyped", unary(ONE), unary(TEXT), vec![(TypeChanged, "args.a", Breaks, [Fails, Fails, Fails, Works])]),
        (
            "retyped, stored",
            durable(ONE),
            durable(TEXT),
            vec![(TypeChanged, "args.a", Breaks, [Fails, Fails, Fails, Fails])],
        ),
        (
            "added, stored",
            durable(NONE),
            durable(ONE),
            vec![(FieldAdded, "args.a", Breaks, [Fails, Works, Fails, Fails])],
        ),
        ("durable now", unary(ONE), durable(ONE), vec![(DurableAdded, "", Compatible, ALL_WORK)]),
        ("durable no more", durable(ONE), unary(ONE), vec![(DurableRemoved, "", Breaks, [Works, Works, Works, Fails])]),
        ("queue", durable(ONE), unary(ONE).durable(money), vec![(PolicyChanged, "", Compatible, ALL_WORK)]),
        (
            "policy",
            durable(ONE),
            unary(ONE).durable(DurablePolicy::new().attempts(3).backoff(Backoff::Fixed(Duration::from_secs(1)))),
            vec![(PolicyChanged, "", Compatible, ALL_WORK), (PolicyChanged, "", Compatible, ALL_WORK)],
        ),
        (
            "one-way",
            unary(ONE),
            MethodDescriptor::oneway("S/m", ONE),
            vec![(ShapeChanged, "", Breaks, [Fails, Fails, Fails, Works])],
        ),
        (
            "stream",
            unary(ONE),
            unary(ONE).returns_stream(&Type::Status),
            vec![(ShapeChanged, "", Breaks, [Fails, Fails, Fails, Works])],
        ),
        (
            "two streams",
            unary(ONE).streams(LINES),
            unary(ONE).streams(TWO),
            vec![(ShapeChanged, "", Breaks, [Fails, Fails, Fails, Works])],
        ),
        ("stream renamed", unary(ONE).streams(LINES), unary(ONE).streams(LINES_RENAMED), vec![]),
        (
            "items",
            unary(ONE).streams(LINES),
            unary(ONE).streams(TEXTS),
            vec![(TypeChanged, "stream 1[]", Breaks, [Fails, Fails, Fails, Works])],
        ),
        (
            "raw items",
            unary(ONE).streams(TEXTS),
            unary(ONE).streams(RAW_STREAM),
            vec![
                (TypeChanged, "stream 1[]", ServersFirst, [Works, SomeFail, Works, Works]),
                (RawChanged, "stream 1[]", ServersFirst, [Works, Fails, Works, Works]),
            ],
        ),
        (
            "raw renamed",
            unary(RAW),
            unary(RAW_RENAMED),
            vec![
                (FieldRemoved, "args.data", Compatible, ALL_WORK),
                (FieldAdded, "args.bytes", Breaks, [Works, Works, Fails, Works]),
            ],
        ),
        (
            "raw no more",
            unary(RAW),
            unary(RAW_AND_NAME),
            vec![
                (FieldAdded, "args.name", Compatible, ALL_WORK),
                (RawChanged, "args", Breaks, [Fails, Works, Works, Works]),
            ],
        ),
    ];
    for (edit, old, new, expected) in rows {
        let changes = diff(&[service(vec![old])], &[service(vec![new])]);
        let found: Vec<Expected> = changes
            .iter()
            .map(|change| {
                let place: &'static str = String::leak(change.place.clone());
                (change.kind, place, change.verdict, impact(&change.impact))
            })
            .collect();
        assert_eq!(found, expected, "{edit}");
    }
}

/// A result is written by the server: what is added to it old clients ignore, and what is taken away they miss.
#[test]
fn results_go_the_other_way() {
    let result = |ty| MethodDescriptor::unary("S/m", NONE, ty, &Type::Status);
    let changes = |old, new| diff(&[service(vec![result(old)])], &[service(vec![result(new)])]);
    let removed = changes(ONE, NONE);
    assert_eq!((removed[0].verdict, impact(&removed[0].impact)), (Breaks, [Fails, Works, Fails, Works]));
    let added = changes(NONE, ONE);
    assert_eq!((added[0].verdict, impact(&added[0].impact)), (ServersFirst, [Works, Fails, Works, Works]));
}

/// An error of the application's that becomes a status is read by every client; the reverse is not.
#[test]
fn statuses_are_always_read() {
    let error = |ty| MethodDescriptor::unary("S/m", NONE, &Type::Unit, ty);
    let changes = |old, new| diff(&[service(vec![error(old)])], &[service(vec![error(new)])]);
    assert_eq!(impact(&changes(ONE, &Type::Status)[0].impact), [Works, Fails, Works, Works]);
    assert_eq!(impact(&changes(&Type::Status, ONE)[0].impact), [Fails, Works, Fails, Works]);
    assert_eq!(changes(&Type::Status, &Type::Status), []);
}

/// Methods and services that come and go.
#[test]
fn methods_and_services() {
    const OTHER: MethodDescriptor = MethodDescriptor::unary("S/other", NONE, &Type::Unit, &Type::Status);
    let one = |old: &[ServiceDescription], new: &[ServiceDescription]| {
        let changes = diff(old, new);
        let change = changes.first().expect("one change");
        (changes.len(), change.kind, change.subject.clone(), change.verdict, impact(&change.impact))
    };
    let (only, both) = (service(vec![unary(ONE)]), service(vec![OTHER, unary(ONE)]));
    let pair = |service: &ServiceDescription| vec![service.clone()];
    let other = || "S/other".to_owned();
    assert_eq!(one(&pair(&only), &pair(&both)), (1, MethodAdded, other(), ServersFirst, [Works, Fails, Works, Works]));
    assert_eq!(one(&pair(&both), &pair(&only)), (1, MethodRemoved, other(), Breaks, [Fails, Works, Fails, Works]));
    let stored = service(vec![durable(ONE)]);
    assert_eq!(one(&pair(&stored), &[]), (1, ServiceRemoved, "S".to_owned(), Breaks, [Fails, Works, Fails, Fails]));
    assert_eq!(one(&[], &pair(&stored)), (1, ServiceAdded, "S".to_owned(), ServersFirst, [Works, Fails, Works, Works]));
    assert_eq!(diff(&pair(&both), &pair(&both)), []);
    // Methods in another order are the same contract.
    assert_eq!(diff(&pair(&both), &pair(&service(vec![unary(ONE), OTHER]))), []);
}

/// Raw bytes that reach a message of several fields are refused, and those that reach a renamed field are not.
#[test]
fn raw_bytes_have_no_names() {
    #[message]
    #[derive(Debug)]
    struct Renamed {
        bytes: Bytes,
    }
    #[message]
    #[derive(Debug)]
    struct AndName {
        data: Bytes,
        #[serde(default)]
        name: String,
    }
    assert_eq!(decode::<Renamed>(Codec::Raw, b"x").expect("a struct of bytes").bytes, b"x"[..]);
    assert!(decode::<AndName>(Codec::Raw, b"x").is_err());
    assert!(decode::<String>(Codec::Raw, b"x").is_err());
    let mut body = Vec::new();
    encode(Codec::Named, &AndName { data: Bytes::from_static(b"x"), name: "n".to_owned() }, &mut body)
        .expect("it can be said");
    let error = decode::<Renamed>(Codec::Named, &body).expect_err("another name");
    assert!(error.to_string().contains("bytes"), "{error}");
}

/// A change is one line that says where, what, and who fails.
#[test]
fn a_change_is_one_line() {
    let changes = diff(&[service(vec![durable(ONE)])], &[service(vec![durable(TEXT)])]);
    let expected = "breaks         S/m args.a: u8 became String (old clients fail, new clients of old servers fail, \
                    callers in JSON fail, stored tasks fail)";
    assert_eq!(changes[0].to_string(), expected);
    let json = serde_json::to_value(&changes[0]).expect("plain data");
    assert_eq!((json["verdict"].as_str(), json["kind"].as_str()), (Some("breaks"), Some("type_changed")));
    assert_eq!(json["impact"]["stored_tasks"], "fails");
}
