//! Scenario 22: what a call allocates. A binary of its own, since it counts through the global allocator.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use allocation_counter::{AllocationInfo, measure};
use punctual_proto::codec::Args;
use punctual_proto::contract::{MethodDescriptor, ServiceDescriptor};
use punctual_proto::schema::{Field, Fields, StructType, Type};
use punctual_rpc::{Channel, Inbound, OneWay, Server, Service, Status, Unary};
use serde::{Deserialize, Serialize};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

#[derive(Serialize, Deserialize)]
struct Add {
    a: i32,
    b: i32,
}

impl Args for Add {}

static ADD: Type = Type::Struct(&StructType {
    name: "Add",
    docs: "",
    fields: Fields::Named(&[
        Field { name: "a", docs: "", ty: &Type::I32, optional: false },
        Field { name: "b", docs: "", ty: &Type::I32, optional: false },
    ]),
});

static DESCRIPTOR: ServiceDescriptor = ServiceDescriptor::new(
    "Sum",
    "",
    &[
        MethodDescriptor::unary("Sum/add", &ADD, &Type::I32, &Type::Status),
        MethodDescriptor::oneway("Sum/note", &ADD),
        MethodDescriptor::unary("Sum/quick", &ADD, &Type::I32, &Type::Status),
        MethodDescriptor::oneway("Sum/jot", &ADD),
    ],
);

struct Sum;

impl Service for Sum {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &DESCRIPTOR
    }

    fn dispatch(&self, method: usize, call: Inbound<'_>) {
        match method {
            0 => call.unary(|args: Add| async move { Ok::<_, Status>(args.a + args.b) }),
            1 => call.oneway(|_: Add| async {}),
            2 => call.inline().unary(|args: Add| async move { Ok::<_, Status>(args.a + args.b) }),
            3 => call.inline().oneway(|_: Add| async {}),
            _ => call.unimplemented(),
        }
    }
}

const CALLS: i32 = 1_000;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Rounds of calls of each shape.
const ROUNDS: usize = 5;

/// Runs `task` on a runtime of this thread and counts what the thread allocates in it.
fn counted(runtime: &Runtime, task: impl Future<Output = ()>) -> AllocationInfo {
    let mut task = Some(task);
    measure(|| {
        if let Some(task) = task.take() {
            runtime.block_on(task);
        }
    })
}

async fn add_many(channel: &Channel) {
    sum_many(channel, 0).await;
}

async fn quick_many(channel: &Channel) {
    sum_many(channel, 2).await;
}

async fn sum_many(channel: &Channel, method: usize) {
    for at in 0..CALLS {
        let call: Unary<_, i32, Status> = channel.unary(&DESCRIPTOR, method, Add { a: at, b: 7 });
        assert_eq!(call.timeout(Duration::from_secs(30)).await, Ok(at + 7));
    }
}

async fn note_many(channel: &Channel) {
    tell_many(channel, 1).await;
}

async fn jot_many(channel: &Channel) {
    tell_many(channel, 3).await;
}

async fn tell_many(channel: &Channel, method: usize) {
    for at in 0..CALLS {
        let call: OneWay<_> = channel.oneway(&DESCRIPTOR, method, Add { a: at, b: 7 });
        call.timeout(Duration::from_secs(30)).await.unwrap();
    }
}

/// In steady state a client allocates nothing for a unary or one-way call that waits, and a server at most the task that
/// runs it, or where the handler runs in its connection's turn, nothing.
#[test]
fn s22_a_call_allocates_nothing_on_the_client_and_at_most_one_task_on_the_server() {
    steady_state("unix");
}

/// The same through shared memory.
#[cfg(target_os = "linux")]
#[test]
fn s22_shm_a_call_allocates_nothing_on_the_client_and_at_most_one_task_on_the_server() {
    steady_state("shm");
}

fn steady_state(scheme: &str) {
    let dir = tempfile::tempdir().unwrap();
    let address = format!("{scheme}:{}", dir.path().join("socket").display());
    let (bound, is_bound) = mpsc::channel();
    let (turn, mut turns) = tokio::sync::mpsc::channel::<()>(1);
    // The server has a thread of its own, so that each side is counted alone.
    let server_address = address.clone();
    let (start, started) = oneshot::channel::<()>();
    let server = thread::spawn(move || {
        let runtime = runtime();
        let server = runtime.block_on(async {
            let server = Server::builder().service(Sum).listen(server_address).bind().await.unwrap();
            bound.send(()).unwrap();
            let handle = server.handle();
            tokio::spawn(server.serve());
            // Warm up until the client says that it begins.
            started.await.unwrap();
            handle
        });
        let counts: Vec<u64> =
            (0..4 * ROUNDS).map(|_| counted(&runtime, async { turns.recv().await.unwrap() }).count_total).collect();
        assert!(server.stats().accepted > 0);
        counts
    });
    is_bound.recv().unwrap();
    let runtime = runtime();
    let channel = runtime.block_on(async {
        let channel = Channel::connect(&address).await.unwrap();
        add_many(&channel).await;
        note_many(&channel).await;
        channel
    });
    start.send(()).unwrap();
    // One more turn, in which the server's thread enters its count.
    runtime.block_on(add_many(&channel));
    let mut unary = Vec::new();
    let mut oneway = Vec::new();
    let mut quick = Vec::new();
    let mut jotted = Vec::new();
    for _ in 0..ROUNDS {
        unary.push(counted(&runtime, add_many(&channel)).count_total);
        runtime.block_on(async { turn.send(()).await.unwrap() });
    }
    for _ in 0..ROUNDS {
        oneway.push(counted(&runtime, note_many(&channel)).count_total);
        runtime.block_on(async { turn.send(()).await.unwrap() });
    }
    for _ in 0..ROUNDS {
        quick.push(counted(&runtime, quick_many(&channel)).count_total);
        runtime.block_on(async { turn.send(()).await.unwrap() });
    }
    for _ in 0..ROUNDS {
        jotted.push(counted(&runtime, jot_many(&channel)).count_total);
        runtime.block_on(async { turn.send(()).await.unwrap() });
    }
    let server = server.join().unwrap();
    // A thread that loses its core in the middle of a batch may have to grow a buffer, so the best round is the steady state.
    let best = |counts: &[u64]| counts.iter().copied().min();
    assert_eq!(best(&unary), Some(0), "unary calls on the client: {unary:?}");
    assert_eq!(best(&oneway), Some(0), "timed one-way calls on the client: {oneway:?}");
    assert_eq!(best(&quick), Some(0), "unary calls of an inline method on the client: {quick:?}");
    assert_eq!(best(&jotted), Some(0), "one-way calls of an inline method on the client: {jotted:?}");
    for (counts, of_a_call) in server.chunks(ROUNDS).zip([1, 1, 0, 0]) {
        let most = of_a_call * u64::from(CALLS.unsigned_abs()) + 16;
        assert!(best(counts).is_some_and(|count| count <= most), "the server, of {CALLS} calls: {server:?}");
    }
}
