//! A status as a field of a contract's types: a struct of five fields, the code by name in text formats.

use crate::schema::{Schema, Type};
use crate::status::{Code, Status};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::time::Duration;

impl Schema for Status {
    const TYPE: &'static Type = &Type::Status;
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(self.name())
        } else {
            serializer.serialize_u8(*self as u8)
        }
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let name = String::deserialize(deserializer)?;
            Ok(Code::from_name(&name).unwrap_or(Code::Unknown))
        } else {
            Code::from_byte(u8::deserialize(deserializer)?).ok_or_else(|| D::Error::custom("status code 0"))
        }
    }
}

#[derive(Serialize)]
#[serde(rename = "Status")]
struct Shown<'a> {
    code: Code,
    message: &'a str,
    retry_after_micros: Option<u64>,
    limit: Option<(&'a str, u64)>,
    details: Vec<(&'a str, &'a [u8])>,
}

#[derive(Deserialize)]
#[serde(rename = "Status")]
struct Read {
    code: Code,
    #[serde(default)]
    message: String,
    #[serde(default)]
    retry_after_micros: Option<u64>,
    #[serde(default)]
    limit: Option<(String, u64)>,
    #[serde(default)]
    details: Vec<(String, Vec<u8>)>,
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Shown {
            code: self.code(),
            message: self.message(),
            retry_after_micros: self.retry_after().map(|wait| u64::try_from(wait.as_micros()).unwrap_or(u64::MAX)),
            limit: self.limit(),
            details: self.details().collect(),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Status {
    /// What exceeds a bound is cut or dropped, as by the constructors.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = Read::deserialize(deserializer)?;
        let mut status = Status::new(read.code, read.message);
        if let Some(micros) = read.retry_after_micros {
            status = status.with_retry_after(Duration::from_micros(micros));
        }
        if let Some((name, value)) = read.limit {
            status = status.with_limit(name, value);
        }
        for (name, value) in read.details {
            status = status.with_detail(name, value);
        }
        Ok(status)
    }
}
