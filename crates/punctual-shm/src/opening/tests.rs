//! The opening, against peers that do not hand over what they must.

use super::*;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::io::Write;
use std::os::unix::net::UnixStream;

const RING: usize = 64 * 1024;

fn ring() -> RingBytes {
    RingBytes::new(RING).unwrap()
}

/// Sends an answer with descriptors; what the client says to it.
fn answered(answer: &[u8], descriptors: &[&OwnedFd]) -> io::Result<Opened> {
    let (client, server) = UnixStream::pair().unwrap();
    let handed: Vec<_> = descriptors.iter().map(|descriptor| descriptor.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(8))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !handed.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(&handed)));
    }
    if answer.is_empty() {
        drop(server);
    } else {
        sendmsg(&server, &[IoSlice::new(answer)], &mut control, SendFlags::NOSIGNAL).unwrap();
    }
    check_reply(&client)
}

fn bell() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap()
}

fn signed() -> OwnedFd {
    let memory = Sealed::create(ring()).unwrap();
    Mapping::of(&memory).unwrap().sign();
    memory.as_fd().try_clone_to_owned().unwrap()
}

/// Guards the opening as it should be: both sides have rings of the size that the server chose.
#[test]
fn an_opening() {
    let (client, server) = UnixStream::pair().unwrap();
    check_peer(&client).unwrap();
    assert_eq!(check_reply(&client).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    let server = offer(&server, ring()).unwrap();
    let client = check_reply(&client).unwrap();
    assert_eq!((client.end.ring_bytes(), server.end.ring_bytes()), (ring(), ring()));
}

/// Guards that a hello of another protocol or version is refused by what it is.
#[test]
fn hellos() {
    accept(&HELLO).unwrap();
    for (hello, why) in
        [(b"PNCTUAL\x01", "must begin with shm:"), (b"PNCTSHM\x02", "of version 2"), (b"GET / HT", "no hello")]
    {
        let error = accept(hello).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

/// Guards that a client says why it was turned away.
#[test]
fn refusals_are_told() {
    let other_user = io::Error::from(io::ErrorKind::PermissionDenied);
    for (error, why) in [(other_user, "another user's"), (io::Error::other("version"), "of version 1")] {
        let (client, server) = UnixStream::pair().unwrap();
        refuse(&server, &error);
        let told = check_reply(&client).unwrap_err();
        assert!(told.to_string().contains(why), "{told}");
    }
}

/// Guards the client against a server that hands over something else, or nothing: each is refused by name.
#[test]
fn a_hostile_server_is_refused() {
    let granted = |bytes: u64| answer(GRANTED, bytes).to_vec();
    let (memory, bell) = (signed(), bell());
    let all: &[&OwnedFd] = &[&memory, &bell, &bell];
    let blocking = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let unsealed = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&unsealed, crate::memory::whole(ring()) as u64).unwrap();
    let unsigned = Sealed::create(ring()).unwrap().as_fd().try_clone_to_owned().unwrap();
    let short = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&short, 4096).unwrap();
    fcntl_add_seals(&short, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).unwrap();
    let file = OwnedFd::from(std::fs::File::open("/proc/self/exe").unwrap());
    let good = RING as u64;
    for (answer, descriptors, why) in [
        (vec![], &[][..], "does not speak shared memory"),
        (b"PNCTUAL\x01".to_vec(), &[], "does not speak shared memory"),
        (b"HTTP/1.1 400 Bad Request".to_vec(), &[], "does not speak shared memory"),
        (HELLO.to_vec(), all, "cut short"),
        (granted(good)[..23].to_vec(), all, "cut short"),
        (answer_of(9, good), all, "outcome 9 means nothing"),
        (granted(good), &[], "0 descriptors"),
        (granted(good), &all[..2], "2 descriptors"),
        (granted(good), &[&memory, &bell, &bell, &bell], "4 descriptors"),
        (granted(0), all, "rings of 0 bytes"),
        (granted(good - 1), all, "rings of 65535 bytes"),
        (granted(u64::MAX), all, "rings of 18446744073709551615 bytes"),
        (granted(good * 2), all, "two rings of 131072 need"),
        (granted(good), &[&unsealed, &bell, &bell], "not sealed"),
        (granted(good), &[&short, &bell, &bell], "has 4096 bytes"),
        (granted(good), &[&bell, &memory, &bell], "no memory that can be sealed"),
        (granted(good), &[&file, &bell, &bell], "no memory that can be sealed"),
        (granted(good), &[&unsigned, &bell, &bell], "begins with 0x0000000000000000"),
        (granted(good), &[&memory, &blocking, &bell], "make its ringer wait"),
        (granted(good), &[&memory, &bell, &blocking], "make its ringer wait"),
    ] {
        let error = answered(&answer, descriptors).unwrap_err().to_string();
        assert!(error.contains(why), "{why}: {error}");
    }
    answered(&granted(good), all).unwrap();
}

/// Guards that no descriptor that came with a refused answer stays open: the other ends of pipes see their end.
#[test]
fn refused_descriptors_are_closed() {
    for count in [1, 3, 8] {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        answered(&answer_of(GRANTED, RING as u64), &vec![&writer; count]).unwrap_err();
        drop(writer);
        assert_eq!(rustix::io::read(&reader, &mut [0]), Ok(0), "{count}");
    }
}

fn answer_of(outcome: u32, ring: u64) -> Vec<u8> {
    answer(outcome, ring).to_vec()
}

/// Guards what the socket says behind the opening: nothing, an end, and bytes that must not come.
#[test]
fn the_lifeline() {
    use crate::lifeline::{Lifeline, end_writing, look};
    let (ours, theirs) = UnixStream::pair().unwrap();
    assert_eq!(look(&ours).unwrap(), Lifeline::Quiet);
    (&theirs).write_all(b"x").unwrap();
    assert!(look(&ours).unwrap_err().to_string().contains("carries none"));
    end_writing(&theirs).unwrap();
    assert_eq!(look(&ours).unwrap(), Lifeline::HungUp);
    assert_eq!(look(&theirs).unwrap(), Lifeline::Quiet, "one way at a time");
    drop(theirs);
    end_writing(&ours).unwrap();
}
