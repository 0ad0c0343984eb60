//! Tests of `handshake`.

use super::*;
use crate::frame::{Direction, FrameHeader, FrameRules, HEADER_BYTES, Phase};
use crate::limits::{LimitError, Limits};
use crate::status::{Code, Status};
use proptest::prelude::*;

fn split(frame: &[u8], from: Direction) -> (FrameHeader, &[u8]) {
    let (header, payload) = frame.split_first_chunk::<HEADER_BYTES>().unwrap();
    let header = FrameHeader::decode(header, &FrameRules::handshake(from)).unwrap();
    assert_eq!(header.len as usize, payload.len());
    (header, payload)
}

fn hello_frame(hello: &Hello) -> Vec<u8> {
    let mut out = Vec::new();
    hello.put(&mut out).unwrap();
    out
}

fn reply_frame(reply: &Reply) -> Vec<u8> {
    let mut out = Vec::new();
    reply.put(&mut out).unwrap();
    out
}

fn services(count: usize) -> Vec<ServiceEntry> {
    (0..count).map(|at| ServiceEntry { name: format!("Service{at}"), contract: [at as u8; 16] }).collect()
}

fn hello() -> Hello {
    let limits = Limits { message_bytes_max: 1 << 20, pending_calls_max: 100, ..Limits::default() };
    Hello { authentication: b"token".to_vec(), ..Hello::new(limits) }
}

fn compressing(client: &[u8], server: &[u8]) -> (Hello, Welcome) {
    let profiles = |numbers: &[u8]| numbers.iter().copied().map(Profile).collect();
    let welcome = Welcome::new(Limits::default(), Vec::new()).with_compression(profiles(server));
    (hello().with_compression(profiles(client)), welcome)
}

/// Both sides find the same profile: the first of the client's that the server has, too; without one there is no
/// compression, and where that is required no connection.
#[test]
fn compression_profiles_are_agreed_on() {
    let agreed = |client: &[u8], server: &[u8]| {
        let (hello, welcome) = compressing(client, server);
        let frame = hello_frame(&hello);
        let read = Hello::decode(split(&frame, Direction::FromClient).1).unwrap();
        assert_eq!(read.compression, hello.compression);
        let ours = accept(&welcome, &read).unwrap();
        let frame = reply_frame(&Reply::Welcome(welcome));
        let (header, payload) = split(&frame, Direction::FromServer);
        let theirs = confirm(&hello, &Reply::decode(&header, payload).unwrap()).unwrap();
        assert_eq!((ours.compression, ours.capabilities), (theirs.compression, theirs.capabilities));
        let bit = ours.capabilities.contains(Capabilities::COMPRESSION);
        assert_eq!(ours.compression.is_some(), bit);
        assert_eq!(ours.rules(Direction::FromClient).compression, bit);
        ours.compression
    };
    assert_eq!(agreed(&[1, 2], &[2, 1]), Some(Profile::ZSTD));
    assert_eq!(agreed(&[200, 2], &[1, 2]), Some(Profile::LZ4));
    assert_eq!(agreed(&[1], &[2]), None);
    assert_eq!(agreed(&[], &[2]), None);
    let (mut hello, welcome) = compressing(&[1], &[2]);
    hello.required = Capabilities::COMPRESSION;
    let error = accept(&welcome, &hello).unwrap_err();
    assert_eq!(error, HandshakeError::Capabilities { missing: Capabilities::COMPRESSION, ours: true });
}

/// A list of profiles that makes no sense is refused by whoever reads it, and never written.
#[test]
fn bad_lists_of_profiles_are_refused() {
    let long: Vec<u8> = (1..=17).collect();
    for bad in [&[0][..], &[1, 1], &long] {
        let (hello, _) = compressing(bad, &[]);
        assert!(hello.put(&mut Vec::new()).is_err(), "{bad:?}");
        let mut payload = vec![0; 16];
        payload.extend([18, 0, bad.len() as u8, 0]);
        payload.extend(bad);
        assert!(Hello::decode(&payload).is_err(), "{bad:?}");
    }
    assert!(Hello::decode(&[&[0; 16][..], &[18, 0, 0, 0]].concat()).is_err(), "an empty list");
}

