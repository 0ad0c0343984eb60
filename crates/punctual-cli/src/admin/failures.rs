//! What the engine and the store say, as statuses.

use crate::text::BadText;
use punctual::Status;
use punctual::engine::{Error, ErrorKind};
use punctual::task::schedule::RuleError;
use punctual::task::{StoreError, StoreErrorKind};

/// A store's failure.
pub(super) fn from_store(error: StoreError) -> Status {
    let text = error.to_string();
    match error.kind() {
        StoreErrorKind::Unavailable | StoreErrorKind::Busy => Status::unavailable(text),
        StoreErrorKind::Full => Status::resource_exhausted(text),
        StoreErrorKind::Refused => Status::failed_precondition(text),
        StoreErrorKind::NotFound => Status::not_found(text),
        StoreErrorKind::Conflict => Status::aborted(text),
        StoreErrorKind::Version | StoreErrorKind::Corrupt => Status::data_loss(text),
        _ => Status::internal(text),
    }
}

/// An engine's failure. The store's words, where there are some, say more than the engine's.
pub(super) fn from_engine(error: Error) -> Status {
    let said = error.to_string();
    if let Some(store) = error.store_error() {
        let told = store.to_string();
        let status = from_store(store.clone());
        return if said.is_empty() || said == told {
            status
        } else {
            Status::new(status.code(), format!("{said}: {told}"))
        };
    }
    match error.kind() {
        ErrorKind::Unavailable => Status::unavailable(said),
        ErrorKind::Refused => Status::failed_precondition(said),
        ErrorKind::NotFound => Status::not_found(said),
        ErrorKind::Conflict => Status::aborted(said),
        ErrorKind::Payload | ErrorKind::Config => Status::invalid_argument(said),
        ErrorKind::Store => Status::data_loss(said),
        _ => Status::internal(said),
    }
}

/// The same where what is refused is the input, since nothing else was looked at.
pub(super) fn from_input(error: Error) -> Status {
    match error.kind() {
        ErrorKind::Refused => Status::invalid_argument(error.to_string()),
        _ => from_engine(error),
    }
}

/// A field that does not parse.
pub(super) fn bad_field(field: &str, error: &BadText) -> Status {
    Status::invalid_argument(format!("{field}: {error}"))
}

/// A rule that cannot be.
pub(super) fn bad_rule(error: &RuleError) -> Status {
    Status::invalid_argument(error.to_string())
}
