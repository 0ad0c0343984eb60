//! Processes at the two ends of shared memory that are killed or stopped, hundreds of times: whoever is left hears of it, and
//! nothing is left behind. A binary of its own, since it counts the descriptors of its process.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use bytes::Bytes;
use punctual_clock::{Entropy, SystemEntropy};
use punctual_proto::codec::Args;
use punctual_proto::contract::{MethodDescriptor, ServiceDescriptor};
use punctual_proto::schema::{Field, Fields, StructType, Type};
use punctual_rpc::{CallError, Channel, ChannelConfig, Code, Inbound, Server, Service, Status, Unary};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// Kills of each side, where the environment does not say otherwise.
const KILLS: u64 = 500;

/// What a victim is told: `serve` or `call`, and the address.
const VICTIM: &str = "PUNCTUAL_SHM_VICTIM";

/// Calls under way at once.
const CALLERS: u64 = 4;

/// One test at a time: each counts what the process has open.
static ALONE: Mutex<()> = Mutex::new(());

#[derive(Serialize, Deserialize)]
struct Echo {
    data: Bytes,
}

impl Args for Echo {
    fn raw(&self) -> Option<&Bytes> {
        Some(&self.data)
    }

    fn from_raw(raw: Bytes) -> Option<Self> {
        Some(Echo { data: raw })
    }
}

static ECHO: Type = Type::Struct(&StructType {
    name: "Echo",
    docs: "",
    fields: Fields::Named(&[Field { name: "data", docs: "", ty: &Type::Bytes, optional: false }]),
});

static DESCRIPTOR: ServiceDescriptor =
    ServiceDescriptor::new("Mirror", "", &[MethodDescriptor::unary("Mirror/echo", &ECHO, &Type::Bytes, &Type::Status)]);

struct Mirror;

impl Service for Mirror {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &DESCRIPTOR
    }

    fn dispatch(&self, _: usize, call: Inbound<'_>) {
        call.unary(|args: Echo| async move { Ok::<_, Status>(args.data) });
    }
}

async fn echo(channel: &Channel, bytes: usize) -> Result<(), Status> {
    let data = Bytes::from(vec![u8::try_from(bytes % 251).unwrap(); bytes]);
    let call: Unary<_, Bytes, Status> = channel.unary(&DESCRIPTOR, 0, Echo { data: data.clone() });
    match call.timeout(Duration::from_secs(600)).await {
        Ok(back) => {
            assert!(back == data, "an echo is what was said");
            Ok(())
        }
        Err(CallError::App(status) | CallError::Status(status)) => Err(status),
    }
}