/// A preface is recognised byte by byte, and bytes behind it are left for the handshake frame.
#[test]
fn a_preface_may_come_in_pieces() {
    for have in 0..PREFACE_BYTES {
        assert_eq!(read_preface(&PREFACE[..have]), Ok(Preface::Incomplete(PREFACE_BYTES - have)));
    }
    assert_eq!(read_preface(&PREFACE), Ok(Preface::Complete));
    assert_eq!(read_preface(&[&PREFACE[..], b"more"].concat()), Ok(Preface::Complete));
}

/// Another version is told with both numbers and what to do.
#[test]
fn other_versions_are_named() {
    let error = read_preface(b"PNCTUAL\x02").unwrap_err();
    assert_eq!(error, HandshakeError::Version { ours: 1, theirs: 2 });
    assert_eq!(error.to_string(), "this side speaks protocol version 1, the peer 2; upgrade this side");
    assert_eq!(
        read_preface(b"PNCTUAL\x00").unwrap_err().to_string(),
        "this side speaks protocol version 1, the peer 0; upgrade the peer"
    );
}

/// What commonly answers on a wrong port is recognised, and every other stranger is refused at its first wrong byte.
#[test]
fn strangers_are_recognised() {
    let looks = |bytes: &[u8]| match read_preface(bytes) {
        Err(HandshakeError::NotPunctual { looks_like }) => looks_like,
        other => panic!("{other:?}"),
    };
    assert_eq!(looks(b"GET / HTTP/1.1\r\n"), Some("HTTP"));
    assert_eq!(looks(b"HTTP/1.1 400 Bad Request"), Some("HTTP"));
    assert_eq!(looks(b"PRI * HTTP/2.0"), Some("HTTP"));
    // These share their first letter with our magic.
    assert_eq!(looks(b"POST /x HTTP/1.1"), Some("HTTP"));
    assert_eq!(looks(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01]), Some("TLS"));
    assert_eq!(looks(&[0x15, 0x03, 0x03, 0x00, 0x02]), Some("TLS"));
    assert_eq!(looks(b"SSH-2.0-x"), Some("SSH"));
    assert_eq!(looks(b"X"), None);
    assert_eq!(looks(b"PNX"), None);
    assert!(read_preface(b"x").unwrap_err().to_string().contains("not a Punctual port"));
    assert!(read_preface(&[0x16, 3]).unwrap_err().to_string().contains("TLS"));
}

/// Both payloads survive the wire.
#[test]
fn payloads_round_trip() {
    let hello = hello();
    let frame = hello_frame(&hello);
    let (_, payload) = split(&frame, Direction::FromClient);
    assert_eq!(Hello::decode(payload).unwrap(), hello);

    let welcome = Welcome::new(Limits { metadata_bytes_max: 99, ..Limits::default() }, services(3));
    assert_eq!(welcome.contract("Service2"), Some([2; 16]));
    assert_eq!(welcome.contract("Other"), None);
    for reply in [Reply::Welcome(welcome), Reply::Refused(Status::unauthenticated("who are you?"))] {
        let frame = reply_frame(&reply);
        let (header, payload) = split(&frame, Direction::FromServer);
        assert_eq!(Reply::decode(&header, payload).unwrap(), reply);
    }
}

/// Every cut of a payload is refused or, at a boundary between items, says less; none panics. A cut inside the fixed
/// part or an item is an error.
#[test]
fn cuts_inside_items_are_refused() {
    let frame = hello_frame(&hello());
    let (_, payload) = split(&frame, Direction::FromClient);
    let mut boundaries = vec![16];
    while *boundaries.last().unwrap() < payload.len() {
        let at = *boundaries.last().unwrap();
        boundaries.push(at + 4 + usize::from(u16::from_le_bytes([payload[at + 2], payload[at + 3]])));
    }
    for end in 0..payload.len() {
        assert_eq!(Hello::decode(&payload[..end]).is_ok(), boundaries.contains(&end), "cut at {end}");
    }
}

