//! Tests of `frame`.

use super::*;
use crate::codec::Codec;
use crate::describe::HealthStatus;
use crate::handshake::{HELLO_BYTES_MAX, REPLY_BYTES_MAX};
use proptest::prelude::*;
use std::num::NonZeroU64;
use std::time::Duration;

fn rules(from: Direction) -> FrameRules {
    FrameRules {
        from,
        phase: Phase::Open,
        pending_calls_max: 8,
        cancel_reason: true,
        streams: false,
        compression: false,
        message_bytes_max: 100_000,
        metadata_bytes_max: 1_024,
    }
}

fn split(frame: &[u8]) -> ([u8; HEADER_BYTES], &[u8]) {
    let (header, payload) = frame.split_first_chunk::<HEADER_BYTES>().unwrap();
    (*header, payload)
}

fn refused(header: FrameHeader, rules: &FrameRules) -> &'static str {
    FrameHeader::decode(&header.encode(), rules).map_or_else(|violation| violation.name(), |_| "accepted")
}

/// A header of each kind that the rules accept from that side.
fn acceptable(kind: Kind, from: Direction) -> FrameHeader {
    let call = CallId::pending(3, 9);
    let counted = CallId::counted(5);
    let (call, len, flags) = match (kind, from) {
        (Kind::Ping | Kind::Pong, _) => (CallId::NONE, 8, 0),
        (Kind::GoAway, _) => (CallId::NONE, 9, 0),
        (Kind::Request, _) => (call, 8, 0),
        (Kind::Cancel, _) => (call, 1, 0),
        (Kind::Credit, _) => (call, 4, 0),
        (Kind::Describe | Kind::Health, Direction::FromClient) => (counted, 1, 0),
        (Kind::Describe | Kind::Health, Direction::FromServer) => (counted, 1, 1),
        (Kind::Handshake, _) => (CallId::NONE, 16, 0),
        _ => (call, 1, 0),
    };
    // The client's streams are its arguments, and the server grants for those.
    let stream = match (kind, from) {
        (Kind::Data | Kind::End, Direction::FromClient) | (Kind::Credit, Direction::FromServer) => 1,
        _ => 0,
    };
    // A clean end has nothing behind it.
    let len = if kind == Kind::End { 0 } else { len };
    FrameHeader { flags, stream, ..FrameHeader::new(kind, call, len) }
}

/// Each kind is taken only in its phase and from its side; the stream kinds only once they were agreed on.
#[test]
fn kinds_have_a_phase_and_a_direction() {
    for from in [Direction::FromClient, Direction::FromServer] {
        let handshake = FrameRules::handshake(from);
        let streams = FrameRules { streams: true, ..rules(from) };
        for kind in Kind::ALL {
            let header = acceptable(kind, from);
            let first = if kind == Kind::Handshake { "accepted" } else { "unexpected_kind" };
            assert_eq!(refused(header, &handshake), first, "{kind} first, {from:?}");
            let wrong_side = match from {
                Direction::FromClient => kind == Kind::Response,
                Direction::FromServer => matches!(kind, Kind::Request | Kind::Cancel),
            };
            let never = kind == Kind::Handshake || wrong_side;
            let open = if never || kind.is_stream() { "unexpected_kind" } else { "accepted" };
            assert_eq!(refused(header, &rules(from)), open, "{kind} {from:?}");
            let with_streams = if never { "unexpected_kind" } else { "accepted" };
            assert_eq!(refused(header, &streams), with_streams, "{kind} {from:?} with streams");
        }
    }
}

