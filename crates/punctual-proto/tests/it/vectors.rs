//! The vectors of `spec/vectors`, each read and, where it is good, written: the bytes and their meaning are one.

mod codecs;
mod contracts;
mod coverage;
mod describe;
mod frames;
mod handshake;
mod messages;
mod preface;
mod status;
mod streams;

use punctual_proto::frame::{Direction, FrameRules, Phase};
use serde_json::Value;
use std::path::Path;

/// A file of vectors.
struct File {
    json: Value,
}

impl File {
    fn read(name: &str) -> File {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/vectors").join(name);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        File { json: serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}")) }
    }

    /// Runs `check` on each case. Names are unique, and there is at least one case: a file that is not read, or read past,
    /// must not look like one that passes.
    fn each(&self, mut check: impl FnMut(&Value, &str)) {
        let cases = self.json["cases"].as_array().unwrap();
        assert!(!cases.is_empty());
        let mut names = Vec::new();
        for case in cases {
            let name =
                [&case["type"], &case["codec"], &case["name"]].map(|part| part.as_str().unwrap_or_default()).join(" ");
            assert!(!names.contains(&name), "two cases are called {name:?}");
            check(case, &name);
            names.push(name);
        }
    }
}

fn text<'a>(case: &'a Value, key: &str) -> &'a str {
    case[key].as_str().unwrap_or_else(|| panic!("{key} is not a text in {case}"))
}

fn unhex(hex: &str) -> Vec<u8> {
    let digits: Vec<char> = hex.chars().filter(|digit| *digit != ' ').collect();
    assert_eq!(digits.len() % 2, 0, "half a byte in {hex}");
    let digit = |digit: char| u8::try_from(digit.to_digit(16).unwrap()).unwrap();
    digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(case: &Value, key: &str) -> Vec<u8> {
    unhex(text(case, key))
}

fn is_reads_only(case: &Value) -> bool {
    case["reads_only"].as_bool().unwrap_or(false)
}

fn from(case: &Value) -> Direction {
    match text(case, "from") {
        "client" => Direction::FromClient,
        "server" => Direction::FromServer,
        other => panic!("from {other:?}"),
    }
}

/// The file's rules with what the case says otherwise.
fn rules(file: &File, case: &Value) -> FrameRules {
    let rule =
        |name: &str| if case["rules"][name].is_null() { &file.json["rules"][name] } else { &case["rules"][name] };
    let number = |name: &str| u32::try_from(rule(name).as_u64().unwrap()).unwrap();
    assert_eq!(rule("phase"), "open");
    FrameRules {
        from: from(case),
        phase: Phase::Open,
        pending_calls_max: number("pending_calls_max"),
        cancel_reason: rule("cancel_reason").as_bool().unwrap(),
        streams: rule("streams").as_bool().unwrap(),
        compression: rule("compression").as_bool().unwrap_or(false),
        message_bytes_max: number("message_bytes_max"),
        metadata_bytes_max: number("metadata_bytes_max"),
    }
}
