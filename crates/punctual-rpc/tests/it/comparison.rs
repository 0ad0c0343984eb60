//! The describe exchange of a client whose contract is not the server's, frame by frame, and with servers that lie.

use crate::support::clock::{channel_under, tokio_clock};
use crate::support::probe::{DESCRIPTOR, ProbeClient};
use crate::support::wire::{Frame, Wire, connected_as, settle, welcome};
use punctual_proto::codec::Codec;
use punctual_proto::describe::{COMPARED_BYTES_MAX, ServiceDescription};
use punctual_proto::frame::{DescribeHead, Kind, fragment_header};
use punctual_proto::status::Status;
use punctual_rpc::ChannelConfig;
use std::time::Duration;

/// What a client and a server of the test have said to each other so far.
struct Exchange {
    client: ProbeClient,
    wire: Wire,
    /// Describe queries that were not answered yet.
    questions: Vec<Frame>,
}

const NAMED: [Codec; 2] = [Codec::Named, Codec::Named];

impl Exchange {
    /// With a server that has another version of the contract.
    async fn start() -> Self {
        let mut welcome = welcome();
        for service in &mut welcome.services {
            service.contract = [7; 16];
        }
        let (client, wire) = connected_as(channel_under(tokio_clock()), 1 << 20, welcome).await;
        Exchange { client, wire, questions: Vec::new() }
    }

    /// Calls `add` and `text`, gives both up, and gives the codecs of their requests.
    async fn codecs(&mut self) -> [Codec; 2] {
        let (add, text) =
            (ProbeClient::new(self.client.channel.clone()), ProbeClient::new(self.client.channel.clone()));
        let adding = tokio::spawn(async move { drop(add.add(1, 2).await) });
        let first = self.given_up(adding).await;
        let texting = tokio::spawn(async move { drop(text.text("a").await) });
        [first, self.given_up(texting).await]
    }

    async fn given_up(&mut self, call: tokio::task::JoinHandle<()>) -> Codec {
        let request = self.next().await;
        let codec = self.wire.request(&request).codec;
        call.abort();
        let cancel = self.next().await;
        assert_eq!((cancel.header.kind, cancel.header.call), (Kind::Cancel, request.header.call));
        codec
    }

    /// The next frame that is no question.
    async fn next(&mut self) -> Frame {
        loop {
            let frame = self.wire.call_frame().await;
            if frame.header.kind != Kind::Describe {
                return frame;
            }
            self.questions.push(frame);
        }
    }

    /// Answers the one question that there is, in pieces where the answer is long.
    async fn tell(&mut self, failed: bool, body: &[u8]) {
        let question = self.questions.pop().unwrap();
        assert!(self.questions.is_empty(), "each service is asked about once");
        assert_eq!(question.payload, b"Probe");
        let call = question.header.call;
        let mut pieces = body.chunks(60_000);
        let first = pieces.next().unwrap_or_default();
        let total = (first.len() < body.len()).then(|| u32::try_from(body.len()).unwrap());
        let mut out = Vec::new();
        DescribeHead::Reply { failed, total, body: first }.put(call, &mut out);
        let mut left = body.len() - first.len();
        for piece in pieces {
            left -= piece.len();
            out.extend(fragment_header(call, u32::try_from(piece.len()).unwrap(), left > 0).encode());
            out.extend(piece);
        }
        self.wire.send(&out).await;
        settle().await;
    }
}

/// The contract as a server describes it in whose version `text` is another method.
fn described() -> Vec<u8> {
    let mut description = ServiceDescription::from(&DESCRIPTOR);
    for method in &mut description.methods {
        if method.name == "text" {
            method.schema_hash = "0123456789abcdef".to_owned();
        }
    }
    ServiceDescription::encode_all(&[description]).unwrap()
}

/// The first calls of a service whose contract differs go in the codec that is always right, and the client asks once; what
/// is equal is sent compact from then on, and what is not stays self-describing.
#[tokio::test(start_paused = true)]
async fn methods_that_are_equal_go_compact_once_the_server_has_told() {
    let mut exchange = Exchange::start().await;
    assert_eq!(exchange.codecs().await, NAMED);
    exchange.tell(false, &described()).await;
    for _ in 0..3 {
        assert_eq!(exchange.codecs().await, [Codec::Compact, Codec::Named]);
    }
    assert!(exchange.questions.is_empty(), "nothing is asked twice");
}

