//! Contracts that differ, and handlers that fail.

use crate::support::Site;
use crate::support::probe::Nothing;
use crate::support::site::Kind;
use punctual_proto::codec::Args;
use punctual_proto::contract::{MethodDescriptor, ServiceDescriptor};
use punctual_proto::schema::{Field, Fields, Schema, StructType, Type};
use punctual_rpc::{CallError, Code, Status, Unary};
use serde::{Deserialize, Serialize};

/// `Add` as a newer client has it: the fields in another order, and one more.
#[derive(Serialize, Deserialize)]
struct NewAdd {
    comment: Option<String>,
    b: i32,
    a: i32,
}

impl Args for NewAdd {}

static NEWER: ServiceDescriptor = ServiceDescriptor::new(
    "Probe",
    "",
    &[
        MethodDescriptor::unary(
            "Probe/add",
            &Type::Struct(&StructType {
                name: "NewAdd",
                docs: "",
                fields: Fields::Named(&[
                    Field { name: "comment", docs: "", ty: &Type::Option(&Type::Str), optional: true },
                    Field { name: "b", docs: "", ty: &Type::I32, optional: false },
                    Field { name: "a", docs: "", ty: &Type::I32, optional: false },
                ]),
            }),
            &Type::I64,
            &Type::Status,
        ),
        MethodDescriptor::unary("Probe/later", <Nothing as Schema>::TYPE, &Type::Unit, &Type::Status),
    ],
);

/// A client of another contract is understood by the names of its fields, and reads replies by theirs.
#[tokio::test]
async fn contracts_that_differ_are_spoken_by_name() {
    let site = Site::start(Kind::Unix).await;
    let client = site.client().await;
    let args = NewAdd { comment: Some("new here".to_owned()), b: 40, a: 2 };
    let sum: Unary<_, i64, Status> = client.channel.unary(&NEWER, 0, args);
    assert_eq!(sum.await, Ok(42));
    // Both contracts share the connection.
    assert_eq!(client.add(1, 2).await, Ok(3));
    let later: Unary<_, (), Status> = client.channel.unary(&NEWER, 1, Nothing {});
    let error = later.await.unwrap_err();
    let status = error.status().unwrap();
    assert_eq!(status.code(), Code::Unimplemented);
    assert!(status.message().contains("serves Probe"), "{status}");
}

/// A panic ends its call alone, and says nothing of itself to the peer.
#[tokio::test]
async fn a_panic_is_internal_without_its_text() {
    let site = Site::start(Kind::Unix).await;
    let client = site.client().await;
    for _ in 0..3 {
        let error = client.panic().await.unwrap_err();
        let status = error.status().unwrap();
        assert_eq!(status.code(), Code::Internal);
        assert!(!status.to_string().contains("secret"), "{status}");
        assert_eq!(client.add(1, 2).await, Ok(3));
    }
    let stats = site.server.stats();
    assert_eq!((stats.panics, stats.running), (3, 0));
}

/// A request that cannot be read is the caller's fault and that call's alone; so is a reply that cannot be.
#[tokio::test]
async fn what_cannot_be_read_fails_alone() {
    let site = Site::start(Kind::Unix).await;
    let client = site.client().await;
    // The same contract hash, but other bytes: what a lying or broken client sends.
    let wrong: Unary<_, i32, Status> =
        client.channel.unary(&crate::support::probe::DESCRIPTOR, 0, crate::support::probe::Wait { gate: u64::MAX });
    let error = wrong.await.unwrap_err();
    assert_eq!(error.status().unwrap().code(), Code::InvalidArgument, "{error:?}");
    let unreadable: Unary<_, String, Status> =
        client.channel.unary(&crate::support::probe::DESCRIPTOR, 0, crate::support::probe::Add { a: 100, b: 100 });
    let error = unreadable.await.unwrap_err();
    assert_eq!(error.status().unwrap().code(), Code::DataLoss, "{error:?}");
    assert!(matches!(error, CallError::Status(_)));
    assert_eq!(client.add(1, 2).await, Ok(3));
}
