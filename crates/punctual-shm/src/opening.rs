//! How the memory gets from the server to the client: a hello, an answer, and three descriptors with it.

use crate::end::{End, Opened};
use crate::mapping::Mapping;
use crate::memory::{Sealed, refused};
use crate::ring_bytes::RingBytes;
use rustix::cmsg_space;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use rustix::process::geteuid;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

/// Bytes of the hello.
pub const HELLO_BYTES: usize = 8;

/// What a client sends first, and a server's answer begins with: `PNCTSHM`, and the version.
pub const HELLO: [u8; HELLO_BYTES] = *b"PNCTSHM\x01";

/// An answer: the hello, the outcome, four zeros, the bytes of a ring; little-endian.
const ANSWER_BYTES: usize = 24;

const GRANTED: u32 = 0;
const OTHER_USER: u32 = 1;
const OTHER_VERSION: u32 = 2;

/// The memory, the bell of the server and the bell of the client, in this order.
const DESCRIPTORS: usize = 3;

/// Descriptors that a peer can send at once: they are all taken, so that none stays open unseen.
const DESCRIPTORS_MAX: usize = 253;

/// Refuses a peer of another user. Memory is shared between processes that could stop each other anyway.
///
/// # Errors
/// `PermissionDenied`, with both users.
pub fn check_peer(socket: impl AsFd) -> io::Result<()> {
    let (peer, own) = (socket_peercred(socket)?.uid, geteuid());
    if peer == own {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "the peer is user {} and this process user {}: shared memory is for processes of one user; use a Unix socket",
            peer.as_raw(),
            own.as_raw()
        ),
    ))
}

/// The server's look at a hello, or at what came in its place.
///
/// # Errors
/// Where it is none of this version's.
pub fn accept(hello: &[u8; HELLO_BYTES]) -> io::Result<()> {
    let [magic @ .., version] = hello;
    let [ours @ .., our_version] = &HELLO;
    if magic != ours {
        let text = match magic {
            b"PNCTUAL" => "the client speaks frames at once, as over a Unix socket; its address must begin with shm:",
            _ => "what came is no hello of shared memory",
        };
        return Err(io::Error::other(text));
    }
    if version != our_version {
        return Err(io::Error::other(format!(
            "the client's shared memory is of version {version}, and this server's of {our_version}; use a Unix socket"
        )));
    }
    Ok(())
}

/// Makes the memory and the bells, and hands them to the client at the other end of a connected Unix socket whose hello was read.
///
/// # Errors
/// Where the kernel has no memory or descriptors, or the client is gone. `WouldBlock` where the socket, which should be fresh,
/// takes nothing.
pub fn offer(socket: impl AsFd, ring: RingBytes) -> io::Result<Opened> {
    let memory = Sealed::create(ring)?;
    let mapping = Mapping::of(&memory)?;
    mapping.sign();
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    let (bell, peer) = (eventfd(0, flags)?, eventfd(0, flags)?);
    let handed = [memory.as_fd(), bell.as_fd(), peer.as_fd()];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&handed));
    let answer = answer(GRANTED, ring.get() as u64);
    let sent = sendmsg(socket, &[IoSlice::new(&answer)], &mut control, SendFlags::NOSIGNAL)?;
    if sent != ANSWER_BYTES {
        return Err(io::Error::new(io::ErrorKind::WriteZero, "the socket took a part of the answer"));
    }
    Ok(Opened { end: End::server(mapping, peer), bell })
}

/// Tells a client why it gets no memory, as far as it listens.
pub fn refuse(socket: impl AsFd, error: &io::Error) {
    let outcome = if error.kind() == io::ErrorKind::PermissionDenied { OTHER_USER } else { OTHER_VERSION };
    let mut control = SendAncillaryBuffer::new(&mut []);
    // It is turned away in any case.
    let _ = sendmsg(socket, &[IoSlice::new(&answer(outcome, 0))], &mut control, SendFlags::NOSIGNAL);
}

fn answer(outcome: u32, ring: u64) -> [u8; ANSWER_BYTES] {
    let mut answer = [0; ANSWER_BYTES];
    let parts = HELLO.into_iter().chain(outcome.to_le_bytes()).chain([0; 4]).chain(ring.to_le_bytes());
    answer.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
    answer
}

/// The client's look at the answer, which it takes with the descriptors, and at all that they are.
///
/// # Errors
/// `WouldBlock` where none came yet; else what the server said, or what is wrong with what it handed over.
pub fn check_reply(socket: impl AsFd) -> io::Result<Opened> {
    let mut bytes = [0; ANSWER_BYTES];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags)?.bytes;
    let mut descriptors: Vec<OwnedFd> = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    let ring = read_answer(bytes.get(..received).unwrap_or_default())?;
    let ring = usize::try_from(ring)
        .ok()
        .and_then(RingBytes::new)
        .ok_or_else(|| refused(&format!("rings of {ring} bytes; they hold a power of two from 64 KiB to 256 MiB")))?;
    let [memory, peer, bell] = <[OwnedFd; DESCRIPTORS]>::try_from(descriptors)
        .map_err(|all| refused(&format!("{} descriptors came with its answer, and not {DESCRIPTORS}", all.len())))?;
    let memory = Sealed::check(memory, ring)?;
    for bell in [&peer, &bell] {
        if !fcntl_getfl(bell)?.contains(OFlags::NONBLOCK) {
            return Err(refused("a bell that it handed over can make its ringer wait"));
        }
    }
    let mapping = Mapping::of(&memory)?;
    mapping.check_header()?;
    Ok(Opened { end: End::client(mapping, peer), bell })
}

/// The bytes of a ring that an answer grants.
fn read_answer(bytes: &[u8]) -> io::Result<u64> {
    let other = || io::Error::other("what listens there does not speak shared memory; connect to it with unix:");
    if bytes.is_empty() {
        // A server that waits for a preface closes when it reads a hello of this kind.
        return Err(other());
    }
    let Some((hello, rest)) = bytes.split_first_chunk::<HELLO_BYTES>() else { return Err(other()) };
    let [magic @ .., version] = hello;
    let [ours @ .., our_version] = &HELLO;
    if magic != ours {
        return Err(other());
    }
    let parts = rest.split_first_chunk::<4>().and_then(|(outcome, rest)| {
        let ring = rest.split_first_chunk::<4>()?.1.first_chunk::<8>()?;
        Some((u32::from_le_bytes(*outcome), u64::from_le_bytes(*ring)))
    });
    match parts {
        Some((OTHER_USER, _)) => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the server is another user's: shared memory is for processes of one user; use a Unix socket",
        )),
        Some((outcome, _)) if outcome == OTHER_VERSION || version != our_version => Err(io::Error::other(format!(
            "the server's shared memory is of version {version}, and this client's of {our_version}; use a Unix socket"
        ))),
        Some((GRANTED, ring)) => Ok(ring),
        Some((outcome, _)) => Err(refused(&format!("its outcome {outcome} means nothing"))),
        None => Err(refused("its answer was cut short")),
    }
}

#[cfg(test)]
mod tests;
