//! `preface.json`.

use super::{File, bytes, text};
use punctual_proto::handshake::{HandshakeError, PREFACE, Preface, VERSION, read_preface};

/// The first bytes of a connection are judged as the vectors say, and what we send is judged complete.
#[test]
fn prefaces_are_judged() {
    File::read("preface.json").each(|case, name| {
        let verdict = read_preface(&bytes(case, "hex"));
        match text(case, "result") {
            "complete" => assert_eq!(verdict, Ok(Preface::Complete), "{name}"),
            "incomplete" => {
                let missing = usize::try_from(case["missing"].as_u64().unwrap()).unwrap();
                assert_eq!(verdict, Ok(Preface::Incomplete(missing)), "{name}");
            }
            "version" => {
                let theirs = u8::try_from(case["theirs"].as_u64().unwrap()).unwrap();
                assert_eq!(verdict, Err(HandshakeError::Version { ours: VERSION, theirs }), "{name}");
            }
            "not_punctual" => match verdict {
                Err(HandshakeError::NotPunctual { looks_like }) => {
                    assert_eq!(looks_like, case["looks_like"].as_str(), "{name}");
                }
                other => panic!("{name}: {other:?}"),
            },
            other => panic!("{name}: result {other:?}"),
        }
    });
    assert_eq!(read_preface(&PREFACE), Ok(Preface::Complete));
}
