//! What systemd wants to be told (sd_notify(3)): a datagram to the socket that it names.

use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Tells the service manager, if there is one.
pub(super) fn notify(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty()) else { return };
    if let Err(error) = send(&path, state) {
        tracing::warn!(%error, state, "the service manager could not be told");
    }
}

fn send(path: &std::ffi::OsStr, state: &str) -> std::io::Result<()> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::ffi::OsStrExt;
    let socket = UnixDatagram::unbound()?;
    let address = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(path)?,
    };
    socket.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}
