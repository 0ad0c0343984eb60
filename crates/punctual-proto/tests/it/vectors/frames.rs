//! `frames.json`.

use super::{File, bytes, hex, rules, text};
use punctual_proto::codec::Codec;
use punctual_proto::describe::HealthStatus;
use punctual_proto::frame::{
    CallId, CallStreams, Cancel, CancelCause, Credit, DataHead, DescribeHead, EndHead, FrameHeader, FrameRules, GoAway,
    GoAwayReason, HEADER_BYTES, HealthFrame, Kind, Outcome, Ping, RequestHead, ResponseHead, Violation,
    fragment_header,
};
use serde_json::{Map, Value, json};
use std::num::NonZeroU64;

/// The frames of the vectors are read and written as they say, and the bad ones refused for the reason that they say.
#[test]
fn frames_are_read_and_written() {
    let file = File::read("frames.json");
    let mut kinds = Vec::new();
    file.each(|case, name| {
        let frame = bytes(case, "hex");
        match read(&frame, &rules(&file, case)) {
            Ok((kind, meaning)) => {
                assert_eq!(meaning, case["frame"], "{name}");
                let written = write(kind, &case["frame"]);
                assert_eq!(hex(&written), hex(&frame), "{name}");
                kinds.push(kind);
            }
            Err(violation) => assert_eq!(case["violation"], violation.name(), "{name}: {violation}"),
        }
    });
    for kind in Kind::ALL {
        assert_eq!(kinds.contains(&kind), kind != Kind::Handshake, "good vectors of {kind}");
    }
}

fn read(frame: &[u8], rules: &FrameRules) -> Result<(Kind, Value), Violation> {
    let (header, payload) = frame.split_first_chunk::<HEADER_BYTES>().unwrap();
    let header = FrameHeader::decode(header, rules)?;
    assert_eq!(header.len as usize, payload.len());
    let mut meaning = Map::new();
    let mut say = |key: &str, value: Value| meaning.insert(key.to_owned(), value);
    say("kind", header.kind.name().into());
    if header.call != CallId::NONE || matches!(header.kind, Kind::Credit) {
        say("call", shown_call(header.call));
    }
    match header.kind {
        Kind::Handshake => {}
        Kind::Ping | Kind::Pong => {
            say("opaque", hex(&Ping::decode(&header, payload)?.0.to_le_bytes()).into());
        }
        Kind::Request => {
            let head = RequestHead::decode(&header, payload, rules)?;
            say("method", format!("{:016x}", head.method).into());
            say("oneway", head.oneway.into());
            say("codec", head.codec.name().into());
            if let Some(budget) = head.budget_micros {
                say("budget_micros", budget.to_string().into());
            }
            if let Some(total) = head.total {
                say("total", total.into());
            }
            if let Some(plain) = head.plain {
                say("plain", plain.into());
            }
            if !head.metadata.is_empty() {
                say("metadata", hex(head.metadata).into());
            }
            if head.streams != CallStreams::NONE {
                say("argument_streams", head.streams.arguments().into());
                say("returned_stream", head.streams.returned().into());
            }
            say("body", hex(head.body).into());
        }
        Kind::Response => {
            let head = ResponseHead::decode(&header, payload, rules)?;
            say("outcome", head.outcome.name().into());
            say("codec", head.codec.name().into());
            if head.streamed {
                say("streamed", true.into());
            }
            if let Some(total) = head.total {
                say("total", total.into());
            }
            if let Some(plain) = head.plain {
                say("plain", plain.into());
            }
            if !head.metadata.is_empty() {
                say("metadata", hex(head.metadata).into());
            }
            say("body", hex(head.body).into());
        }
        Kind::Cancel => {
            say("reason", Cancel::decode(payload)?.0.map(CancelCause::name).into());
        }
        Kind::GoAway => {
            let go_away = GoAway::decode(payload)?;
            say("accepted", go_away.accepted.to_string().into());
            say("reason", go_away.reason.name().into());
            say("text", go_away.text.into());
        }
        Kind::Describe => match DescribeHead::decode(&header, payload, rules)? {
            DescribeHead::Query(service) => {
                say("service", service.into());
            }
            DescribeHead::Reply { failed, total, body } => {
                say("failed", failed.into());
                if let Some(total) = total {
                    say("total", total.into());
                }
                say("body", hex(body).into());
            }
        },
        Kind::Health => match HealthFrame::decode(&header, payload)? {
            HealthFrame::Query(service) => say("service", service.into()),
            HealthFrame::Reply(status) => say("status", serde_json::to_value(status).unwrap()),
        }
        .map_or((), drop),
        Kind::Fragment => {
            say("more", header.has_more().into());
            say("body", hex(payload).into());
        }
        Kind::Data => {
            let head = DataHead::decode(&header, payload, rules)?;
            say("stream", head.stream.into());
            say("charged", head.charged.into());
            say("codec", head.codec.name().into());
            if let Some(total) = head.total {
                say("total", total.into());
            }
            if let Some(plain) = head.plain {
                say("plain", plain.into());
            }
            say("body", hex(head.body).into());
        }
        Kind::End => {
            let head = EndHead::decode(&header, payload, rules)?;
            say("stream", head.stream.into());
            say("outcome", head.outcome.name().into());
            say("codec", head.codec.name().into());
            if !head.metadata.is_empty() {
                say("metadata", hex(head.metadata).into());
            }
            say("body", hex(head.body).into());
        }
        Kind::Credit => {
            say("stream", header.stream.into());
            say("bytes", Credit::decode(payload)?.0.into());
        }
    }
    Ok((header.kind, Value::Object(meaning)))
}

