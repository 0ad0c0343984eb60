//! Ends by themselves and against each other.

use super::*;
use crate::opening::{check_reply, offer};
use bytes::BytesMut;
use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, poll};
use std::os::unix::net::UnixStream;
use std::thread;

/// The smallest link there is: the client's end, the server's.
pub(super) fn link() -> (Opened, Opened) {
    let (client, server) = UnixStream::pair().unwrap();
    let server = offer(&server, RingBytes::new(64 * 1024).unwrap()).unwrap();
    (check_reply(&client).unwrap(), server)
}

fn ends() -> (End, End) {
    let (client, server) = link();
    (client.end, server.end)
}

fn read_all(end: &mut End) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let mut some = BytesMut::with_capacity(1 << 17);
        if end.read(&mut some).unwrap() == 0 {
            return all;
        }
        all.extend_from_slice(&some);
    }
}

fn pattern(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|index| (index * 31 % 251) as u8).collect()
}

/// Guards the two directions against each other: each end reads what the other wrote, and nothing of its own.
#[test]
fn both_ways_at_once() {
    let (mut client, mut server) = ends();
    assert_eq!(client.write(&[IoSlice::new(b"ask")]), Ok(3));
    assert_eq!(server.write(&[IoSlice::new(b"ans"), IoSlice::new(b""), IoSlice::new(b"wer")]), Ok(6));
    assert_eq!((read_all(&mut server), read_all(&mut client)), (b"ask".to_vec(), b"answer".to_vec()));
    assert_eq!((read_all(&mut server), read_all(&mut client)), (vec![], vec![]));
}

/// Guards a full ring: it takes a part, then nothing, and goes on where it stopped once there is room.
#[test]
fn a_full_ring_takes_a_part() {
    let (mut client, mut server) = ends();
    let ring = client.ring_bytes().get();
    let bytes = pattern(0, ring + 100);
    assert_eq!(client.write(&[IoSlice::new(&bytes[..ring - 1]), IoSlice::new(&bytes[ring - 1..])]), Ok(ring));
    assert_eq!(client.write(&[IoSlice::new(&bytes[ring..])]), Ok(0));
    assert_eq!(client.sleep_until_writable(), Ok(true));
    assert_eq!(read_all(&mut server), bytes[..ring]);
    assert_eq!(client.write(&[IoSlice::new(&bytes[ring..])]), Ok(100));
    assert_eq!(read_all(&mut server), bytes[ring..]);
}

/// Guards the smallest steps: a byte at a time, several times around the ring.
#[test]
fn one_byte_at_a_time() {
    let (mut client, mut server) = ends();
    for index in 0..3 * client.ring_bytes().get() {
        let byte = (index % 251) as u8;
        assert_eq!(client.write(&[IoSlice::new(&[byte])]), Ok(1));
        let mut space = [0];
        assert_eq!(server.read(&mut &mut space[..]), Ok(1));
        assert_eq!(space, [byte]);
    }
}

/// Guards that a bell is rung for one who sleeps, once, and never for one who is awake.
#[test]
fn only_sleepers_are_rung_for() {
    let (mut client, mut server) = ends();
    for _ in 0..100 {
        client.write(&[IoSlice::new(b"x")]).unwrap();
        read_all(&mut server);
    }
    assert_eq!((client.rings(), server.rings()), (0, 0), "nobody slept");
    assert_eq!(server.sleep_until_readable(), Ok(true));
    client.write(&[IoSlice::new(b"x")]).unwrap();
    client.write(&[IoSlice::new(b"x")]).unwrap();
    assert_eq!(client.rings(), 1);
    assert_eq!(server.sleep_until_readable(), Ok(false), "there is something");
    read_all(&mut server);
    assert_eq!(server.sleep_until_readable(), Ok(true));
    server.rouse();
    client.write(&[IoSlice::new(b"x")]).unwrap();
    assert_eq!(client.rings(), 1, "it was awake again");
}

