//! Values in each codec, descriptions, metadata, statuses.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| punctual_proto::fuzzing::codecs(bytes));