/// An unknown item is skipped and an item that is left out takes version 1's default, so that later versions of the
/// library can say more; an item that comes twice or has the wrong size is refused.
#[test]
fn items_are_skipped_defaulted_or_refused() {
    let bare = [0; 16];
    let decoded = Hello::decode(&bare).unwrap();
    assert_eq!((decoded.limits, decoded.supported), (Limits::default(), Capabilities::NONE));
    let with = |items: &[u8]| Hello::decode(&[&bare[..], items].concat());
    assert_eq!(with(&[0xff, 0x7f, 2, 0, 9, 9]).unwrap(), decoded);
    let limit = [1, 0, 4, 0, 0, 4, 0, 0];
    assert_eq!(with(&limit).unwrap().limits.message_bytes_max, 1_024);
    assert_eq!(with(&limit.repeat(2)), Err(HandshakeError::Malformed { what: "an item comes twice" }));
    assert_eq!(with(&[1, 0, 2, 0, 0, 4]), Err(HandshakeError::Malformed { what: "a limit is not four bytes" }));
    assert!(matches!(with(&[1, 0, 4, 0, 1, 0, 0, 0]), Err(HandshakeError::Limit(LimitError::Range { value: 1, .. }))));
    assert!(matches!(with(&[16, 0, 1, 0, 0xff]), Err(HandshakeError::Malformed { .. })));
}

/// A hello over 4 KiB and a welcome over 64 KiB are refused by their own side, leaving the buffer alone.
#[test]
fn payloads_are_bounded() {
    let mut hello = hello();
    let spare = HELLO_BYTES_MAX as usize + HEADER_BYTES - hello_frame(&hello).len();
    hello.authentication.resize(5 + spare, 0);
    assert_eq!(hello_frame(&hello).len(), HELLO_BYTES_MAX as usize + HEADER_BYTES);
    hello.authentication.push(0);
    let mut out = b"before".to_vec();
    assert!(matches!(hello.put(&mut out), Err(HandshakeError::TooLarge { bytes: 4_097, max: 4_096 })));
    hello.authentication = vec![0; 70_000];
    assert!(matches!(hello.put(&mut out), Err(HandshakeError::TooLarge { bytes: 70_000, .. })));

    let long: Vec<ServiceEntry> =
        (0..400).map(|at| ServiceEntry { name: format!("{at:0>200}"), contract: [0; 16] }).collect();
    let reply = Reply::Welcome(Welcome::new(Limits::default(), long));
    assert!(matches!(reply.put(&mut out), Err(HandshakeError::TooLarge { max: 65_536, .. })));
    assert_eq!(out, b"before");
}

/// The services of a welcome are bounded in number, have a name, and each name comes once, on both sides.
#[test]
fn services_are_checked() {
    let put = |services| Reply::Welcome(Welcome::new(Limits::default(), services)).put(&mut Vec::new());
    assert!(put(services(SERVICES_MAX)).is_ok());
    assert!(put(services(SERVICES_MAX + 1)).is_err());
    assert!(put([services(2), services(1)].concat()).is_err());
    assert!(put(vec![ServiceEntry { name: String::new(), contract: [0; 16] }]).is_err());
    assert!(put(vec![ServiceEntry { name: "n".repeat(256), contract: [0; 16] }]).is_err());

    let header = FrameHeader::new(crate::frame::Kind::Handshake, crate::frame::CallId::NONE, 0);
    let decode = |items: &[u8]| Reply::decode(&header, &[&[0; 16][..], items].concat());
    let entry = [&[32, 0, 17, 0][..], &[7; 16], b"S"].concat();
    assert!(decode(&entry).is_ok());
    assert_eq!(decode(&entry.repeat(2)), Err(HandshakeError::Malformed { what: "a service is listed twice" }));
    assert!(decode(&[&[32, 0, 16, 0][..], &[7; 16]].concat()).is_err());
    assert!(decode(&[&[32, 0, 15, 0][..], &[7; 15]].concat()).is_err());
}

/// A refusal always fits its frame, however long its text.
#[test]
fn a_long_refusal_is_cut_to_fit() {
    let reply = Reply::Refused(Status::unavailable("x".repeat(65_536)));
    let frame = reply_frame(&reply);
    let (header, payload) = split(&frame, Direction::FromServer);
    let Reply::Refused(status) = Reply::decode(&header, payload).unwrap() else { panic!("a welcome") };
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().ends_with(crate::status::CUT_MARK));
}

