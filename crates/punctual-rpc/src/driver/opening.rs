//! The opening of a connection from either side, over any link.

use bytes::BytesMut;
use punctual_proto::frame::{Direction, FrameHeader, FrameRules, HEADER_BYTES};
use punctual_proto::handshake::{
    Agreement, HandshakeError, Hello, PREFACE, PREFACE_BYTES, Preface, Reply, Welcome, accept, confirm, read_preface,
};
use punctual_proto::status::Status;
use std::fmt;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// A connection that is open.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) agreement: Agreement,
    /// What came behind the handshake in the same read.
    pub(crate) rest: BytesMut,
}

/// Why a connection could not be opened.
#[derive(Debug)]
pub(crate) enum OpeningError {
    Io(io::Error),
    Handshake(HandshakeError),
}

impl OpeningError {
    pub(crate) fn to_status(&self) -> Status {
        match self {
            OpeningError::Io(error) => link_status(error),
            OpeningError::Handshake(error) => error.to_status(),
        }
    }
}

/// An error as logs may show it: a refusal without its text, which is that of whoever decides and may hold what was presented.
pub(crate) struct Logged<'a>(pub(crate) &'a OpeningError);

impl fmt::Display for Logged<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            OpeningError::Handshake(HandshakeError::Refused(status)) => write!(f, "refused: {}", status.code()),
            error => error.fmt(f),
        }
    }
}

/// Why there is no link, as a status: a side that did not prove itself is no side that is away.
pub(crate) fn link_status(error: &io::Error) -> Status {
    match error.kind() {
        // What the TLS library says of certificates, alerts and bytes that are none of its own.
        io::ErrorKind::InvalidData => Status::unauthenticated(error.to_string()),
        _ => Status::unavailable(error.to_string()),
    }
}

impl fmt::Display for OpeningError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpeningError::Io(error) => error.fmt(f),
            OpeningError::Handshake(error) => error.fmt(f),
        }
    }
}

impl From<io::Error> for OpeningError {
    fn from(error: io::Error) -> Self {
        OpeningError::Io(error)
    }
}

impl From<HandshakeError> for OpeningError {
    fn from(error: HandshakeError) -> Self {
        OpeningError::Handshake(error)
    }
}

/// The client's side.
pub(crate) async fn open_client<L: AsyncRead + AsyncWrite + Unpin>(
    link: &mut L,
    hello: &Hello,
) -> Result<(Opened, Welcome), OpeningError> {
    let mut out = PREFACE.to_vec();
    hello.put(&mut out)?;
    link.write_all(&out).await?;
    link.flush().await?;
    let mut bytes = BytesMut::new();
    let header = read_handshake(link, &mut bytes, Direction::FromServer).await?;
    let payload = bytes.split_to(usize::try_from(header.len).unwrap_or(usize::MAX).min(bytes.len()));
    let reply = Reply::decode(&header, &payload)?;
    let agreement = confirm(hello, &reply)?;
    match reply {
        Reply::Welcome(welcome) => Ok((Opened { agreement, rest: bytes }, welcome)),
        Reply::Refused(status) => Err(HandshakeError::Refused(status).into()),
    }
}

/// The server's side. `admit` may turn the client away once its hello was read and agreed to.
pub(crate) async fn open_server<L: AsyncRead + AsyncWrite + Unpin>(
    link: &mut L,
    welcome: &Welcome,
    admit: impl AsyncFnOnce(&Hello) -> Result<(), Status>,
) -> Result<Opened, OpeningError> {
    let mut bytes = BytesMut::new();
    let header = match read_handshake(link, &mut bytes, Direction::FromClient).await {
        Err(OpeningError::Handshake(error)) => return Err(say_no(link, error).await),
        other => other?,
    };
    let payload = bytes.split_to(usize::try_from(header.len).unwrap_or(usize::MAX).min(bytes.len()));
    let agreed = async {
        let hello = Hello::decode(&payload)?;
        let agreement = accept(welcome, &hello)?;
        admit(&hello).await.map_err(HandshakeError::Refused)?;
        Ok(agreement)
    };
    let agreement = match agreed.await {
        Ok(agreement) => agreement,
        Err(error) => return Err(say_no(link, error).await),
    };
    let mut out = PREFACE.to_vec();
    Reply::Welcome(welcome.clone()).put(&mut out)?;
    link.write_all(&out).await?;
    link.flush().await?;
    Ok(Opened { agreement, rest: bytes })
}

/// Tells the client why, as far as it listens.
async fn say_no<L: AsyncWrite + Unpin>(link: &mut L, error: HandshakeError) -> OpeningError {
    let mut out = PREFACE.to_vec();
    let reply = Reply::Refused(error.to_refusal());
    if !matches!(error, HandshakeError::NotPunctual { .. }) && reply.put(&mut out).is_ok() {
        // It is turned away in any case.
        let _ = link.write_all(&out).await;
    }
    let _ = link.shutdown().await;
    error.into()
}

/// Reads the preface and the handshake frame; the payload is at the front of `bytes` afterwards.
async fn read_handshake<L: AsyncRead + Unpin>(
    link: &mut L,
    bytes: &mut BytesMut,
    from: Direction,
) -> Result<FrameHeader, OpeningError> {
    let rules = FrameRules::handshake(from);
    while read_preface(bytes)? != Preface::Complete {
        fill(link, bytes).await?;
    }
    let _ = bytes.split_to(PREFACE_BYTES);
    loop {
        if let Some(head) = bytes.first_chunk::<HEADER_BYTES>() {
            let header = FrameHeader::decode(head, &rules).map_err(HandshakeError::Violation)?;
            let whole = HEADER_BYTES + usize::try_from(header.len).unwrap_or(usize::MAX);
            if bytes.len() >= whole {
                let _ = bytes.split_to(HEADER_BYTES);
                return Ok(header);
            }
        }
        fill(link, bytes).await?;
    }
}

async fn fill<L: AsyncRead + Unpin>(link: &mut L, bytes: &mut BytesMut) -> io::Result<()> {
    bytes.reserve(4_096);
    match link.read_buf(bytes).await? {
        0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the peer closed the connection during the handshake")),
        _ => Ok(()),
    }
}