/// A long description comes in pieces like any message, and is read whole.
#[tokio::test(start_paused = true)]
async fn a_long_description_is_read() {
    let mut exchange = Exchange::start().await;
    assert_eq!(exchange.codecs().await, NAMED);
    let mut long = described();
    long.resize(COMPARED_BYTES_MAX, b' ');
    exchange.tell(false, &long).await;
    assert_eq!(exchange.codecs().await, [Codec::Compact, Codec::Named]);
}

/// Whatever a server answers instead of a description, its connection lives and every call goes in the codec that is always
/// right, without another question.
#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_tell_is_spoken_to_by_name() {
    let mut status = Vec::new();
    Status::unimplemented("this server does not describe itself").encode(&mut status);
    let mut over = described();
    over.resize(COMPARED_BYTES_MAX + 1, b' ');
    let twice = [b"[".as_slice(), &described()[1..described().len() - 1], b",", &described()[1..]].concat();
    let answers: [(bool, &[u8]); 7] = [
        (true, &status),
        (true, b"no status"),
        (false, b""),
        (false, b"[]"),
        (false, br#"[{"name":"Probe","methods":[{"id":"x","schema_hash":"y"}]}]"#),
        (false, &twice),
        (false, &over),
    ];
    for (failed, body) in answers {
        let mut exchange = Exchange::start().await;
        assert_eq!(exchange.codecs().await, NAMED);
        exchange.tell(failed, body).await;
        assert_eq!(exchange.codecs().await, NAMED);
        assert!(exchange.questions.is_empty());
        assert_eq!(exchange.client.channel.stats().violations, 0);
    }
}

/// A server that never answers costs the time that a handshake may take, and no call waits for it; what it says later is
/// dropped.
#[tokio::test(start_paused = true)]
async fn a_silent_server_is_not_waited_for() {
    let mut exchange = Exchange::start().await;
    assert_eq!(exchange.codecs().await, NAMED);
    let within = ChannelConfig::default().limits.handshake_timeout;
    // The server is alive all the while.
    tokio::time::advance(within + Duration::from_millis(1)).await;
    settle().await;
    exchange.tell(false, &described()).await;
    assert_eq!(exchange.codecs().await, NAMED);
    assert_eq!(exchange.client.channel.stats().pending, 0);
}

/// A server that says of a method that it is the same, and lies, breaks the calls of that method alone.
#[tokio::test(start_paused = true)]
async fn a_lie_breaks_its_own_calls_alone() {
    let mut exchange = Exchange::start().await;
    assert_eq!(exchange.codecs().await, NAMED);
    exchange.tell(false, &described()).await;
    let client = ProbeClient::new(exchange.client.channel.clone());
    let call = tokio::spawn(async move { client.add(1, 2).await });
    let request = exchange.next().await;
    exchange.wire.answer(&request, &"a text where a number must be").await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(error.status().unwrap().code(), punctual_rpc::Code::DataLoss);
    assert_eq!(exchange.codecs().await, [Codec::Compact, Codec::Named]);
}

/// A channel that closes does not wait for an answer that nobody needs any more.
#[tokio::test(start_paused = true)]
async fn closing_does_not_wait_for_a_description() {
    let mut exchange = Exchange::start().await;
    assert_eq!(exchange.codecs().await, NAMED);
    assert_eq!(exchange.questions.len(), 1);
    let drained = tokio::select! {
        biased;
        drained = exchange.client.channel.close_within(Duration::from_secs(4)) => drained,
        // Paused time moves on only when nothing else can.
        () = tokio::time::sleep(Duration::from_millis(1)) => panic!("it waits"),
    };
    assert_eq!(drained.cut, 0);
}

/// Of a service that the server does not have there is nothing to ask.
#[tokio::test(start_paused = true)]
async fn an_unknown_service_is_not_asked_about() {
    let mut none = welcome();
    none.services.clear();
    let (client, wire) = connected_as(ChannelConfig::default(), 1 << 20, none).await;
    let mut exchange = Exchange { client, wire, questions: Vec::new() };
    assert_eq!(exchange.codecs().await, NAMED);
    settle().await;
    assert_eq!(exchange.codecs().await, NAMED);
    assert!(exchange.questions.is_empty());
}