fn write(kind: Kind, meaning: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    let call = parsed_call(&meaning["call"]);
    let optional = |key: &str| if meaning[key].is_null() { Vec::new() } else { bytes(meaning, key) };
    let (metadata, body) = (optional("metadata"), optional("body"));
    let number = |key: &str| meaning[key].as_u64().map(|number| u32::try_from(number).unwrap());
    let (total, plain) = (number("total"), number("plain"));
    let stream = u16::try_from(meaning["stream"].as_u64().unwrap_or(0)).unwrap();
    match kind {
        Kind::Handshake => {}
        Kind::Ping | Kind::Pong => {
            let ping = Ping(u64::from_le_bytes(bytes(meaning, "opaque").try_into().unwrap()));
            if kind == Kind::Ping { ping.put(&mut out) } else { ping.put_pong(&mut out) }
        }
        Kind::Request => RequestHead {
            method: u64::from_str_radix(text(meaning, "method"), 16).unwrap(),
            budget_micros: meaning["budget_micros"].as_str().map(|micros| micros.parse::<NonZeroU64>().unwrap()),
            oneway: meaning["oneway"].as_bool().unwrap(),
            codec: parsed_codec(meaning),
            metadata: &metadata,
            streams: CallStreams::new(
                u16::try_from(meaning["argument_streams"].as_u64().unwrap_or(0)).unwrap(),
                meaning["returned_stream"].as_bool().unwrap_or(false),
            ),
            total,
            plain,
            body: &body,
        }
        .put(call, &mut out),
        Kind::Response => {
            let (outcome, codec) = (parsed_outcome(meaning), parsed_codec(meaning));
            let streamed = meaning["streamed"].as_bool().unwrap_or(false);
            ResponseHead { outcome, codec, metadata: &metadata, streamed, total, plain, body: &body }
                .put(call, &mut out);
        }
        Kind::Cancel => {
            let cause = CancelCause::ALL.into_iter().find(|cause| meaning["reason"] == cause.name());
            assert_eq!(cause.is_none(), meaning["reason"].is_null());
            Cancel(cause).put(call, &mut out);
        }
        Kind::GoAway => {
            let reason = GoAwayReason::ALL.into_iter().find(|reason| meaning["reason"] == reason.name()).unwrap();
            let accepted = text(meaning, "accepted").parse().unwrap();
            GoAway { accepted, reason, text: text(meaning, "text") }.put(&mut out);
        }
        Kind::Describe => match meaning["failed"].as_bool() {
            Some(failed) => DescribeHead::Reply { failed, total, body: &body }.put(call, &mut out),
            None => DescribeHead::Query(text(meaning, "service")).put(call, &mut out),
        },
        Kind::Health => match meaning["service"].as_str() {
            Some(service) => HealthFrame::Query(service).put(call, &mut out),
            None => {
                let status: HealthStatus = serde_json::from_value(meaning["status"].clone()).unwrap();
                HealthFrame::Reply(status).put(call, &mut out);
            }
        },
        Kind::Fragment => {
            let len = u32::try_from(body.len()).unwrap();
            out.extend(fragment_header(call, len, meaning["more"].as_bool().unwrap()).encode());
            out.extend(body);
        }
        Kind::Data => {
            let (charged, codec) = (meaning["charged"].as_bool().unwrap(), parsed_codec(meaning));
            DataHead { stream, charged, codec, total, plain, body: &body }.put(call, &mut out);
        }
        Kind::End => {
            let (outcome, codec) = (parsed_outcome(meaning), parsed_codec(meaning));
            EndHead { stream, outcome, codec, metadata: &metadata, body: &body }.put(call, &mut out);
        }
        Kind::Credit => Credit(u32::try_from(meaning["bytes"].as_u64().unwrap()).unwrap()).put(call, stream, &mut out),
    }
    out
}

fn shown_call(call: CallId) -> Value {
    if call.is_pending() {
        json!({"slot": call.slot(), "generation": call.generation()})
    } else {
        json!({"counter": call.as_u64() & (u64::MAX >> 1)})
    }
}

fn parsed_call(meaning: &Value) -> CallId {
    if meaning.is_null() {
        CallId::NONE
    } else if let Some(counter) = meaning["counter"].as_u64() {
        CallId::counted(counter)
    } else {
        let slot = u32::try_from(meaning["slot"].as_u64().unwrap()).unwrap();
        CallId::pending(slot, meaning["generation"].as_u64().unwrap())
    }
}

fn parsed_outcome(meaning: &Value) -> Outcome {
    let outcomes = [Outcome::Ok, Outcome::App, Outcome::Status];
    outcomes.into_iter().find(|outcome| meaning["outcome"] == outcome.name()).unwrap()
}

fn parsed_codec(meaning: &Value) -> Codec {
    Codec::ALL.into_iter().find(|codec| meaning["codec"] == codec.name()).unwrap()
}
