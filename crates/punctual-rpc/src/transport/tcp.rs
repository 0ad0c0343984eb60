//! TCP.

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, lookup_host};

/// Connections that the kernel holds for us before they are accepted.
const BACKLOG: i32 = 1_024;

/// The kernel's own keep-alive, behind ours: it takes dead peers off half-open handshakes.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Connects to the first address of `host` that answers.
pub(crate) async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = None;
    for address in lookup_host((host, port)).await? {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                tune(&stream)?;
                return Ok(stream);
            }
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the host has no address")))
}

/// Small frames go out at once: batching is ours, and waiting for acknowledgements would only delay it.
pub(crate) fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    SockRef::from(stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 4))
}

/// Listens on the first address of `host`, which other machines may reach only where `off_loopback` allows it.
pub(crate) async fn listen(host: &str, port: u16, off_loopback: bool) -> io::Result<TcpListener> {
    let mut addresses: Vec<SocketAddr> = lookup_host((host, port)).await?.collect();
    // `localhost` commonly means both families: the older one is what clients try, too.
    addresses.sort_by_key(|address| !address.is_ipv4());
    let address = addresses.first().ok_or(io::Error::new(io::ErrorKind::NotFound, "the host has no address"))?;
    if !off_loopback && !is_loopback(address) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "other machines reach that address and nothing is encrypted; listen on tls://, on a loopback address, or \
             say allow_plaintext_off_loopback",
        ));
    }
    let socket = Socket::new(Domain::for_address(*address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    // A restarted server takes its port back at once.
    socket.set_reuse_address(true)?;
    socket.bind(&(*address).into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// The error where a `tls://` address is used in a build without TLS.
#[cfg(not(feature = "_tls"))]
pub(crate) fn without_tls() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "this program was built without TLS; build it with the feature `tls`")
}

/// Whether only this machine can reach the address.
fn is_loopback(address: &SocketAddr) -> bool {
    match address.ip() {
        IpAddr::V4(ip) => ip.is_loopback(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback()),
    }
}