/// Every kind byte and every flag byte that is not listed is refused.
#[test]
fn unknown_kinds_and_flags_are_refused() {
    for byte in 0..=u8::MAX {
        let mut header = acceptable(Kind::Ping, Direction::FromClient).encode();
        header[4] = byte;
        let known = (1..=13).contains(&byte);
        let unknown =
            FrameHeader::decode(&header, &rules(Direction::FromClient)) == Err(Violation::UnknownKind { kind: byte });
        assert_eq!(unknown, !known, "kind {byte}");
    }
    let listed = |kind, from, flags: u8| match (kind, from) {
        (Kind::Request, _) => flags & 0b1000_0000 == 0,
        (Kind::Response, _) => {
            let (outcome, codec) = (flags & 0b11, flags >> 2 & 0b11);
            let opens = flags & 0b100_0000 != 0;
            flags & 0b1000_0000 == 0
                && outcome != 3
                && (outcome != 2 || codec == 0)
                && (!opens || flags & !0b110_0000 == 0)
        }
        (Kind::Data, _) => flags & !0b1_1101 == 0,
        (Kind::End, _) => {
            let (outcome, codec) = (flags & 0b11, flags >> 2 & 0b11);
            flags & !0b10_1111 == 0 && outcome != 3 && (outcome == 1 || codec == 0)
        }
        (Kind::Fragment, _) => flags & !0b1_0000 == 0,
        (Kind::Describe, Direction::FromServer) => flags & !0b1_0011 == 0 && flags & 1 == 1,
        (Kind::Health, Direction::FromServer) => flags == 1,
        _ => flags == 0,
    };
    for from in [Direction::FromClient, Direction::FromServer] {
        let rules = FrameRules { streams: true, ..rules(from) };
        for kind in Kind::ALL {
            let header = acceptable(kind, from);
            if refused(header, &rules) != "accepted" {
                continue;
            }
            for flags in 0..=u8::MAX {
                let oneway = kind == Kind::Request && flags & 0b10_0000 != 0;
                let call = if oneway { CallId::counted(1) } else { header.call };
                // Long enough for every optional field.
                let has_fields =
                    matches!(kind, Kind::Request | Kind::Response | Kind::Describe | Kind::Data | Kind::End);
                let len = if has_fields { 100 } else { header.len };
                let accepted = refused(FrameHeader { flags, len, call, ..header }, &rules) == "accepted";
                assert_eq!(accepted, listed(kind, from, flags), "{kind} {from:?} flags {flags:#010b}");
            }
        }
    }
}

/// The cap on a payload is 4 KiB before a client is known, 64 KiB from a server, and 64 KiB once open; each is taken at
/// its limit and refused one above, as is the largest length there is.
#[test]
fn payload_caps_hold_at_their_edges() {
    let hello = FrameRules::handshake(Direction::FromClient);
    let reply = FrameRules::handshake(Direction::FromServer);
    let open = rules(Direction::FromClient);
    for (kind, rules, max) in [
        (Kind::Handshake, &hello, HELLO_BYTES_MAX),
        (Kind::Handshake, &reply, REPLY_BYTES_MAX),
        (Kind::Request, &open, PAYLOAD_BYTES_MAX),
        (Kind::Fragment, &open, PAYLOAD_BYTES_MAX),
        (Kind::GoAway, &open, 9 + 1_024),
        (Kind::Describe, &open, 255),
        (Kind::Health, &open, 255),
    ] {
        let header = acceptable(kind, rules.from);
        assert_eq!(refused(FrameHeader { len: max, ..header }, rules), "accepted", "{kind}");
        assert_eq!(refused(FrameHeader { len: max + 1, ..header }, rules), "payload_too_long", "{kind}");
        assert_eq!(refused(FrameHeader { len: u32::MAX, ..header }, rules), "payload_too_long", "{kind}");
    }
}

/// A length that cannot hold the fields that its kind and flags promise is refused from the header alone.
#[test]
fn payloads_shorter_than_their_fields_are_refused() {
    let client = rules(Direction::FromClient);
    for (kind, flags, least) in [
        (Kind::Request, 0, 8),
        (Kind::Request, 0b1, 16),
        (Kind::Request, 0b11, 20),
        (Kind::Request, 0b1_0011, 24),
        (Kind::Ping, 0, 8),
        (Kind::GoAway, 0, 9),
        (Kind::Fragment, 0, 1),
        (Kind::Cancel, 0, 1),
    ] {
        let header = FrameHeader { flags, ..acceptable(kind, Direction::FromClient) };
        assert_eq!(refused(FrameHeader { len: least, ..header }, &client), "accepted", "{kind} {flags:#b}");
        assert_eq!(
            refused(FrameHeader { len: least - 1, ..header }, &client),
            "payload_too_short",
            "{kind} {flags:#b}"
        );
    }
    let without_reason = FrameRules { cancel_reason: false, ..client };
    let cancel = acceptable(Kind::Cancel, Direction::FromClient);
    assert_eq!(refused(FrameHeader { len: 0, ..cancel }, &without_reason), "accepted");
    assert_eq!(refused(cancel, &without_reason), "payload_too_long");
}

