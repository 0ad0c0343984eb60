//! `handshake.json`.

use super::{File, bytes, from, hex, is_reads_only, status, text, unhex};
use punctual_proto::frame::{Direction, FrameHeader, FrameRules, HEADER_BYTES};
use punctual_proto::handshake::{Capabilities, HandshakeError, Hello, Profile, Reply, ServiceEntry, Welcome};
use punctual_proto::limits::Limits;
use serde_json::{Value, json};

/// The handshake frames of the vectors are read and written as they say, and the bad ones refused for the reason that they
/// say.
#[test]
fn handshakes_are_read_and_written() {
    File::read("handshake.json").each(|case, name| {
        let frame = bytes(case, "hex");
        match read(&frame, from(case)) {
            Ok((key, meaning)) => {
                assert_eq!(meaning, case[key], "{name}");
                let written = write(key, &case[key]);
                assert_eq!(written == frame, !is_reads_only(case), "{name}: {}", hex(&written));
            }
            Err(error) => assert_eq!(case["error"], error.name(), "{name}: {error}"),
        }
    });
}

fn read(frame: &[u8], from: Direction) -> Result<(&'static str, Value), HandshakeError> {
    let (header, payload) = frame.split_first_chunk::<HEADER_BYTES>().unwrap();
    let header = FrameHeader::decode(header, &FrameRules::handshake(from))?;
    assert_eq!(header.len as usize, payload.len());
    if from == Direction::FromClient {
        let hello = Hello::decode(payload)?;
        let mut meaning = side(hello.supported, hello.required, &hello.limits, &hello.agent);
        say_profiles(&mut meaning, &hello.compression);
        meaning["authentication"] = hex(&hello.authentication).into();
        return Ok(("hello", meaning));
    }
    Ok(match Reply::decode(&header, payload)? {
        Reply::Welcome(welcome) => {
            let mut meaning = side(welcome.supported, welcome.required, &welcome.limits, &welcome.agent);
            say_profiles(&mut meaning, &welcome.compression);
            let entry = |entry: &ServiceEntry| json!({"name": entry.name, "contract": hex(&entry.contract)});
            meaning["services"] = welcome.services.iter().map(entry).collect();
            ("welcome", meaning)
        }
        Reply::Refused(refusal) => ("refused", status::shown(&refusal)),
    })
}

fn write(key: &str, meaning: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    match key {
        "hello" => {
            let mut hello = Hello::new(limits(&meaning["limits"]));
            hello.supported = Capabilities::from_bits(meaning["supported"].as_u64().unwrap());
            hello.required = Capabilities::from_bits(meaning["required"].as_u64().unwrap());
            hello.compression = profiles(meaning);
            hello.agent = text(meaning, "agent").to_owned();
            hello.authentication = bytes(meaning, "authentication");
            hello.put(&mut out).unwrap();
        }
        "welcome" => {
            let entry = |entry: &Value| ServiceEntry {
                name: text(entry, "name").to_owned(),
                contract: unhex(text(entry, "contract")).try_into().unwrap(),
            };
            let services = meaning["services"].as_array().unwrap().iter().map(entry).collect();
            let mut welcome = Welcome::new(limits(&meaning["limits"]), services);
            welcome.supported = Capabilities::from_bits(meaning["supported"].as_u64().unwrap());
            welcome.required = Capabilities::from_bits(meaning["required"].as_u64().unwrap());
            welcome.compression = profiles(meaning);
            welcome.agent = text(meaning, "agent").to_owned();
            Reply::Welcome(welcome).put(&mut out).unwrap();
        }
        _ => Reply::Refused(status::parsed(meaning)).put(&mut out).unwrap(),
    }
    out
}

fn side(supported: Capabilities, required: Capabilities, limits: &Limits, agent: &str) -> Value {
    json!({
        "supported": supported.bits(),
        "required": required.bits(),
        "limits": {
            "message_bytes_max": limits.message_bytes_max,
            "metadata_bytes_max": limits.metadata_bytes_max,
            "pending_calls_max": limits.pending_calls_max,
            "running_calls_max": limits.running_calls_max,
            "streams_max": limits.streams_max,
            "stream_window_bytes": limits.stream_window_bytes,
            "connection_window_bytes": limits.connection_window_bytes,
        },
        "agent": agent,
    })
}

/// The key is there where the item is.
fn say_profiles(meaning: &mut Value, profiles: &[Profile]) {
    if !profiles.is_empty() {
        meaning["compression"] = profiles.iter().map(|profile| profile.0).collect();
    }
}

fn profiles(meaning: &Value) -> Vec<Profile> {
    let numbers = meaning["compression"].as_array().map_or(&[][..], Vec::as_slice);
    numbers.iter().map(|number| Profile(u8::try_from(number.as_u64().unwrap()).unwrap())).collect()
}

fn limits(meaning: &Value) -> Limits {
    let number = |name: &str| u32::try_from(meaning[name].as_u64().unwrap()).unwrap();
    let mut limits = Limits::default();
    limits.message_bytes_max = number("message_bytes_max");
    limits.metadata_bytes_max = number("metadata_bytes_max");
    limits.pending_calls_max = number("pending_calls_max");
    limits.running_calls_max = number("running_calls_max");
    limits.streams_max = number("streams_max");
    limits.stream_window_bytes = number("stream_window_bytes");
    limits.connection_window_bytes = number("connection_window_bytes");
    limits
}
