//! Tests of `status`.

use super::*;
use crate::codec::{self, Codec};
use proptest::prelude::*;

fn full() -> Status {
    Status::resource_exhausted("too many calls")
        .with_retry_after(Duration::from_nanos(1_500))
        .with_limit("pending_calls_max", 65_536)
        .with_detail("queue", b"mail".to_vec())
        .with_detail("raw", vec![0, 255])
}

fn wire(status: &Status) -> Vec<u8> {
    let mut out = Vec::new();
    status.encode(&mut out);
    out
}

/// A status is one pointer, so that every `Result` of a call stays small.
#[test]
fn is_one_pointer() {
    assert_eq!(size_of::<Status>(), size_of::<usize>());
    assert_eq!(size_of::<Result<(), Status>>(), size_of::<usize>());
    assert_eq!(size_of::<CallError<()>>(), size_of::<usize>());
}

/// Everything in a status survives its wire form; the wait is rounded up to whole microseconds when it is set.
#[test]
fn survives_the_wire() {
    let status = full();
    assert_eq!(status.retry_after(), Some(Duration::from_micros(2)));
    let bytes = wire(&status);
    assert_eq!(bytes.len(), status.encoded_len());
    assert_eq!(Status::decode(&bytes).unwrap(), status);
}

/// A cut or extended wire form is refused, never read as less.
#[test]
fn cuts_are_refused() {
    let mut bytes = wire(&full());
    for end in 0..bytes.len() {
        assert!(Status::decode(&bytes[..end]).is_err(), "cut at {end}");
    }
    bytes.push(0);
    assert_eq!(Status::decode(&bytes), Err(StatusError::Trailing { extra: 1 }));
}

/// The text is cut at its limit, on a character boundary, and marked.
#[test]
fn long_texts_are_cut_and_marked() {
    let exact = "a".repeat(MESSAGE_BYTES_MAX);
    assert_eq!(Status::internal(exact.clone()).message(), exact);
    // Three bytes a character: the limit falls inside one.
    let status = Status::internal("€".repeat(MESSAGE_BYTES_MAX / 3 + 1));
    assert!(status.message().len() <= MESSAGE_BYTES_MAX);
    assert!(status.message().len() > MESSAGE_BYTES_MAX - CUT_MARK.len() - 3);
    assert!(status.message().ends_with(CUT_MARK));
    assert_eq!(Status::decode(&wire(&status)).unwrap(), status);
}

/// A wire text over the limit is refused by its length, before it is read.
#[test]
fn long_wire_texts_are_refused() {
    let mut bytes = wire(&Status::internal(""));
    let long = (MESSAGE_BYTES_MAX as u32 + 1).to_le_bytes();
    bytes[9..13].copy_from_slice(&long);
    assert!(matches!(Status::decode(&bytes), Err(StatusError::TooLong { field: "message", .. })));
}

/// Details beyond their bounds are dropped by the sender and refused by the receiver.
#[test]
fn details_are_bounded() {
    let mut status = Status::internal("");
    for at in 0..=DETAILS_MAX {
        status = status.with_detail(format!("d{at}"), vec![0; 4]);
    }
    assert_eq!(status.details().count(), DETAILS_MAX);
    assert_eq!(Status::internal("").with_detail("big", vec![0; DETAILS_BYTES_MAX]).details().count(), 0);
    assert_eq!(Status::internal("").with_detail("", vec![]).details().count(), 0);

    let mut bytes = wire(&Status::internal(""));
    *bytes.last_mut().unwrap() = DETAILS_MAX as u8 + 1;
    assert!(matches!(Status::decode(&bytes), Err(StatusError::TooLong { field: "detail count", .. })));
}

/// The longest status is within the announced bound.
#[test]
fn the_longest_wire_form_is_known() {
    let mut status = Status::internal("m".repeat(MESSAGE_BYTES_MAX)).with_limit("l".repeat(NAME_BYTES_MAX), u64::MAX);
    for _ in 0..DETAILS_MAX {
        status = status.with_detail("n", vec![0; DETAILS_BYTES_MAX / DETAILS_MAX - 1]);
    }
    assert_eq!(wire(&status).len(), Status::WIRE_BYTES_MAX);
}

/// A status made to fit a smaller frame loses text and nothing else.
#[test]
fn fitting_cuts_the_text_only() {
    let status = full().with_detail("more", vec![7; 100]);
    let long = Status::new(status.code(), "x".repeat(1_000)).with_limit("l", 1).with_detail("d", vec![1]);
    let fitted = long.clone().fitted(300);
    assert!(fitted.encoded_len() <= 300);
    assert!(fitted.message().ends_with(CUT_MARK));
    assert_eq!((fitted.limit(), fitted.detail("d")), (long.limit(), long.detail("d")));
    assert_eq!(status.clone().fitted(10_000), status);
}

/// Codes keep gRPC's numbers, know their names, and an unknown one is `Unknown` while 0 is an error.
#[test]
fn codes_keep_their_numbers() {
    for code in Code::ALL {
        assert_eq!(Code::from_byte(code as u8), Some(code));
        assert_eq!(Code::from_name(code.name()), Some(code));
    }
    assert_eq!(Code::ALL.map(|code| code as u8)[..16], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
    assert_eq!(Code::from_byte(200), Some(Code::Unknown));
    assert_eq!(Code::from_byte(0), None);
    let mut bytes = wire(&Status::internal(""));
    bytes[0] = 0;
    assert_eq!(Status::decode(&bytes), Err(StatusError::CodeZero));
}

/// Only failures that may pass by themselves are retryable; an exhausted resource only where it says when.
#[test]
fn retryable_is_what_may_pass() {
    let retryable: Vec<Code> = Code::ALL.into_iter().filter(|code| Status::new(*code, "").is_retryable()).collect();
    assert_eq!(retryable, [Code::Unavailable, Code::ConnectionClosed, Code::HeartbeatLost]);
    assert!(Status::resource_exhausted("").with_retry_after(Duration::ZERO).is_retryable());
    assert!(!CallError::App(7).is_retryable());
    assert!(CallError::<u8>::Status(Status::unavailable("")).is_retryable());
}

/// A status inside a contract's types survives every codec, with the code by name in JSON.
#[test]
fn is_a_value_in_every_codec() {
    for codec in [Codec::Compact, Codec::Named, Codec::Json] {
        let mut out = Vec::new();
        codec::encode(codec, &vec![full()], &mut out).unwrap();
        assert_eq!(codec::decode::<Vec<Status>>(codec, &out).unwrap(), [full()], "{codec}");
    }
    let json = serde_json::to_value(Status::not_found("no order 7")).unwrap();
    assert_eq!(json["code"], "not_found");
    assert_eq!(serde_json::from_str::<Status>(r#"{"code":"from_the_future"}"#).unwrap().code(), Code::Unknown);
}

/// One line says the code, the text, the limit and the wait; debug output hides what details hold.
#[test]
fn shows_what_helps() {
    assert_eq!(
        full().to_string(),
        "resource_exhausted: too many calls (limit pending_calls_max = 65536) (retry after 2µs)"
    );
    assert_eq!(Status::cancelled("").to_string(), "cancelled");
    let secret = format!("{:?}", Status::internal("").with_detail("token", b"s3cret".to_vec()));
    assert!(secret.contains("token") && !secret.contains("s3cret") && !secret.contains("115"));
}

proptest! {
    /// Random bytes never panic the reader, and what it accepts it writes back the same.
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        if let Ok(status) = Status::decode(&bytes) {
            let again = wire(&status);
            prop_assert_eq!(&again[1..], &bytes[1..]);
        }
    }
}
