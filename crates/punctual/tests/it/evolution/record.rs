//! A transport that keeps what passes, and tells in which codec each part of each call went.

use punctual::rpc::transport::{BoxFuture, Dial, Link};
use punctual_proto::codec::Codec;
use punctual_proto::contract::method_id;
use punctual_proto::frame::{HEADER_BYTES, Kind};
use punctual_proto::handshake::PREFACE_BYTES;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// What passed on the one link that was opened, from its first byte.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record(Arc<Mutex<Passed>>);

#[derive(Debug, Default)]
struct Passed {
    sent: Vec<u8>,
    received: Vec<u8>,
}

/// Connects to `tcp://` and `unix:` addresses, and records.
#[derive(Debug)]
pub(crate) struct RecordingDial {
    pub(crate) address: String,
    pub(crate) record: Record,
}

impl Dial for RecordingDial {
    fn dial(&self) -> BoxFuture<'_, io::Result<Box<dyn Link>>> {
        Box::pin(async {
            let record = self.record.clone();
            if let Some(path) = self.address.strip_prefix("unix:") {
                return Ok(Box::new(Recorded { link: UnixStream::connect(path).await?, record }) as Box<dyn Link>);
            }
            let socket = self.address.strip_prefix("tcp://").unwrap_or_default();
            Ok(Box::new(Recorded { link: TcpStream::connect(socket).await?, record }) as Box<dyn Link>)
        })
    }

    fn address(&self) -> String {
        self.address.clone()
    }
}

struct Recorded<L> {
    link: L,
    record: Record,
}

impl<L: AsyncRead + Unpin> AsyncRead for Recorded<L> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.link).poll_read(cx, buf);
        self.record.passed().received.extend_from_slice(buf.filled().get(before..).unwrap_or_default());
        polled
    }
}

impl<L: AsyncWrite + Unpin> AsyncWrite for Recorded<L> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.link).poll_write(cx, bytes);
        if let Poll::Ready(Ok(written)) = polled {
            self.record.passed().sent.extend_from_slice(bytes.get(..written).unwrap_or_default());
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.link).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.link).poll_shutdown(cx)
    }
}

/// A frame's kind, flags, call and the first eight bytes of its payload.
struct Frame {
    kind: u8,
    flags: u8,
    call: u64,
    first: u64,
}

impl Record {
    fn passed(&self) -> MutexGuard<'_, Passed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The codecs of everything that was said in calls of this method since `from`, both ways: of the requests, the
    /// responses, the items of streams and the errors that end them.
    pub(crate) fn codecs(&self, full_name: &str, from: Mark) -> BTreeSet<&'static str> {
        let method = method_id(full_name);
        let passed = self.passed();
        let (sent, received) = (frames(&passed.sent), frames(&passed.received));
        let mut codecs = BTreeSet::new();
        let mut calls = BTreeMap::new();
        let mut note = |frame: &Frame| codecs.insert(Codec::from_bits(frame.flags >> 2).name());
        for frame in sent.iter().skip(from.0) {
            if frame.kind == Kind::Request as u8 {
                calls.insert(frame.call, frame.first == method);
            }
            let ours = calls.get(&frame.call).copied().unwrap_or(false);
            if ours && (says_codec(frame) || frame.kind == Kind::Request as u8) {
                note(frame);
            }
        }
        for frame in received.iter().skip(from.1) {
            if says_codec(frame) && calls.get(&frame.call) == Some(&true) {
                note(frame);
            }
        }
        codecs
    }

    /// Everything that passed so far.
    pub(crate) fn mark(&self) -> Mark {
        let passed = self.passed();
        Mark(frames(&passed.sent).len(), frames(&passed.received).len())
    }

    /// How many frames of this kind the client sent.
    pub(crate) fn sent(&self, kind: Kind) -> usize {
        frames(&self.passed().sent).iter().filter(|frame| frame.kind == kind as u8).count()
    }
}

/// Frames that had passed each way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark(usize, usize);

/// Whether it is a response, an item or an end with a codec: a status has none, nor has what opens or ends a stream.
fn says_codec(frame: &Frame) -> bool {
    let (outcome, opens) = (frame.flags & 0b11, frame.flags & 1 << 6 != 0);
    match frame.kind {
        kind if kind == Kind::Response as u8 => outcome < 2 && !opens,
        kind if kind == Kind::Data as u8 => true,
        kind if kind == Kind::End as u8 => outcome == 1,
        _ => false,
    }
}

/// The whole frames of one direction.
fn frames(bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    let mut rest = bytes.get(PREFACE_BYTES..).unwrap_or_default();
    while let Some((header, behind)) = rest.split_first_chunk::<HEADER_BYTES>() {
        let [a, b, c, d, kind, flags, _, _, call @ ..] = *header;
        let Some(payload) = behind.get(..u32::from_le_bytes([a, b, c, d]) as usize) else { break };
        let first = payload.first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
        frames.push(Frame { kind, flags, call: u64::from_le_bytes(call), first });
        rest = behind.get(payload.len()..).unwrap_or_default();
    }
    frames
}
