//! Frames that no honest peer sends, to both sides of a session.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| punctual_proto::fuzzing::frames(bytes));
