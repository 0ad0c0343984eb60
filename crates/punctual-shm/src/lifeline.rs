//! The Unix socket behind a link: nothing passes it once the memory is handed over, and its hang-up is the peer's end.

use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};
use std::io;
use std::os::fd::AsFd;

/// What the socket says of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifeline {
    /// Nothing: it is there.
    Quiet,
    /// It writes no more: it said so, or is gone.
    HungUp,
}

/// Looks at the socket without waiting.
///
/// # Errors
/// Where the peer sent bytes, which it may not.
pub fn look(socket: impl AsFd) -> io::Result<Lifeline> {
    let mut byte = [0];
    loop {
        return match recv(socket.as_fd(), &mut byte[..], RecvFlags::DONTWAIT) {
            Ok((_, 0)) => Ok(Lifeline::HungUp),
            Ok(_) => Err(io::Error::other(
                "the peer broke the shared memory: it sent bytes over the socket, which carries none behind the opening",
            )),
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => Ok(Lifeline::Quiet),
            // Whatever ails it, the peer cannot be heard over it again.
            Err(_) => Ok(Lifeline::HungUp),
        };
    }
}

/// Tells the peer that this side writes no more.
///
/// # Errors
/// Where the socket is none; a peer that is gone is no error.
pub fn end_writing(socket: impl AsFd) -> io::Result<()> {
    match shutdown(socket.as_fd(), Shutdown::Write) {
        Ok(()) | Err(Errno::NOTCONN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
