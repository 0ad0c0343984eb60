//! A client played by the test, frame by frame, against a real server over TCP.

use crate::support::site::Site;
use crate::support::wire::Frame;
use bytes::BytesMut;
use punctual_proto::codec::{self, Codec};
use punctual_proto::frame::{CallId, Direction, FrameHeader, FrameRules, HEADER_BYTES, Kind, RequestHead};
use punctual_proto::handshake::{Hello, PREFACE, PREFACE_BYTES, Reply, confirm};
use punctual_rpc::Limits;
use std::num::NonZeroU64;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) struct Raw {
    pub(crate) link: TcpStream,
    bytes: BytesMut,
    rules: FrameRules,
}

impl Raw {
    /// A link without a handshake.
    pub(crate) async fn link(site: &Site) -> TcpStream {
        TcpStream::connect(site.address.strip_prefix("tcp://").unwrap()).await.unwrap()
    }

    pub(crate) async fn connect(site: &Site) -> Self {
        Self::connect_as(site, Hello::new(Limits::default())).await
    }

    pub(crate) async fn connect_as(site: &Site, hello: Hello) -> Self {
        let mut raw = Raw {
            link: Self::link(site).await,
            bytes: BytesMut::new(),
            rules: FrameRules::handshake(Direction::FromServer),
        };
        let mut out = PREFACE.to_vec();
        hello.put(&mut out).unwrap();
        raw.send(&out).await;
        raw.fill(PREFACE_BYTES).await;
        let _ = raw.bytes.split_to(PREFACE_BYTES);
        let reply = raw.frame().await.unwrap();
        let reply = Reply::decode(&reply.header, &reply.payload).unwrap();
        raw.rules = confirm(&hello, &reply).unwrap().rules(Direction::FromServer);
        raw
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.link.write_all(bytes).await.unwrap();
    }

    async fn fill(&mut self, bytes: usize) -> bool {
        while self.bytes.len() < bytes {
            if self.link.read_buf(&mut self.bytes).await.unwrap_or(0) == 0 {
                return false;
            }
        }
        true
    }

    /// The next frame, or `None` where the server closed.
    pub(crate) async fn frame(&mut self) -> Option<Frame> {
        if !self.fill(HEADER_BYTES).await {
            return None;
        }
        let header = FrameHeader::decode(self.bytes.first_chunk().unwrap(), &self.rules).unwrap();
        let len = header.len as usize;
        if !self.fill(HEADER_BYTES + len).await {
            return None;
        }
        let _ = self.bytes.split_to(HEADER_BYTES);
        Some(Frame { header, payload: self.bytes.split_to(len).to_vec() })
    }

    /// The next response.
    pub(crate) async fn response(&mut self) -> Frame {
        loop {
            let frame = self.frame().await.expect("a response before the end");
            if frame.kind() == Kind::Response {
                return frame;
            }
        }
    }

    pub(crate) async fn request(
        &mut self,
        call: CallId,
        method: u64,
        budget: Option<u64>,
        args: &impl serde::Serialize,
    ) {
        let mut body = Vec::new();
        codec::encode(Codec::Compact, args, &mut body).unwrap();
        let head = RequestHead {
            method,
            budget_micros: budget.and_then(NonZeroU64::new),
            oneway: !call.is_pending(),
            codec: Codec::Compact,
            metadata: &[],
            streams: punctual_proto::frame::CallStreams::NONE,
            total: None,
            plain: None,
            body: &body,
        };
        let mut out = Vec::new();
        head.put(call, &mut out);
        self.send(&out).await;
    }
}

impl Frame {
    /// The status of a response that carries one.
    pub(crate) fn status(&self) -> punctual_rpc::Status {
        assert_eq!(self.header.outcome(), Some(punctual_proto::frame::Outcome::Status));
        punctual_rpc::Status::decode(&self.payload).unwrap()
    }
}
