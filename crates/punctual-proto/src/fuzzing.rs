//! What the fuzz targets run. Each takes any bytes, and panics where a promise is broken.

use crate::codec::{Codec, decode, encode};
use crate::contract::{MethodDescriptor, ServiceDescriptor};
use crate::describe::{ServiceDescription, equal_methods};
use crate::frame::{Direction, FrameHeader, FrameRules, HEADER_BYTES};
use crate::handshake::{Hello, Reply, Welcome, accept};
use crate::limits::Limits;
use crate::schema::Type;
use crate::session::tests;
use crate::status::Status;
use bytes::Bytes;
use punctual_context::Metadata;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Frames that no honest peer sends, to both sides of a session.
pub fn frames(bytes: &[u8]) {
    tests::hostile::frames(bytes);
}

/// Operations of honest callers and handlers, in any order.
pub fn operations(bytes: &[u8]) {
    tests::streams::operations(bytes);
}

/// The first words of either side. What is understood is understood again when it is written.
pub fn handshake(bytes: &[u8]) {
    if let Ok(hello) = Hello::decode(bytes) {
        let mut framed = Vec::new();
        if hello.put(&mut framed).is_ok() {
            let payload = framed.get(HEADER_BYTES..).unwrap_or_default();
            assert_eq!(Hello::decode(payload).as_ref(), Ok(&hello));
        }
        // It may be refused, by its own rules.
        let _ = accept(&Welcome::new(Limits::default(), Vec::new()), &hello);
    }
    if let Some((header, payload)) = bytes.split_first_chunk::<HEADER_BYTES>()
        && let Ok(header) = FrameHeader::decode(header, &FrameRules::handshake(Direction::FromServer))
        && let Ok(reply) = Reply::decode(&header, payload)
    {
        let mut framed = Vec::new();
        if reply.put(&mut framed).is_ok()
            && let Some((header, payload)) = framed.split_first_chunk::<HEADER_BYTES>()
        {
            let header = FrameHeader::decode(header, &FrameRules::handshake(Direction::FromServer));
            let again = header.map(|header| Reply::decode(&header, payload));
            assert_eq!(again, Ok(Ok(reply)));
        }
    }
}

/// Something of every kind that a contract may have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Sample {
    flag: bool,
    small: i8,
    large: u64,
    #[serde(default)]
    text: String,
    bytes: Bytes,
    maybe: Option<Vec<Choice>>,
    map: BTreeMap<String, (char, u16)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Choice {
    Nothing,
    Number(i64),
    Both { left: String, right: Vec<u8> },
}

/// What a described service is compared with.
static COMPARED: ServiceDescriptor = ServiceDescriptor::new(
    "S",
    "",
    &[
        MethodDescriptor::unary("S/one", &Type::Unit, &Type::U8, &Type::Status),
        MethodDescriptor::oneway("S/two", &Type::Unit),
    ],
);

/// A described service beside the same contract: whatever is found equal is ours.
fn compared(body: &[u8]) {
    let Ok(equal) = equal_methods(&COMPARED, body) else { return };
    assert!(equal.is_sorted());
    assert!(equal.iter().all(|id| COMPARED.index_of(*id).is_some()));
}

/// Values in each codec, and what else is written as bytes. What is understood is understood again when it is written.
pub fn codecs(bytes: &[u8]) {
    let Some((choice, body)) = bytes.split_first() else { return };
    let codec = [Codec::Compact, Codec::Named, Codec::Json][usize::from(choice % 3)];
    if let Ok(sample) = decode::<Sample>(codec, body) {
        for codec in [Codec::Compact, Codec::Named, Codec::Json] {
            let mut out = Vec::new();
            encode(codec, &sample, &mut out).expect("what was decoded can be encoded");
            assert_eq!(decode::<Sample>(codec, &out).as_ref(), Ok(&sample), "{codec:?}");
        }
    }
    compared(body);
    if let Ok(services) = ServiceDescription::decode_all(body) {
        if let [service] = services.as_slice()
            && service.name == COMPARED.name
            && let Ok(equal) = equal_methods(&COMPARED, body)
        {
            let hash = |id: u64| COMPARED.methods.iter().find(|one| one.id == id).map(MethodDescriptor::schema_hash);
            let told = |id: &u64| {
                let digits = hash(*id).map(|hash| format!("{hash:016x}"));
                let said = |one: &&str| digits.as_ref().is_some_and(|digits| one.eq_ignore_ascii_case(digits));
                service.methods.iter().map(|method| method.schema_hash.as_str()).any(|one| said(&one))
            };
            assert!(equal.iter().all(told));
        }
        for service in &services {
            let _ = service.to_string();
        }
    }
    if let Ok(metadata) = Metadata::from_encoded(Bytes::copy_from_slice(body)) {
        let again = Metadata::from_encoded(metadata.as_encoded().clone()).expect("it was read before");
        assert_eq!(again.as_encoded(), metadata.as_encoded());
    }
    if let Ok(status) = Status::decode(body) {
        let mut out = Vec::new();
        status.encode(&mut out);
        assert_eq!(Status::decode(&out).as_ref(), Ok(&status));
    }
}

#[cfg(test)]
mod on_chance {
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

        /// Each target holds on bytes of chance; the fuzzer looks further.
        #[test]
        fn targets_hold(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            super::operations(&bytes);
            super::handshake(&bytes);
            super::codecs(&bytes);
        }
    }

    /// There are bytes that mean a sample, so that the target gets behind its first check.
    #[test]
    fn targets_are_reached() {
        let mut json = vec![2];
        json.extend_from_slice(
            br#"{"flag":true,"small":-1,"large":9,"bytes":[1],"maybe":["Nothing",{"Number":3}],"map":{"a":["b",7]}}"#,
        );
        super::codecs(&json);
        let mut described = vec![2];
        let services = [super::ServiceDescription::from(&super::COMPARED)];
        described.extend(super::ServiceDescription::encode_all(&services).unwrap());
        super::codecs(&described);
        assert_eq!(super::equal_methods(&super::COMPARED, &described[1..]).map(|equal| equal.len()), Ok(2));
        let sample: Result<super::Sample, _> = crate::codec::decode(crate::codec::Codec::Json, &json[1..]);
        assert!(sample.is_ok(), "{sample:?}");
    }
}