/// Both ends agree on the same: common capabilities, the smaller limits, the server's running calls.
#[test]
fn both_ends_agree_on_the_same() {
    let mut hello = hello();
    hello.supported = Capabilities::CANCEL_REASON.union(Capabilities::PRIORITY);
    let limits = Limits { message_bytes_max: 8 << 20, running_calls_max: 7, ..Limits::default() };
    let welcome = Welcome::new(limits, services(1));
    let server = accept(&welcome, &hello).unwrap();
    let client = confirm(&hello, &Reply::Welcome(welcome)).unwrap();
    assert_eq!(server.capabilities, Capabilities::CANCEL_REASON);
    assert_eq!(client.capabilities, server.capabilities);
    for agreement in [server, client] {
        assert_eq!(agreement.limits.message_bytes_max, 1 << 20);
        assert_eq!(agreement.limits.pending_calls_max, 100);
        assert_eq!(agreement.limits.running_calls_max, 7);
    }
    let rules = server.rules(Direction::FromClient);
    assert_eq!((rules.phase, rules.cancel_reason, rules.streams), (Phase::Open, true, false));
    assert_eq!((rules.pending_calls_max, rules.message_bytes_max), (100, 1 << 20));
}

/// What one side requires and the other cannot do is refused on both ends, by name, saying whose turn it is to upgrade.
#[test]
fn missing_capabilities_are_named() {
    let welcome = Welcome::new(Limits::default(), Vec::new());
    let mut hello = hello();
    hello.supported = Capabilities::CANCEL_REASON.union(Capabilities::COMPRESSION);
    hello.required = Capabilities::COMPRESSION;
    let error = accept(&welcome, &hello).unwrap_err();
    assert_eq!(error, HandshakeError::Capabilities { missing: Capabilities::COMPRESSION, ours: true });
    let refusal = error.to_refusal();
    assert_eq!(refusal.code(), Code::FailedPrecondition);
    assert_eq!(
        refusal.message(),
        "the client requires capabilities that the server lacks: compression; upgrade the server"
    );
    let error = confirm(&hello, &Reply::Welcome(welcome)).unwrap_err();
    assert_eq!(error.to_string(), "this side requires capabilities that the peer lacks: compression; upgrade the peer");
    assert_eq!(Capabilities::from_bits(1 | 1 << 40).to_string(), "cancel-reason, bit 40");
}

/// Requiring what one does not support oneself makes no sense and is refused.
#[test]
fn requirements_must_be_supported_by_who_requires() {
    let mut payload = [0; 16];
    payload[8] = 1;
    assert!(matches!(Hello::decode(&payload), Err(HandshakeError::Malformed { .. })));
    payload[0] = 1;
    assert!(Hello::decode(&payload).is_ok());
}

/// A server's refusal reaches the client as the status that it sent.
#[test]
fn a_refusal_keeps_its_status() {
    let status = Status::resource_exhausted("full").with_limit("connections_max", 1_024);
    let error = confirm(&hello(), &Reply::Refused(status.clone())).unwrap_err();
    assert_eq!(error.to_status(), status);
}

/// The authentication payload is a secret and never shows in debug output.
#[test]
fn authentication_is_never_shown() {
    let shown = format!("{:?}", Hello { authentication: b"canary".to_vec(), ..hello() });
    assert!(!shown.contains("canary") && !shown.contains("99, 97"), "{shown}");
}

proptest! {
    /// Random payloads never panic either reader, and what one reads is bounded by the bytes there are.
    #[test]
    fn random_payloads_never_panic(mut payload in proptest::collection::vec(any::<u8>(), 0..200), plain in any::<bool>()) {
        if plain && payload.len() > 18 {
            // Nothing required, and a known tag first, so that the items are reached.
            payload[8..16].fill(0);
            payload[16] %= 40;
            payload[17] = 0;
        }
        if let Ok(hello) = Hello::decode(&payload) {
            prop_assert!(hello.authentication.len() + hello.agent.len() <= payload.len());
        }
        for flags in [0, 1] {
            let header = FrameHeader { flags, ..FrameHeader::new(crate::frame::Kind::Handshake, crate::frame::CallId::NONE, 0) };
            if let Ok(Reply::Welcome(welcome)) = Reply::decode(&header, &payload) {
                prop_assert!(welcome.services.len() <= payload.len() / 21);
            }
        }
    }
}
