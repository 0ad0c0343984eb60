//! The other end of a channel, played by the test frame by frame.

use crate::support::probe::{DESCRIPTOR, ProbeClient};
use bytes::BytesMut;
use punctual_proto::codec::Codec;
use punctual_proto::frame::{
    Cancel, CancelCause, Direction, FrameHeader, FrameRules, GoAway, GoAwayReason, HEADER_BYTES, Kind, Outcome,
    RequestHead, ResponseHead,
};
use punctual_proto::handshake::{Agreement, Hello, PREFACE, PREFACE_BYTES, Reply, ServiceEntry, Welcome, accept};
use punctual_rpc::transport::{BoxFuture, Dial, Link};
use punctual_rpc::{ChannelBuilder, ChannelConfig, Limits};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;

/// A transport whose links end in the test.
#[derive(Debug)]
pub(crate) struct WireDial {
    bytes: usize,
    links: mpsc::UnboundedSender<DuplexStream>,
}

impl Dial for WireDial {
    fn dial(&self) -> BoxFuture<'_, io::Result<Box<dyn Link>>> {
        Box::pin(async {
            let (ours, theirs) = tokio::io::duplex(self.bytes);
            self.links
                .send(theirs)
                .map_err(|_| io::Error::new(io::ErrorKind::ConnectionRefused, "the test is over"))?;
            Ok(Box::new(ours) as Box<dyn Link>)
        })
    }

    fn address(&self) -> String {
        "test:wire".to_owned()
    }
}

/// The links that a channel opens.
pub(crate) struct WireListener {
    links: mpsc::UnboundedReceiver<DuplexStream>,
}

/// One link, behind its handshake.
pub(crate) struct Wire {
    pub(crate) link: DuplexStream,
    bytes: BytesMut,
    rules: FrameRules,
}

/// A frame as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) header: FrameHeader,
    pub(crate) payload: Vec<u8>,
}

/// What a server of the test says of itself.
pub(crate) fn welcome() -> Welcome {
    let entry = ServiceEntry { name: "Probe".to_owned(), contract: DESCRIPTOR.contract_hash() };
    Welcome::new(Limits::default(), vec![entry])
}

/// A channel whose links hold `bytes` in each direction until the test reads them.
pub(crate) fn wired(config: ChannelConfig, bytes: usize) -> (ProbeClient, WireListener) {
    let (sender, links) = mpsc::unbounded_channel();
    let dial = WireDial { bytes, links: sender };
    let channel = ChannelBuilder::dial(dial).config(config).lazy().unwrap();
    (ProbeClient::new(channel), WireListener { links })
}

/// A channel that is connected, and the test's end of it.
pub(crate) async fn connected(config: ChannelConfig, bytes: usize) -> (ProbeClient, Wire) {
    connected_as(config, bytes, welcome()).await
}

pub(crate) async fn connected_as(config: ChannelConfig, bytes: usize, welcome: Welcome) -> (ProbeClient, Wire) {
    let (sender, links) = mpsc::unbounded_channel();
    let dial = WireDial { bytes, links: sender };
    let mut listener = WireListener { links };
    let builder = ChannelBuilder::dial(dial).config(config);
    let (channel, wire) = tokio::join!(builder.connect(), listener.accept(welcome));
    (ProbeClient::new(channel.unwrap()), wire)
}

impl WireListener {
    /// The next link, without a handshake.
    pub(crate) async fn link(&mut self) -> DuplexStream {
        self.links.recv().await.unwrap()
    }

    pub(crate) async fn accept(&mut self, welcome: Welcome) -> Wire {
        let mut wire = Wire {
            link: self.link().await,
            bytes: BytesMut::new(),
            rules: FrameRules::handshake(Direction::FromClient),
        };
        wire.fill(PREFACE_BYTES).await;
        assert_eq!(wire.bytes.split_to(PREFACE_BYTES)[..], PREFACE);
        let hello = wire.frame().await;
        let hello = Hello::decode(&hello.payload).unwrap();
        let agreement: Agreement = accept(&welcome, &hello).unwrap();
        let mut out = PREFACE.to_vec();
        Reply::Welcome(welcome).put(&mut out).unwrap();
        wire.link.write_all(&out).await.unwrap();
        wire.rules = agreement.rules(Direction::FromClient);
        wire
    }
}

impl Wire {
    async fn fill(&mut self, bytes: usize) {
        while self.bytes.len() < bytes {
            assert_ne!(self.link.read_buf(&mut self.bytes).await.unwrap(), 0, "the client closed the link");
        }
    }

    /// The next frame, which must keep the rules of the protocol.
    pub(crate) async fn frame(&mut self) -> Frame {
        self.fill(HEADER_BYTES).await;
        let header = FrameHeader::decode(self.bytes.first_chunk().unwrap(), &self.rules).unwrap();
        let len = header.len as usize;
        self.fill(HEADER_BYTES + len).await;
        let _ = self.bytes.split_to(HEADER_BYTES);
        Frame { header, payload: self.bytes.split_to(len).to_vec() }
    }

    /// The next frame that is no ping; pings are answered.
    pub(crate) async fn call_frame(&mut self) -> Frame {
        loop {
            let frame = self.frame().await;
            match frame.header.kind {
                Kind::Ping => {
                    let header = FrameHeader { kind: Kind::Pong, ..frame.header };
                    self.send(&[&header.encode()[..], &frame.payload].concat()).await;
                }
                Kind::Pong => {}
                _ => return frame,
            }
        }
    }

    pub(crate) fn request<'a>(&self, frame: &'a Frame) -> RequestHead<'a> {
        assert_eq!(frame.header.kind, Kind::Request);
        RequestHead::decode(&frame.header, &frame.payload, &self.rules).unwrap()
    }

    /// Everything that comes until the client is silent for a while of paused time.
    pub(crate) async fn frames_until_silent(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Ok(frame) = tokio::time::timeout(Duration::from_millis(50), self.call_frame()).await {
            frames.push(frame);
        }
        frames
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.link.write_all(bytes).await.unwrap();
    }

    /// Answers a request with a value.
    pub(crate) async fn answer(&mut self, frame: &Frame, value: &impl serde::Serialize) {
        let mut body = Vec::new();
        punctual_proto::codec::encode(Codec::Compact, value, &mut body).unwrap();
        let head = ResponseHead {
            outcome: Outcome::Ok,
            codec: Codec::Compact,
            metadata: &[],
            streamed: false,
            total: None,
            plain: None,
            body: &body,
        };
        let mut out = Vec::new();
        head.put(frame.header.call, &mut out);
        self.send(&out).await;
    }

    pub(crate) async fn go_away(&mut self, accepted: u64) {
        let mut out = Vec::new();
        GoAway { accepted, reason: GoAwayReason::Shutdown, text: "test" }.put(&mut out);
        self.send(&out).await;
    }
}

impl Frame {
    pub(crate) fn cancel(&self) -> Option<CancelCause> {
        assert_eq!(self.header.kind, Kind::Cancel);
        Cancel::decode(&self.payload).unwrap().0
    }

    pub(crate) fn kind(&self) -> Kind {
        self.header.kind
    }
}

/// Polls a future once.
pub(crate) async fn poll_once<F: Future + Unpin>(future: &mut F) -> std::task::Poll<F::Output> {
    std::future::poll_fn(|cx| std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx))).await
}

/// Lets every task run that can.
pub(crate) async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}
