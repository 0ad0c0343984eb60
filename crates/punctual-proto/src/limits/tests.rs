//! Tests of `limits`.

use super::*;

/// The defaults are the design's numbers and are themselves legal.
#[test]
fn defaults_are_legal() {
    let limits = Limits::default();
    limits.validate().unwrap();
    ServerLimits::default().validate().unwrap();
    assert_eq!(limits.message_bytes_max, 4 << 20);
    assert_eq!(limits.metadata_bytes_max, 16 << 10);
    assert_eq!((limits.pending_calls_max, limits.running_calls_max, limits.streams_max), (65_536, 1_024, 1_024));
    assert_eq!((limits.stream_window_bytes, limits.connection_window_bytes), (1 << 20, 16 << 20));
    assert_eq!(limits.send_queue_bytes_max, 8 << 20);
    assert_eq!(limits.assembling_bytes_max(), 16 << 20);
}

/// Every range is taken at its edges and refused one outside of them, naming the field.
#[test]
fn ranges_hold_at_their_edges() {
    let check = |set: fn(&mut Limits, u32), min: u32, max: u32, name: &str| {
        for (value, fine) in
            [(Some(min), true), (Some(max), true), (min.checked_sub(1), false), (max.checked_add(1), false)]
        {
            let Some(value) = value else { continue };
            // The window must hold a message; that rule has a test of its own.
            let mut limits = Limits { connection_window_bytes: 64 << 20, ..Limits::default() };
            set(&mut limits, value);
            let verdict = limits.validate();
            assert_eq!(verdict.is_ok(), fine, "{name} = {value}");
            if let Err(error) = verdict {
                assert!(error.to_string().starts_with(&format!("{name} is {value}; set it between")), "{error}");
            }
        }
    };
    check(|limits, value| limits.message_bytes_max = value, 1 << 10, 64 << 20, "message_bytes_max");
    check(|limits, value| limits.metadata_bytes_max = value, 0, 32 << 10, "metadata_bytes_max");
    check(|limits, value| limits.pending_calls_max = value, 1, 65_536, "pending_calls_max");
    check(|limits, value| limits.running_calls_max = value, 1, 65_536, "running_calls_max");
    check(|limits, value| limits.streams_max = value, 0, 32_768, "streams_max");
    check(|limits, value| limits.stream_window_bytes = value, 64 << 10, 64 << 20, "stream_window_bytes");
    check(|limits, value| limits.connection_window_bytes = value, 4 << 20, 1 << 30, "connection_window_bytes");
    check(|limits, value| limits.send_queue_bytes_max = value, 64 << 10, 1 << 30, "send_queue_bytes_max");
}

/// A connection window that cannot hold one message would stall it for ever.
#[test]
fn the_connection_window_holds_a_message() {
    let mut limits = Limits { message_bytes_max: 32 << 20, ..Limits::default() };
    assert!(matches!(limits.validate(), Err(LimitError::Range { name: "connection_window_bytes", .. })));
    limits.connection_window_bytes = 32 << 20;
    limits.validate().unwrap();
}

/// A peer must be given time to answer a ping before it counts as dead.
#[test]
fn liveness_leaves_time_to_answer() {
    let limits = Limits { dead_after: Duration::from_secs(10), ..Limits::default() };
    assert!(matches!(limits.validate(), Err(LimitError::Duration { name: "dead_after", .. })));
    let limits = Limits { handshake_timeout: Duration::ZERO, ..Limits::default() };
    assert!(matches!(limits.validate(), Err(LimitError::Duration { name: "handshake_timeout", .. })));
    let limits = Limits { ping_after: Duration::MAX, ..Limits::default() };
    assert!(limits.validate().is_err());
}

/// The smaller side wins, whichever it is; what is not agreed stays one's own.
#[test]
fn the_smaller_side_wins() {
    let ours = Limits { message_bytes_max: 1 << 20, running_calls_max: 9, ..Limits::default() };
    let theirs = Limits {
        metadata_bytes_max: 100,
        pending_calls_max: 10,
        stream_window_bytes: 1 << 16,
        connection_window_bytes: 32 << 20,
        send_queue_bytes_max: 1,
        ..Limits::default()
    };
    let agreed = ours.agree(&theirs);
    assert_eq!((agreed.message_bytes_max, agreed.metadata_bytes_max, agreed.pending_calls_max), (1 << 20, 100, 10));
    assert_eq!((agreed.stream_window_bytes, agreed.connection_window_bytes), (1 << 16, 32 << 20));
    assert_eq!((agreed.send_queue_bytes_max, agreed.running_calls_max), (8 << 20, 9));
    let back = theirs.agree(&ours);
    assert_eq!((back.message_bytes_max, back.metadata_bytes_max, back.pending_calls_max), (1 << 20, 100, 10));
}
