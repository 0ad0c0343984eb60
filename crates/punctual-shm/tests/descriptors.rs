//! Descriptors before and after, counted: alone in its process, where nobody else opens any.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use punctual_shm::{RingBytes, check_reply, offer};
use std::os::unix::net::UnixStream;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Guards what a link costs and that it closes all of it: besides its socket, on each side its own bell and the peer's, and not
/// the memory, which stays mapped without a descriptor.
#[test]
fn descriptors_go_with_the_link() {
    let before = descriptors();
    for _ in 0..100 {
        let (client_socket, server_socket) = UnixStream::pair().unwrap();
        let server = offer(&server_socket, RingBytes::default()).unwrap();
        let client = check_reply(&client_socket).unwrap();
        assert_eq!(descriptors(), before + 2 + 4);
        drop((client, server, client_socket, server_socket));
        assert_eq!(descriptors(), before);
    }
}
