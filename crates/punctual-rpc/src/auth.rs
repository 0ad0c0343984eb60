//! Who calls, and what they may: proved once a connection, in its handshake; looked at with every call.

use crate::transport::BoxFuture;
use punctual_context::{Context, Identity, Metadata};
use punctual_proto::contract::MethodDescriptor;
use punctual_proto::status::Status;
use std::fmt::{self, Debug};

/// The client's side: what it proves itself with.
pub trait Credentials: Debug + Send + Sync + 'static {
    /// The bytes for the server's [`Authenticate`], at most about 4,000. Asked for with each try to connect, within the
    /// handshake's time, so that a token may be a fresh one.
    ///
    /// # Errors
    /// The status that the try ends with.
    fn fetch(&self) -> BoxFuture<'_, Result<Vec<u8>, Status>>;
}

/// The same credentials each time.
#[derive(Clone)]
pub struct FixedCredentials(Vec<u8>);

impl FixedCredentials {
    /// These bytes.
    #[must_use]
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        FixedCredentials(bytes.into())
    }
}

impl Credentials for FixedCredentials {
    fn fetch(&self) -> BoxFuture<'_, Result<Vec<u8>, Status>> {
        Box::pin(std::future::ready(Ok(self.0.clone())))
    }
}

impl Debug for FixedCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FixedCredentials").field("bytes", &self.0.len()).finish_non_exhaustive()
    }
}

/// What a client brought to its handshake.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Presented<'a> {
    /// What its [`Credentials`] gave; empty without any.
    pub bytes: &'a [u8],
    /// The certificates (DER) that it proved itself with at a `tls://` address, its own first; empty without any.
    pub certificates: &'a [Vec<u8>],
    /// Its address.
    pub peer: &'a str,
}

impl<'a> Presented<'a> {
    pub(crate) fn new(bytes: &'a [u8], certificates: &'a [Vec<u8>], peer: &'a str) -> Self {
        Presented { bytes, certificates, peer }
    }
}

impl Debug for Presented<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Presented")
            .field("bytes", &self.bytes.len())
            .field("certificates", &self.certificates.len())
            .field("peer", &self.peer)
            .finish()
    }
}

/// The server's side: who is that?
pub trait Authenticate: Debug + Send + Sync + 'static {
    /// Says who it is, within the handshake's time.
    ///
    /// # Errors
    /// The status that the client is turned away with, usually [`Status::unauthenticated`]. It is seen by whoever
    /// connects: say nothing in it that helps to guess.
    fn authenticate<'a>(&'a self, presented: Presented<'a>) -> BoxFuture<'a, Result<Identity, Status>>;
}

/// The server's side: may they?
pub trait Authorize: Debug + Send + Sync + 'static {
    /// Decides a call before anything of its arguments is decoded. Runs in the connection's own task: it must not block. A
    /// panic refuses the call.
    ///
    /// # Errors
    /// The status that the call ends with, usually [`Status::permission_denied`].
    fn authorize(
        &self,
        identity: Option<&Identity>,
        method: &MethodDescriptor,
        metadata: &Metadata,
    ) -> Result<(), Status>;
}

/// The identity of the caller that the running handler serves.
///
/// # Errors
/// [`Status::unauthenticated`] where there is none: outside of a call, or on a server that asks nobody.
pub fn caller() -> Result<Identity, Status> {
    let context = Context::current();
    let identity = context.as_ref().and_then(Context::identity);
    identity.cloned().ok_or_else(|| Status::unauthenticated("this call needs a caller that has proved who it is"))
}

/// Whether the caller that the running handler serves has the scope.
///
/// # Errors
/// [`Status::permission_denied`] with the scope where it has not, and as [`caller`].
pub fn require_scope(scope: &str) -> Result<(), Status> {
    match caller()?.has_scope(scope) {
        true => Ok(()),
        false => Err(Status::permission_denied(format!("this call needs the scope {scope:?}"))),
    }
}
