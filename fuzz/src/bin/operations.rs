//! Operations of honest callers and handlers of calls with streams, in any order.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| punctual_proto::fuzzing::operations(bytes));