/// Calls without end, of all sizes; gives the error that ended them.
async fn call_until_it_fails(channel: Channel, seed: u64) -> Status {
    let mut at = seed;
    loop {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let bytes = usize::try_from(at >> 47).unwrap();
        if let Err(status) = echo(&channel, bytes).await {
            return status;
        }
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn kills() -> u64 {
    std::env::var("PUNCTUAL_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS)
}

fn address(folder: &Path) -> String {
    format!("shm:{}", folder.join("socket").display())
}

/// The victim: serves or calls until it is killed. Without a word in the environment there is nothing to do.
#[test]
fn a_victim_works_until_it_is_killed() {
    let Ok(told) = std::env::var(VICTIM) else { return };
    let (role, address) = told.split_once(' ').unwrap();
    runtime().block_on(async {
        if role == "serve" {
            let server = Server::builder().service(Mirror).listen(address).bind().await.unwrap();
            eprintln!("ready;");
            server.serve().await;
        } else {
            let channel = Channel::connect(address).await.unwrap();
            eprintln!("ready;");
            let mut calls = JoinSet::new();
            (0..CALLERS).for_each(|seed| drop(calls.spawn(call_until_it_fails(channel.clone(), seed))));
            panic!("a call of a victim failed: {:?}", calls.join_next().await);
        }
    });
}

/// A process that serves or calls, from when it said that it is ready.
struct Victim(Child);

impl Victim {
    fn start(role: &str, address: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_victim_works_until_it_is_killed", "--nocapture", "--quiet"])
            .env(VICTIM, format!("{role} {address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        let is_ready = said.lines().map_while(Result::ok).any(|line| line.contains("ready;"));
        assert!(is_ready, "the victim ended by itself");
        Victim(child)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// Stops it, and waits until it stands still.
    fn freeze(&self) {
        self.signal(Signal::STOP);
        let stopped = waitpid(Some(Pid::from_child(&self.0)), WaitOptions::UNTRACED).unwrap();
        assert!(stopped.is_some_and(|(_, status)| status.stopped()), "{stopped:?}");
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        let status = self.0.wait().unwrap();
        assert!(!status.success());
        assert_eq!(status.code(), None, "it ended by itself");
    }
}

/// Lets the load run for a while that chance chooses: up to some thousands of turns of this runtime.
async fn a_while(turns: u64) {
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}

/// Guards a client whose server is killed at any instant: every call ends, by an error that says that the connection is gone, and
/// what it opened is closed; the next server takes the address over.
#[test]
fn killed_servers_leave_an_error_and_no_descriptors() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    // The first runtime of a process opens what they all share, and leaves it.
    drop(runtime());
    let before = descriptors();
    let entropy = SystemEntropy;
    for kill in 0..kills() {
        let victim = Victim::start("serve", &address(folder.path()));
        runtime().block_on(async {
            let channel = Channel::connect(&address(folder.path())).await.unwrap();
            let mut calls = JoinSet::new();
            (0..CALLERS).for_each(|seed| drop(calls.spawn(call_until_it_fails(channel.clone(), seed + kill))));
            a_while(entropy.below(3_000)).await;
            victim.kill();
            while let Some(status) = calls.join_next().await {
                let status = status.unwrap();
                assert!(matches!(status.code(), Code::ConnectionClosed | Code::Unavailable), "kill {kill}: {status}");
            }
            channel.close().await;
        });
        assert_eq!(descriptors(), before, "kill {kill}");
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["socket"], "what the killed leave is the socket's file");
}

/// Guards a server whose clients are killed at any instant: each connection ends, nothing stays open for it, others are served.
#[test]
fn killed_clients_leave_no_descriptors() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let entropy = SystemEntropy;
    runtime().block_on(async {
        let server = Server::builder().service(Mirror).listen(address(folder.path())).bind().await.unwrap().spawn();
        let channel = Channel::connect(&address(folder.path())).await.unwrap();
        echo(&channel, 1).await.unwrap();
        let before = descriptors();
        for kill in 0..kills() {
            let accepted = server.stats().accepted;
            let starting = folder.path().to_owned();
            let victim = tokio::task::spawn_blocking(move || Victim::start("call", &address(&starting))).await.unwrap();
            while server.stats().accepted < accepted + CALLERS {
                tokio::task::yield_now().await;
            }
            a_while(entropy.below(3_000)).await;
            victim.kill();
            while server.stats().open_connections > 1 {
                tokio::task::yield_now().await;
            }
            assert_eq!(descriptors(), before, "kill {kill}");
        }
        echo(&channel, 100_000).await.unwrap();
        assert_eq!(server.stats().violations, 0);
    });
}

/// Guards a client whose server stands still: it is left within the time for a silent peer, although the socket is whole and the
/// ring takes bytes, and found again when it goes on.
#[test]
fn a_stopped_server_is_left_and_found_again() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let victim = Victim::start("serve", &address(folder.path()));
    runtime().block_on(async {
        let mut config = ChannelConfig::default();
        (config.limits.ping_after, config.limits.dead_after) = (Duration::from_millis(100), Duration::from_millis(500));
        let channel = Channel::builder(&address(folder.path())).config(config).connect().await.unwrap();
        echo(&channel, 10).await.unwrap();
        victim.freeze();
        for bytes in [10, 3 << 20] {
            // The second one meets a server that does not answer an opening either.
            let status = echo(&channel, bytes).await.unwrap_err();
            assert!(matches!(status.code(), Code::HeartbeatLost | Code::Unavailable), "{status}");
            if bytes == 10 {
                assert_eq!(status.code(), Code::HeartbeatLost, "{status}");
            }
        }
        victim.signal(Signal::CONT);
        while echo(&channel, 10).await.is_err() {
            tokio::task::yield_now().await;
        }
    });
    victim.kill();
}
