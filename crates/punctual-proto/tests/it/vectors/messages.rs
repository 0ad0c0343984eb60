//! `messages.json`.

use super::{File, hex, rules, unhex};
use punctual_proto::limits::Limits;
use punctual_proto::session::{Item, Progress, Reader};
use serde_json::Value;

/// The frames of each case come to the messages, or the violation, that the case says, however the bytes are cut on their
/// way.
#[test]
fn messages_are_assembled() {
    let file = File::read("messages.json");
    file.each(|case, name| {
        let frames = case["frames"].as_array().unwrap();
        let bytes: Vec<u8> = frames.iter().flat_map(|frame| unhex(frame.as_str().unwrap())).collect();
        for step in [bytes.len(), 7, 1] {
            let mut reader = Reader::new(rules(&file, case), &Limits::default(), usize::MAX);
            match assemble(&mut reader, &bytes, step) {
                Ok(whole) => assert_eq!(Value::from(whole), case["whole"], "{name}, {step} bytes at a time"),
                Err(violation) => assert_eq!(case["violation"], violation, "{name}, {step} bytes at a time"),
            }
        }
    });
}

/// Feeds the bytes in steps and gives the bodies of the messages that came in pieces, in the order of their ends.
fn assemble(reader: &mut Reader, bytes: &[u8], step: usize) -> Result<Vec<String>, &'static str> {
    let (mut start, mut end) = (0, 0);
    let mut whole = Vec::new();
    while end < bytes.len() {
        end = bytes.len().min(end + step);
        let (mut items, mut progress) = (Vec::new(), Progress::default());
        let outcome = reader.read(&bytes[start..end], usize::MAX, &mut items, &mut progress);
        start += progress.consumed;
        for item in items {
            if let Item::Whole(message) = item {
                whole.push(hex(&message.2));
            }
        }
        outcome.map_err(|violation| violation.name())?;
    }
    assert_eq!(start, end, "bytes are left over");
    Ok(whole)
}
