//! The record of an attempt that did not succeed: `{"message": .., "detail": ..}`, written and read.

use bytes::Bytes;
use punctual_task::ERROR_BYTES_MAX;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

#[derive(Serialize)]
struct Written<'a> {
    message: &'a str,
}

#[derive(Deserialize)]
struct Read<E> {
    message: String,
    #[serde(default = "Option::default")]
    detail: Option<E>,
}

/// The record of an error. The message is cut to 16 KiB; a detail that is no JSON is left out, since it would make the
/// whole record unreadable.
pub(crate) fn write_error(message: &str, detail: &[u8]) -> Bytes {
    let message = cut(message, ERROR_BYTES_MAX);
    let mut record = serde_json::to_vec(&Written { message }).unwrap_or_else(|_| b"{\"message\":\"\"}".to_vec());
    if !detail.is_empty() && serde_json::from_slice::<IgnoredAny>(detail).is_ok() {
        record.pop();
        record.extend_from_slice(b",\"detail\":");
        record.extend_from_slice(detail);
        record.push(b'}');
    }
    record.into()
}

/// The message and, if it reads as an `E`, the detail of a record.
pub(crate) fn read_error<E: DeserializeOwned>(record: &[u8]) -> (String, Option<E>) {
    if let Ok(read) = serde_json::from_slice::<Read<E>>(record) {
        return (read.message, read.detail);
    }
    // The error type may have changed since; the message is of use without it.
    match serde_json::from_slice::<Read<IgnoredAny>>(record) {
        Ok(read) => (read.message, None),
        Err(_) => (String::from_utf8_lossy(record).into_owned(), None),
    }
}

/// The longest beginning of `text` within `bytes_max` that ends between characters.
fn cut(text: &str, bytes_max: usize) -> &str {
    let end = (0..=bytes_max.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was written reads back, with its detail where the type still fits.
    #[test]
    fn a_record_reads_back() {
        let record = write_error("card \"declined\"\n", b"{\"code\":5}");
        let (message, detail) = read_error::<serde_json::Value>(&record);
        assert_eq!(message, "card \"declined\"\n");
        assert_eq!(detail, Some(serde_json::json!({"code": 5})));
        assert_eq!(read_error::<u8>(&record), ("card \"declined\"\n".to_owned(), None));
        assert_eq!(read_error::<u8>(&write_error("plain", b"")), ("plain".to_owned(), None));
    }

    /// A detail that is no JSON does not spoil the record, and neither does a record of somebody else's.
    #[test]
    fn bad_details_do_no_harm() {
        assert_eq!(read_error::<u8>(&write_error("m", b"{oops")), ("m".to_owned(), None));
        assert_eq!(read_error::<u8>(b"not json"), ("not json".to_owned(), None));
    }

    /// A long message is cut between characters.
    #[test]
    fn messages_are_cut() {
        let (message, _) = read_error::<u8>(&write_error(&"\u{e9}".repeat(ERROR_BYTES_MAX), b""));
        assert_eq!(message.len(), ERROR_BYTES_MAX);
        assert_eq!(cut("a\u{e9}", 2), "a");
    }
}
