//! Unix sockets, by path or in Linux's abstract namespace.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{self, SocketAddr};
use std::path::{Path, PathBuf};
use tokio::net::{UnixListener, UnixStream};

/// Connects to the socket file at `path`.
pub(crate) async fn connect(path: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(path).await
}

/// Connects to an abstract name.
pub(crate) fn connect_abstract(name: &str) -> io::Result<UnixStream> {
    // An abstract connect never waits: it succeeds, or fails at once.
    let stream = net::UnixStream::connect_addr(&abstract_address(name)?)?;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

/// Listens at `path` with these permissions.
///
/// A socket file that nobody listens on is left over from a process that died; it is taken away. One that answers is
/// somebody's, and any other kind of file is not ours to remove.
pub(crate) async fn listen(path: &Path, mode: u32) -> io::Result<UnixListener> {
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            if !fs::symlink_metadata(path)?.file_type().is_socket() {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "a file that is not a socket is in the way; remove it or choose another path",
                ));
            }
            match UnixStream::connect(path).await {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path)?,
                // Its owner stopped in this very moment.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Ok(_) | Err(_) => {
                    return Err(io::Error::new(
                        io::ErrorKind::AddrInUse,
                        "another process listens there; stop it or choose another path",
                    ));
                }
            }
            UnixListener::bind(path)?
        }
        other => other?,
    };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    Ok(listener)
}

/// Listens on an abstract name.
pub(crate) fn listen_abstract(name: &str) -> io::Result<UnixListener> {
    let listener = net::UnixListener::bind_addr(&abstract_address(name)?)?;
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

#[cfg(target_os = "linux")]
fn abstract_address(name: &str) -> io::Result<SocketAddr> {
    use std::os::linux::net::SocketAddrExt;
    SocketAddr::from_abstract_name(name)
}

#[cfg(not(target_os = "linux"))]
fn abstract_address(_: &str) -> io::Result<SocketAddr> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "abstract socket names exist on Linux only; use a path"))
}

/// Takes the socket file away when the listener is done.
#[derive(Debug)]
pub(crate) struct Unlink {
    path: PathBuf,
    /// Device and number of the file that was bound.
    file: Option<(u64, u64)>,
}

impl Unlink {
    pub(crate) fn new(path: PathBuf) -> Self {
        Unlink { file: identity(&path), path }
    }
}

impl Drop for Unlink {
    fn drop(&mut self) {
        // Another server may listen there by now, and its file is not ours to remove.
        if self.file.is_some() && identity(&self.path) == self.file {
            // Somebody may have removed it, which is all that was wanted.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
}
