//! Tests of `trace`.

use super::*;

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A `traceparent` that was parsed is written the same.
#[test]
fn a_parent_survives() {
    let context = TraceContext::parse(PARENT.as_bytes()).unwrap();
    assert_eq!(context.traceparent(), PARENT);
    assert!(context.is_sampled());
    assert_eq!(context.parent_id(), [0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]);
    assert_eq!(TraceContext::new([0; 16], [1; 8], true), None);
    assert_eq!(TraceContext::new([1; 16], [0; 8], true), None);
}

/// What breaks the grammar is refused: cut anywhere, longer, with other digits, ids of zeros, the forbidden version.
#[test]
fn parents_are_parsed_strictly() {
    for end in 0..PARENT.len() {
        assert_eq!(TraceContext::parse(&PARENT.as_bytes()[..end]), None, "cut at {end}");
    }
    for wrong in [
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 ",
        " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "0g-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x",
        "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.more",
    ] {
        assert_eq!(TraceContext::parse(wrong.as_bytes()), None, "{wrong}");
    }
    // A later version may go on behind a dash; its unknown flags are not passed on.
    let later = TraceContext::parse(b"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff-more").unwrap();
    assert_eq!(later.traceparent(), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03");
}

/// A state is passed on as it is where it keeps the grammar, and left out where it does not; the trace goes on either way.
#[test]
fn states_are_checked() {
    let with = |state: &str| TraceContext::parse(PARENT.as_bytes()).unwrap().with_state(state.as_bytes());
    for (given, kept) in [
        ("", ""),
        ("vendor=1", "vendor=1"),
        ("a=1,tenant@sys=x y~", "a=1,tenant@sys=x y~"),
        (" a=1 ,\t,b=2,", "a=1,b=2"),
        ("0tenant@sys=1", "0tenant@sys=1"),
        ("a", ""),
        ("a=", ""),
        ("A=1", ""),
        ("1a=1", ""),
        ("a=1,a=2", ""),
        ("a=1=2", ""),
        ("a=é", ""),
        ("a=\u{7}", ""),
        ("@sys=1", ""),
    ] {
        assert_eq!(with(given).tracestate(), kept, "{given:?}");
        assert_eq!(with(given).traceparent(), PARENT);
    }
    let many = |count: usize| (0..count).map(|at| format!("k{at}=v")).collect::<Vec<_>>().join(",");
    assert_eq!(with(&many(TRACESTATE_MEMBERS_MAX)).tracestate(), many(TRACESTATE_MEMBERS_MAX));
    assert_eq!(with(&many(TRACESTATE_MEMBERS_MAX + 1)).tracestate(), "");
    assert_eq!(with(&format!("a={}", "x".repeat(256))).tracestate().len(), 258);
    assert_eq!(with(&format!("a={}", "x".repeat(257))).tracestate(), "");
}

/// Of a state that is too long the last members are dropped, whole; one that is absurd is not read.
#[test]
fn states_are_bounded() {
    let with = |state: &str| TraceContext::parse(PARENT.as_bytes()).unwrap().with_state(state.as_bytes());
    let member = |key: &str, bytes: usize| format!("{key}={}", "x".repeat(bytes - key.len() - 1));
    let exact = [member("a", 256), member("b", 255)].join(",");
    assert_eq!(exact.len(), TRACESTATE_BYTES_MAX);
    assert_eq!(with(&exact).tracestate(), exact);
    assert_eq!(with(&format!("{exact},c=1")).tracestate(), exact);
    let over = [member("a", 256), member("b", 256)].join(",");
    assert_eq!(with(&over).tracestate(), member("a", 256));
    assert_eq!(with(&format!("{over},wrong")).tracestate(), "", "also what is dropped must keep the grammar");
    assert_eq!(with(&" ".repeat(TRACESTATE_READ_MAX + 1)).tracestate(), "");
}

/// Metadata carry one parent; two of them are as good as none. Several states are one list.
#[test]
fn metadata_carry_it() {
    let metadata = |entries: &[(&str, &str)]| {
        let mut metadata = Metadata::new();
        entries.iter().for_each(|(name, value)| metadata.append(name, value).unwrap());
        metadata
    };
    let read = |entries: &[(&str, &str)]| TraceContext::from_metadata(&metadata(entries));
    assert_eq!(read(&[]), None);
    assert_eq!(read(&[("tracestate", "a=1")]), None);
    assert_eq!(read(&[("traceparent", PARENT)]).unwrap().traceparent(), PARENT);
    assert_eq!(read(&[("traceparent", PARENT), ("traceparent", PARENT)]), None);
    let several = [("tracestate", "a=1"), ("traceparent", PARENT), ("tracestate", "b=2"), ("tracestate", "c=3")];
    assert_eq!(read(&several).unwrap().tracestate(), "a=1,b=2,c=3");
}

/// Where a context is logged, what systems put into its state is not.
#[test]
fn debug_hides_the_state() {
    let context = TraceContext::parse(PARENT.as_bytes()).unwrap().with_state(b"vendor=s3cret");
    assert_eq!(format!("{context:?}"), format!("TraceContext({PARENT})"));
}