/// Ids are where they belong: 0 in frames about no call, a slot below the agreed limit, the top bit by shape, and a
/// stream only on stream frames.
#[test]
fn ids_are_checked() {
    let client = rules(Direction::FromClient);
    let with = |kind, call| FrameHeader { call, ..acceptable(kind, Direction::FromClient) };
    assert_eq!(refused(with(Kind::Ping, CallId::counted(0)), &client), "call_id");
    assert_eq!(refused(with(Kind::Request, CallId::pending(7, 1)), &client), "accepted");
    assert_eq!(refused(with(Kind::Request, CallId::pending(8, 1)), &client), "call_id");
    assert_eq!(refused(with(Kind::Cancel, CallId::pending(8, 1)), &client), "call_id");
    assert_eq!(refused(with(Kind::Request, CallId::counted(1)), &client), "call_id");
    assert_eq!(refused(FrameHeader { flags: 1 << 5, ..with(Kind::Request, CallId::counted(1)) }, &client), "accepted");
    assert_eq!(
        refused(FrameHeader { flags: 1 << 5, ..with(Kind::Request, CallId::pending(1, 1)) }, &client),
        "call_id"
    );
    assert_eq!(refused(with(Kind::Cancel, CallId::counted(1)), &client), "accepted");
    assert_eq!(refused(with(Kind::Describe, CallId::pending(1, 1)), &client), "call_id");
    let streamed = FrameHeader { stream: 1, ..acceptable(Kind::Request, Direction::FromClient) };
    assert_eq!(refused(streamed, &client), "stream_id");
    let data = FrameHeader { stream: 1, ..acceptable(Kind::Data, Direction::FromClient) };
    assert_eq!(refused(data, &FrameRules { streams: true, ..client }), "accepted");
}

/// An id gives back its slot and generation, and a generation too large for its bits never sets the top bit.
#[test]
fn call_ids_keep_slot_and_generation() {
    let call = CallId::pending(65_535, (1 << 43) - 1);
    assert_eq!((call.slot(), call.generation(), call.is_pending()), (65_535, (1 << 43) - 1, true));
    assert!(CallId::pending(1, u64::MAX).is_pending());
    assert!(!CallId::counted(1).is_pending());
    assert_eq!(CallId::pending(2, 7).to_string(), "2.7");
    assert_eq!(CallId::counted(9).to_string(), "#9");
}

/// A budget is rounded up to microseconds and never 0 while anything is left; a budget of 0 is refused on the wire.
#[test]
fn budgets_round_up_and_are_never_zero() {
    let micros = |nanos| RequestHead::budget(Duration::from_nanos(nanos)).map(NonZeroU64::get);
    assert_eq!([0, 1, 999, 1_000, 1_001].map(micros), [None, Some(1), Some(1), Some(1), Some(2)]);
    assert_eq!(RequestHead::budget(Duration::MAX).map(NonZeroU64::get), Some(u64::MAX));

    let mut frame = Vec::new();
    let head = request(&[], b"");
    RequestHead { budget_micros: NonZeroU64::new(1), ..head }.put(CallId::pending(1, 1), &mut frame);
    frame[HEADER_BYTES + 8] = 0;
    let (header, payload) = split(&frame);
    let rules = rules(Direction::FromClient);
    let header = FrameHeader::decode(&header, &rules).unwrap();
    let violation = RequestHead::decode(&header, payload, &rules).unwrap_err();
    assert!(matches!(violation, Violation::FieldValue { field: "budget", value: 0, .. }));
}

fn request<'a>(metadata: &'a [u8], body: &'a [u8]) -> RequestHead<'a> {
    RequestHead {
        method: 7,
        budget_micros: None,
        oneway: false,
        codec: Codec::Compact,
        metadata,
        streams: CallStreams::NONE,
        total: None,
        plain: None,
        body,
    }
}

/// The prefix that callers build on the stack holds every fixed field.
#[test]
fn the_longest_prefix_is_known() {
    let streams = CallStreams::new(1, true);
    let head = RequestHead {
        budget_micros: NonZeroU64::new(1),
        total: Some(9),
        plain: Some(9),
        streams,
        ..request(b"m", b"")
    };
    assert_eq!(head.prefix(CallId::NONE, 0).as_slice().len(), HEAD_BYTES_MAX);
}

