//! Shared memory beside the suite that runs over every transport: who meets whom, and peers that write anything into it.

#![cfg(target_os = "linux")]

use crate::support::Site;
use crate::support::probe::{Probe, ProbeClient};
use crate::support::site::Kind;
use bytes::Bytes;
use proptest::prelude::*;
use punctual_rpc::{Channel, Code, SHM_RING_BYTES_MIN, Server, ServerConfig};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::fs::File;
use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where the words of the ring to the server begin, by the protocol's section on shared memory.
const WORDS: u64 = 4096;
const WORD_STEP: u64 = 128;

/// Where the bytes of the ring to the server begin.
const BYTES: u64 = 8192;

/// A client that opened shared memory by the book and does with it what it likes, through the file and not by mapping it.
struct Stranger {
    socket: UnixStream,
    memory: File,
    bell: File,
}

impl Stranger {
    async fn of(site: &Site) -> Self {
        let path = site.address.strip_prefix("shm:").unwrap().to_owned();
        tokio::task::spawn_blocking(move || Self::connect(&path)).await.unwrap()
    }

    fn connect(path: &str) -> Self {
        let mut socket = UnixStream::connect(path).unwrap();
        socket.write_all(b"PNCTSHM\x01").unwrap();
        let mut answer = [0; 24];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let got = recvmsg(&socket, &mut [IoSliceMut::new(&mut answer)], &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
        assert_eq!(got.bytes, 24);
        let mut descriptors: Vec<OwnedFd> = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        let [memory, bell, _] = <[OwnedFd; 3]>::try_from(descriptors).unwrap();
        Stranger { socket, memory: memory.into(), bell: bell.into() }
    }

    /// Says something in one of the words of the ring to the server.
    fn say(&self, word: u64, value: u64) {
        self.memory.write_all_at(&value.to_ne_bytes(), WORDS + word * WORD_STEP).unwrap();
    }

    fn ring(&self) {
        (&self.bell).write_all(&1_u64.to_ne_bytes()).unwrap();
    }

    /// Blocks until the server closed.
    async fn left(mut self) {
        let left = tokio::task::spawn_blocking(move || {
            let mut all = Vec::new();
            // A reset is an end as well.
            let _ = self.socket.read_to_end(&mut all);
            all
        });
        assert_eq!(left.await.unwrap(), b"");
    }
}

/// A server whose rings are the smallest.
async fn small() -> Site {
    let mut config = ServerConfig::default();
    config.shm_ring_bytes = SHM_RING_BYTES_MIN;
    Site::start_with(Kind::Shm, config).await
}

async fn only(site: &Site, connections: u64) {
    while site.server.stats().open_connections != connections {
        tokio::task::yield_now().await;
    }
}

/// Guards the server against indices that cannot be, and bytes where none may come: the connection is left, and others go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_breaks_its_ring_is_left() {
    let site = small().await;
    let client = site.client().await;
    let ring = SHM_RING_BYTES_MIN as u64;
    for written in [u64::MAX, ring + 1, 1 << 40, 1 << 63] {
        let stranger = Stranger::of(&site).await;
        stranger.say(0, written);
        stranger.ring();
        stranger.left().await;
        assert_eq!(client.add(1, 2).await, Ok(3));
    }
    // Backwards, behind bytes that were read.
    let stranger = Stranger::of(&site).await;
    stranger.memory.write_all_at(b"PNCTUAL", BYTES).unwrap();
    stranger.say(0, 7);
    stranger.ring();
    let mut read = [0; 8];
    while u64::from_ne_bytes(read) != 7 {
        tokio::task::yield_now().await;
        stranger.memory.read_exact_at(&mut read, WORDS + WORD_STEP).unwrap();
    }
    stranger.say(0, 3);
    stranger.ring();
    stranger.left().await;
    // Over the socket.
    let stranger = Stranger::of(&site).await;
    (&stranger.socket).write_all(b"x").unwrap();
    stranger.left().await;
    // Frames that are none.
    let stranger = Stranger::of(&site).await;
    stranger.memory.write_all_at(b"GET / HTTP/1.1\r\n\r\n", BYTES).unwrap();
    stranger.say(0, 18);
    stranger.ring();
    stranger.left().await;
    assert_eq!(client.add(1, 2).await, Ok(3));
    only(&site, 1).await;
}

/// Guards a server that is rung for without end: others are served.
#[tokio::test]
async fn a_peer_that_only_rings_holds_nobody_up() {
    let site = small().await;
    let stranger = Stranger::of(&site).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    let ringing = std::thread::spawn(move || {
        let mut rings = 0_u64;
        while !over.load(Ordering::Relaxed) {
            stranger.ring();
            rings += 1;
        }
        rings
    });
    let client = site.client().await;
    for at in 0..1_000 {
        assert_eq!(client.add(at, 1).await, Ok(at + 1));
    }
    is_over.store(true, Ordering::Relaxed);
    assert!(ringing.join().unwrap() > 0);
}