/// Guards that whatever a peer writes into the words, an end gives an error or bytes of its own ring, and goes nowhere else.
#[test]
fn a_broken_ring_is_an_error() {
    for (written, read) in [(u64::MAX, 0), (1 << 40, 0), (64 * 1024 + 1, 0), (0, 64 * 1024 + 1), (0, u64::MAX)] {
        let (mut client, server) = ends();
        server.mapping.words(Way::ToClient).say(written, 0);
        server.mapping.words(Way::ToServer).say(0, read);
        let big = vec![0; 64 * 1024];
        let filled = client.write(&[IoSlice::new(&big)]);
        let results = (client.read(&mut Vec::new()), filled.and_then(|_| client.write(&[IoSlice::new(b"x")])));
        match results {
            (Err(broken), _) => assert!(broken.to_string().contains("written index"), "{broken}"),
            (_, Err(broken)) => assert!(broken.to_string().contains("read index"), "{broken}"),
            other => panic!("{written} {read}: {other:?}"),
        }
    }
}

/// One side of a run between threads: sleeps on its bell as a runtime would.
fn wait(bell: &OwnedFd) {
    poll(&mut [PollFd::new(bell, PollFlags::IN)], None).unwrap();
    rustix::io::read(bell, &mut [0; 8]).unwrap();
}

/// Guards order, completeness and that nobody sleeps for ever, between threads that meet a full and an empty ring all the time:
/// every byte comes once, in order, whatever the sizes of the pieces.
#[test]
fn threads_pass_every_byte_in_order() {
    const BYTES: usize = 8 << 20;
    let (client, server) = link();
    let writing = thread::spawn(move || {
        let Opened { mut end, bell } = client;
        let (mut at, mut piece) = (0, 1);
        while at < BYTES {
            piece = (piece * 5 + 3) % 150_000;
            let bytes = pattern(at, piece.min(BYTES - at));
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                match end.write(&[IoSlice::new(rest)]).unwrap() {
                    0 => {
                        if end.sleep_until_writable().unwrap() {
                            wait(&bell);
                        }
                    }
                    written => rest = &rest[written..],
                }
            }
            at += bytes.len();
        }
        end.rings()
    });
    let Opened { mut end, bell } = server;
    let (mut at, mut room) = (0, 1);
    while at < BYTES {
        room = (room * 7 + 11) % 90_000;
        let mut space = vec![0; room + 1];
        match end.read(&mut &mut space[..]).unwrap() {
            0 => {
                if end.sleep_until_readable().unwrap() {
                    wait(&bell);
                }
            }
            read => {
                assert_eq!(space[..read], pattern(at, read), "from {at} on");
                at += read;
            }
        }
    }
    assert!(writing.join().unwrap() + end.rings() > 0, "nobody ever slept: it showed nothing of sleep");
}

proptest! {
    /// Guards the ring against a queue: whatever is written in whatever slices and read into whatever room comes out the same.
    #[test]
    fn a_ring_is_a_queue(steps in prop::collection::vec((0_usize..70_000, 0_usize..3, 0_usize..70_000), 1..24)) {
        let (mut client, mut server) = ends();
        let (mut sent, mut received) = (0, 0);
        for (len, cut, room) in steps {
            let bytes = pattern(sent, len);
            let (front, back) = bytes.split_at(len / (cut + 1));
            let written = client.write(&[IoSlice::new(front), IoSlice::new(back)]).unwrap();
            prop_assert_eq!(written, len.min(client.ring_bytes().get() - (sent - received)));
            sent += written;
            let mut space = vec![0; room];
            let read = server.read(&mut &mut space[..]).unwrap();
            prop_assert_eq!(read, room.min(sent - received));
            prop_assert_eq!(&space[..read], &pattern(received, read)[..]);
            received += read;
        }
        prop_assert_eq!((client.rings(), server.rings()), (0, 0));
    }
}
