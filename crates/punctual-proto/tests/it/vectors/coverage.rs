//! That the vectors and `docs/protocol.md` leave nothing out: a kind, flag, codec, outcome, violation, capability, item or code
//! that version 1 has must be in both, or who writes a peer by them never hears of it.

use super::{File, unhex};
use punctual_proto::codec::Codec;
use punctual_proto::frame::{CancelCause, GoAwayReason, Kind};
use punctual_proto::handshake::Capabilities;
use punctual_proto::status::Code;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The document with the runs of spaces that align its tables made one.
fn protocol() -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol.md");
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n").collect()
}

/// The frames of a case, with who wrote them. Where a call's id is left open, any stands in.
fn frames(case: &Value) -> Vec<Vec<u8>> {
    let texts = match case["frames"].as_array() {
        Some(frames) => frames.iter().map(|frame| frame.as_str().or(frame["hex"].as_str()).unwrap()).collect(),
        None => vec![case["hex"].as_str().unwrap()],
    };
    texts.into_iter().map(|text| unhex(&text.replace("{call}", "0500900000000000"))).collect()
}

const FILES: [&str; 4] = ["frames.json", "handshake.json", "messages.json", "streams.json"];

/// Every kind from each side that may write it, with each of its flags, and with each codec and outcome where it has those, is
/// shown by a good vector; and by a bad one, too.
#[test]
fn every_kind_and_flag_has_vectors() {
    let (mut good, mut bad) = (BTreeMap::<_, u8>::new(), BTreeSet::new());
    let (mut codecs, mut outcomes) = (BTreeSet::new(), BTreeSet::new());
    for file in FILES {
        File::read(file).each(|case, name| {
            let is_bad = !case["violation"].is_null() || !case["error"].is_null();
            let from = case["from"].as_str().unwrap();
            for frame in frames(case) {
                let &[_, _, _, _, kind, flags, ..] = frame.as_slice() else { panic!("{name} has half a header") };
                let Some(kind) = Kind::from_byte(kind) else { continue };
                if is_bad {
                    bad.insert(kind.name());
                    continue;
                }
                *good.entry((kind.name(), from.to_owned())).or_default() |= flags;
                if matches!(kind, Kind::Request | Kind::Response | Kind::Data | Kind::End) {
                    codecs.insert((kind.name(), Codec::from_bits(flags >> 2).name()));
                }
                if matches!(kind, Kind::Response | Kind::End) {
                    outcomes.insert((kind.name(), flags & 0b11));
                }
            }
        });
    }
    for (kind, from, flags) in [
        (Kind::Handshake, "client", 0),
        (Kind::Handshake, "server", 0b1),
        (Kind::Ping, "client", 0),
        (Kind::Ping, "server", 0),
        (Kind::Pong, "client", 0),
        (Kind::Pong, "server", 0),
        (Kind::Request, "client", 0b1111_1111),
        (Kind::Response, "server", 0b1111_1111),
        (Kind::Cancel, "client", 0),
        (Kind::Data, "client", 0b11_1101),
        (Kind::Data, "server", 0b11_1101),
        (Kind::End, "client", 0b10_1111),
        (Kind::End, "server", 0b10_1111),
        (Kind::Credit, "client", 0),
        (Kind::Credit, "server", 0),
        (Kind::GoAway, "client", 0),
        (Kind::GoAway, "server", 0),
        (Kind::Describe, "client", 0),
        (Kind::Describe, "server", 0b1_0011),
        (Kind::Health, "client", 0),
        (Kind::Health, "server", 0b1),
        (Kind::Fragment, "client", 0b1_0000),
        (Kind::Fragment, "server", 0b1_0000),
    ] {
        let shown = good.remove(&(kind.name(), from.to_owned()));
        assert_eq!(shown, Some(flags), "flags of {kind} from the {from} that good vectors show");
    }
    assert!(good.is_empty(), "good vectors of what nobody may send: {good:?}");
    for kind in Kind::ALL {
        assert!(bad.contains(kind.name()), "no bad vector of {kind}");
    }
    for kind in [Kind::Request, Kind::Response, Kind::Data, Kind::End] {
        for codec in Codec::ALL {
            // An error is never only bytes.
            if (kind, codec) == (Kind::End, Codec::Raw) {
                continue;
            }
            assert!(codecs.contains(&(kind.name(), codec.name())), "no vector of {kind} in {codec}");
        }
    }
    for (kind, outcome) in [Kind::Response, Kind::End].into_iter().flat_map(|kind| [0, 1, 2].map(|n| (kind, n))) {
        assert!(outcomes.contains(&(kind.name(), outcome)), "no vector of {kind} with outcome {outcome}");
    }
}

/// Every violation that section 14 names is shown by a vector, and none that it does not name.
#[test]
fn every_violation_has_vectors() {
    let protocol = protocol();
    let section = protocol.split("## 14. Violations").nth(1).unwrap().split("## 15.").next().unwrap();
    let name = |line: &str| Some(line.strip_prefix("| ")?.split(' ').next()?.to_owned());
    let named: BTreeSet<String> =
        section.lines().filter_map(name).filter(|name| !matches!(name.as_str(), "name" | "---")).collect();
    assert!(named.len() > 15, "{named:?}");
    let mut shown = BTreeSet::new();
    for file in FILES {
        File::read(file).each(|case, _| shown.extend(case["violation"].as_str().map(str::to_owned)));
    }
    let rest: Vec<&String> = named.symmetric_difference(&shown).collect();
    assert!(rest.is_empty(), "in section 14 or in a vector, and not in both: {rest:?}");
}

/// The document has every kind, capability, code and reason, each with its number.
#[test]
fn the_document_names_everything() {
    let protocol = protocol();
    let said = |text: String| assert!(protocol.contains(&text), "docs/protocol.md does not say {text:?}");
    for kind in Kind::ALL {
        said(format!("| {} | {} |", kind as u8, kind.name()));
    }
    for bit in 0..5 {
        let name = Capabilities::from_bits(1 << bit).to_string();
        said(format!("| {name} | {bit} |"));
    }
    assert_eq!(Capabilities::from_bits(1 << 5).to_string(), "bit 5", "a capability that this test does not know");
    for code in Code::ALL {
        said(format!("| {} | {} |", code as u8, code.name()));
    }
    for codec in Codec::ALL {
        said(format!("({})", codec.bits()));
        said(format!("{} {}", codec.bits(), codec.name().replace("json", "JSON")));
    }
    for (number, _) in GoAwayReason::ALL.iter().enumerate() {
        said(format!("| {number} | the"));
    }
    for (at, _) in CancelCause::ALL.iter().enumerate() {
        assert!(at < 3, "a cause that section 7 does not name");
    }
    for file in ["preface", "handshake", "frames", "messages", "streams", "status", "codecs", "contracts", "describe"] {
        said(format!("| `{file}.json` |"));
    }
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/vectors");
    let files = std::fs::read_dir(folder).unwrap().count();
    assert_eq!(files, 9, "a file of vectors that section 17 does not name");
}
