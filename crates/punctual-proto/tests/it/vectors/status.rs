//! `status.json`.

use super::{File, bytes, hex, is_reads_only, text, unhex};
use punctual_proto::status::{Code, Status};
use serde_json::{Value, json};
use std::time::Duration;

/// The statuses of the vectors are read and written as they say, and the bad ones refused for the reason that they say.
#[test]
fn statuses_are_read_and_written() {
    File::read("status.json").each(|case, name| {
        let wire = bytes(case, "hex");
        match Status::decode(&wire) {
            Ok(status) => {
                assert_eq!(shown(&status), case["status"], "{name}");
                let written = wire_form(&parsed(&case["status"]));
                assert_eq!(written == wire, !is_reads_only(case), "{name}: {}", hex(&written));
            }
            Err(error) => assert_eq!(case["error"], error.name(), "{name}: {error}"),
        }
    });
}

fn wire_form(status: &Status) -> Vec<u8> {
    let mut out = Vec::new();
    status.encode(&mut out);
    out
}

/// The status in the vectors' words; absent parts are left out.
pub(super) fn shown(status: &Status) -> Value {
    let mut shown = json!({"code": status.code().name(), "message": status.message()});
    if let Some(wait) = status.retry_after() {
        shown["retry_after_micros"] = wait.as_micros().to_string().into();
    }
    if let Some((name, value)) = status.limit() {
        shown["limit"] = json!([name, value.to_string()]);
    }
    if status.details().next().is_some() {
        shown["details"] = status.details().map(|(name, value)| json!([name, hex(value)])).collect();
    }
    shown
}

/// The status that the vectors' words say.
pub(super) fn parsed(shown: &Value) -> Status {
    let number = |value: &Value| value.as_str().unwrap().parse::<u64>().unwrap();
    let mut status = Status::new(Code::from_name(text(shown, "code")).unwrap(), text(shown, "message"));
    if !shown["retry_after_micros"].is_null() {
        status = status.with_retry_after(Duration::from_micros(number(&shown["retry_after_micros"])));
    }
    if !shown["limit"].is_null() {
        status = status.with_limit(shown["limit"][0].as_str().unwrap(), number(&shown["limit"][1]));
    }
    for detail in shown["details"].as_array().into_iter().flatten() {
        status = status.with_detail(detail[0].as_str().unwrap(), unhex(detail[1].as_str().unwrap()));
    }
    status
}