/// Guards the size of the memory: a peer that has it cannot cut it short under the server.
#[tokio::test]
async fn nobody_cuts_the_memory_short() {
    let site = small().await;
    let stranger = Stranger::of(&site).await;
    for bytes in [0, 1, 4096, 1 << 30] {
        assert_eq!(stranger.memory.set_len(bytes).unwrap_err().kind(), std::io::ErrorKind::PermissionDenied, "{bytes}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Guards everything at once against chance: whatever a peer writes anywhere into the memory, whenever it rings, the server
    /// serves others and forgets the peer when it goes.
    #[test]
    fn random_memory_harms_nobody(writes in prop::collection::vec((0_u64..WORDS * 4, any::<u64>(), any::<bool>()), 1..40), small_words in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let site = small().await;
            let client = site.client().await;
            let stranger = Stranger::of(&site).await;
            for (at, value, rings) in &writes {
                // Half of them hit the words themselves.
                let at = if at % 2 == 0 { WORDS + at / 2 % 10 * WORD_STEP } else { at % (BYTES + 4096) };
                let value = if small_words { value % (2 * SHM_RING_BYTES_MIN as u64) } else { *value };
                stranger.memory.write_all_at(&value.to_ne_bytes(), at).unwrap();
                if *rings {
                    stranger.ring();
                    tokio::task::yield_now().await;
                }
            }
            assert_eq!(client.add(1, 2).await, Ok(3));
            drop(stranger);
            only(&site, 1).await;
            assert_eq!(client.add(3, 4).await, Ok(7));
        });
    }
}

/// Guards a client against a server that hands over something else, and both against each other's socket: each error says what
/// to do.
#[tokio::test]
async fn who_meets_somebody_else_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let connect = |address: String| async move { Channel::connect(&address).await.unwrap_err() };
    // A server of frames at a shm: address, and the other way round.
    let frames = Site::start(Kind::Unix).await;
    let error = connect(frames.address.replace("unix:", "shm:")).await;
    assert!(error.message().contains("does not speak shared memory; connect to it with unix:"), "{error}");
    let memory = Site::start(Kind::Shm).await;
    let error = connect(memory.address.replace("shm:", "unix:")).await;
    assert_ne!(error.code(), Code::Unauthenticated, "{error}");
    assert_eq!(memory.client().await.add(1, 2).await, Ok(3));
    // Nobody.
    let error = connect(format!("shm:{}", dir.path().join("nobody").display())).await;
    assert!(error.message().contains("no such socket file"), "{error}");
    let stale = dir.path().join("stale");
    drop(UnixListener::bind(&stale).unwrap());
    let error = connect(format!("shm:{}", stale.display())).await;
    assert!(error.message().contains("the socket file is stale"), "{error}");
    // One that grants rings and hands over none.
    let liar = dir.path().join("liar");
    let listener = UnixListener::bind(&liar).unwrap();
    let lying = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut hello = [0; 8];
        socket.read_exact(&mut hello).unwrap();
        assert_eq!(&hello, b"PNCTSHM\x01");
        let ring = (SHM_RING_BYTES_MIN as u64).to_le_bytes();
        socket.write_all(&[&hello[..], &[0; 8], &ring].concat()).unwrap();
    });
    let error = connect(format!("shm:{}", liar.display())).await;
    assert!(error.message().contains("0 descriptors came with its answer, and not 3"), "{error}");
    lying.join().unwrap();
}

/// Guards the size of rings: what is none is refused by name, the smallest carries messages many times its size, and the greatest
/// works.
#[tokio::test]
async fn rings_have_the_size_that_was_asked_for() {
    for bytes in [0, 1_000_000, SHM_RING_BYTES_MIN / 2, punctual_rpc::SHM_RING_BYTES_MAX * 2] {
        let mut config = ServerConfig::default();
        config.shm_ring_bytes = bytes;
        let refused = Server::builder().config(config).service(Probe::default()).listen("inproc:ring").bind().await;
        let error = refused.unwrap_err().to_string();
        assert!(error.contains(&format!("shm_ring_bytes is {bytes}; set it to a power of two from 65536")), "{error}");
    }
    for bytes in [SHM_RING_BYTES_MIN, punctual_rpc::SHM_RING_BYTES_MAX] {
        let mut config = ServerConfig::default();
        config.shm_ring_bytes = bytes;
        let site = Site::start_with(Kind::Shm, config).await;
        let client: ProbeClient = site.client().await;
        let big = Bytes::from(vec![7; 3 << 20]);
        assert_eq!(client.echo(big.to_vec()).await, Ok(big));
    }
}