/// Metadata and bodies at their limits are taken; one byte more, or an empty metadata field, is refused.
#[test]
fn metadata_and_body_limits_hold_at_their_edges() {
    let rules = FrameRules { message_bytes_max: 2_000, ..rules(Direction::FromClient) };
    let judge = |head: RequestHead<'_>| {
        let mut frame = Vec::new();
        head.put(CallId::pending(1, 1), &mut frame);
        let (header, payload) = split(&frame);
        let header = FrameHeader::decode(&header, &rules).unwrap();
        RequestHead::decode(&header, payload, &rules).map_or_else(|violation| violation.name(), |_| "accepted")
    };
    let bytes = vec![1; 2_001];
    assert_eq!(judge(request(&bytes[..1_024], b"")), "accepted");
    assert_eq!(judge(request(&bytes[..1_025], b"")), "field_too_long");
    assert_eq!(judge(request(b"", &bytes[..2_000])), "accepted");
    assert_eq!(judge(request(b"", &bytes[..2_001])), "field_too_long");
    assert_eq!(judge(RequestHead { total: Some(2_000), ..request(b"", &bytes[..10]) }), "accepted");
    assert_eq!(judge(RequestHead { total: Some(2_001), ..request(b"", &bytes[..10]) }), "field_too_long");
    assert_eq!(judge(RequestHead { total: Some(10), ..request(b"", &bytes[..10]) }), "fragment_sum");

    let mut frame = Vec::new();
    request(b"m", b"").put(CallId::pending(1, 1), &mut frame);
    frame[HEADER_BYTES + 8] = 0;
    let (header, payload) = split(&frame);
    let header = FrameHeader::decode(&header, &rules).unwrap();
    let violation = RequestHead::decode(&header, payload, &rules).unwrap_err();
    assert!(matches!(violation, Violation::FieldValue { field: "metadata length", .. }));
}

/// A status gets through whatever small limit was agreed for messages.
#[test]
fn a_status_is_not_bound_by_the_message_limit() {
    let rules = FrameRules { message_bytes_max: 1_024, ..rules(Direction::FromServer) };
    let body = vec![0; 4_000];
    let judge = |outcome| {
        let head = ResponseHead {
            outcome,
            codec: Codec::Compact,
            metadata: &[],
            streamed: false,
            total: None,
            plain: None,
            body: &body,
        };
        let mut frame = Vec::new();
        head.put(CallId::pending(1, 1), &mut frame);
        let (header, payload) = split(&frame);
        let header = FrameHeader::decode(&header, &rules).unwrap();
        ResponseHead::decode(&header, payload, &rules).is_ok()
    };
    assert!(judge(Outcome::Status));
    assert!(!judge(Outcome::Ok));
    assert!(u32::try_from(crate::status::Status::WIRE_BYTES_MAX).is_ok());
}

/// The text of a go-away and the name in a query are cut at their limit, on a character boundary.
#[test]
fn texts_are_cut_to_their_field() {
    let mut frame = Vec::new();
    GoAway { accepted: 3, reason: GoAwayReason::Age, text: &"€".repeat(1_000) }.put(&mut frame);
    let (header, payload) = split(&frame);
    FrameHeader::decode(&header, &rules(Direction::FromServer)).unwrap();
    assert_eq!(GoAway::decode(payload).unwrap().text.len(), 1_023);

    frame.clear();
    HealthFrame::Query(&"s".repeat(300)).put(CallId::counted(1), &mut frame);
    let (header, payload) = split(&frame);
    let header = FrameHeader::decode(&header, &rules(Direction::FromClient)).unwrap();
    assert_eq!(HealthFrame::decode(&header, payload).unwrap(), HealthFrame::Query(&"s".repeat(255)));
}

/// A violation is one line that names the kind, the value and what was expected.
#[test]
fn violations_say_what_where_and_what_was_expected() {
    let header = FrameHeader { len: 70_000, ..acceptable(Kind::Request, Direction::FromClient) };
    let violation = FrameHeader::decode(&header.encode(), &rules(Direction::FromClient)).unwrap_err();
    assert_eq!(violation.to_string(), "a REQUEST frame announces 70000 payload bytes; the limit here is 65536");
    let mut bytes = header.encode();
    bytes[4] = 99;
    let violation = FrameHeader::decode(&bytes, &rules(Direction::FromClient)).unwrap_err();
    assert_eq!(violation.to_string(), "frame kind 99 is unknown; protocol version 1 has 1 to 13");
}

proptest! {
    /// Any request that can be written is read back the same, and any cut of its payload is refused where it cuts a field.
    #[test]
    fn requests_round_trip(
        method in any::<u64>(),
        budget in any::<Option<NonZeroU64>>(),
        oneway in any::<bool>(),
        arguments in 0u16..40,
        returned in any::<bool>(),
        codec in 0u8..4,
        metadata in proptest::collection::vec(any::<u8>(), 0..64),
        more in proptest::option::of(1u32..1_000),
        plain in proptest::option::of(1u32..2_000),
        body in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        let total = more.map(|more| body.len() as u32 + more);
        let codec = Codec::from_bits(codec);
        let streams = CallStreams::new(arguments, returned);
        let head =
            RequestHead { method, budget_micros: budget, oneway, codec, metadata: &metadata, streams, total, plain, body: &body };
        let call = if oneway { CallId::counted(method >> 1) } else { CallId::pending(5, method) };
        let mut frame = Vec::new();
        head.put(call, &mut frame);
        let rules = FrameRules { streams: true, compression: true, ..rules(Direction::FromClient) };
        let (header, payload) = split(&frame);
        let header = FrameHeader::decode(&header, &rules).unwrap();
        prop_assert_eq!(header.len as usize, payload.len());
        prop_assert_eq!((header.call, header.has_more()), (call, total.is_some()));
        prop_assert_eq!(RequestHead::decode(&header, payload, &rules).unwrap(), head);
        for end in 0..head.head_bytes() {
            prop_assert!(RequestHead::decode(&header, &payload[..end], &rules).is_err(), "cut at {}", end);
        }
    }

    /// Any response that can be written is read back the same, and any cut of its payload is refused where it cuts a field.
    #[test]
    fn responses_round_trip(
        outcome in prop_oneof![Just(Outcome::Ok), Just(Outcome::App), Just(Outcome::Status)],
        codec in 0u8..4,
        metadata in proptest::collection::vec(any::<u8>(), 0..64),
        more in proptest::option::of(1u32..1_000),
        plain in proptest::option::of(1u32..2_000),
        body in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        let plain = plain.filter(|_| outcome != Outcome::Status);
        let codec = if outcome == Outcome::Status { Codec::Compact } else { Codec::from_bits(codec) };
        let total = more.map(|more| body.len() as u32 + more);
        let head = ResponseHead { outcome, codec, metadata: &metadata, streamed: false, total, plain, body: &body };
        let mut frame = Vec::new();
        head.put(CallId::pending(2, 3), &mut frame);
        let rules = FrameRules { compression: true, ..rules(Direction::FromServer) };
        let (header, payload) = split(&frame);
        let header = FrameHeader::decode(&header, &rules).unwrap();
        prop_assert_eq!((header.len as usize, header.outcome()), (payload.len(), Some(outcome)));
        prop_assert_eq!(ResponseHead::decode(&header, payload, &rules).unwrap(), head);
        for end in 0..head.head_bytes() {
            prop_assert!(ResponseHead::decode(&header, &payload[..end], &rules).is_err(), "cut at {}", end);
        }
    }

    /// Items and ends of streams that can be written are read back the same, and a cut of their fields is refused.
    #[test]
    fn streams_round_trip(
        stream in 1u16..500,
        charged in any::<bool>(),
        outcome in prop_oneof![Just(Outcome::Ok), Just(Outcome::App), Just(Outcome::Status)],
        codec in 0u8..4,
        metadata in proptest::collection::vec(any::<u8>(), 0..64),
        more in proptest::option::of(1u32..1_000),
        plain in proptest::option::of(1u32..2_000),
        body in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        let rules = FrameRules { streams: true, compression: true, ..rules(Direction::FromClient) };
        let (codec, total) = (Codec::from_bits(codec), more.map(|more| body.len() as u32 + more));
        let item = DataHead { stream, charged, codec, total, plain, body: &body };
        let mut frame = Vec::new();
        item.put(CallId::pending(2, 3), &mut frame);
        let (header, payload) = split(&frame);
        let header = FrameHeader::decode(&header, &rules).unwrap();
        prop_assert_eq!((header.len as usize, header.has_more()), (payload.len(), total.is_some()));
        prop_assert_eq!(DataHead::decode(&header, payload, &rules).unwrap(), item);
        for end in 0..item.head_bytes() {
            prop_assert!(DataHead::decode(&header, &payload[..end], &rules).is_err(), "cut at {}", end);
        }
        let codec = if outcome == Outcome::App { codec } else { Codec::Compact };
        let body: &[u8] = if outcome == Outcome::Ok { &[] } else { &body };
        let end = EndHead { stream, outcome, codec, metadata: &metadata, body };
        let mut frame = Vec::new();
        end.put(CallId::pending(2, 3), &mut frame);
        let (header, payload) = split(&frame);
        let header = FrameHeader::decode(&header, &rules).unwrap();
        prop_assert_eq!(EndHead::decode(&header, payload, &rules).unwrap(), end);
    }

    /// Describe and health frames of both sides round trip.
    #[test]
    fn queries_round_trip(name in "[a-zA-Z]{0,40}", failed in any::<bool>(), more in proptest::option::of(1u32..99)) {
        let total = more.map(|more| name.len() as u32 + more);
        let describe = [DescribeHead::Query(&name), DescribeHead::Reply { failed, total, body: name.as_bytes() }];
        let health = [HealthFrame::Query(&name), HealthFrame::Reply(HealthStatus::Draining)];
        for (from, describe, health) in
            [(Direction::FromClient, describe[0], health[0]), (Direction::FromServer, describe[1], health[1])]
        {
            let rules = rules(from);
            let mut frame = Vec::new();
            describe.put(CallId::counted(4), &mut frame);
            let (header, payload) = split(&frame);
            let header = FrameHeader::decode(&header, &rules).unwrap();
            prop_assert_eq!(DescribeHead::decode(&header, payload, &rules).unwrap(), describe);
            let mut frame = Vec::new();
            health.put(CallId::counted(4), &mut frame);
            let (header, payload) = split(&frame);
            let header = FrameHeader::decode(&header, &rules).unwrap();
            prop_assert_eq!(HealthFrame::decode(&header, payload).unwrap(), health);
        }
    }

    /// No header and no payload, however made up, panics a reader; what a header is accepted with is within every cap.
    #[test]
    fn random_frames_never_panic(
        mut bytes in any::<[u8; HEADER_BYTES]>(),
        kind in 0u8..16,
        short in any::<bool>(),
        payload in proptest::collection::vec(any::<u8>(), 0..64),
        server in any::<bool>(),
        streams in any::<bool>(),
        compression in any::<bool>(),
    ) {
        bytes[4] = kind;
        if short {
            // Near enough to a frame that its rules are reached.
            bytes[..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
            bytes[6] &= 1;
            bytes[7] = 0;
            bytes[9..11].fill(0);
        }
        let from = if server { Direction::FromServer } else { Direction::FromClient };
        let rules = FrameRules { streams, compression, ..rules(from) };
        if let Ok(header) = FrameHeader::decode(&bytes, &rules) {
            prop_assert_eq!(header.check(&rules), Ok(()), "the short way lets through what the long way refuses");
            prop_assert!(header.len <= rules.payload_bytes_max());
            prop_assert_eq!(header.encode(), bytes);
        }
        // Readers are safe even for a header that was never judged.
        if let Some(kind) = Kind::from_byte(kind) {
            let header = FrameHeader { kind, flags: bytes[5], ..FrameHeader::new(kind, CallId::NONE, 0) };
            let _ = RequestHead::decode(&header, &payload, &rules);
            let _ = ResponseHead::decode(&header, &payload, &rules);
            let _ = DescribeHead::decode(&header, &payload, &rules);
            let _ = DataHead::decode(&header, &payload, &rules);
            let _ = EndHead::decode(&header, &payload, &rules);
            let _ = HealthFrame::decode(&header, &payload);
            let _ = (Ping::decode(&header, &payload), Cancel::decode(&payload), GoAway::decode(&payload), Credit::decode(&payload));
        }
    }
}
