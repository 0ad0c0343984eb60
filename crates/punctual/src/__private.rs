//! What the expansions of our attributes call. Not for use by hand: it may change in any release.

#[cfg(feature = "engine")]
pub mod task;

pub use punctual_proto::codec::Args;
pub use punctual_proto::contract::{
    Backoff, DurablePolicy, MethodDescriptor, Reply, ServiceDescriptor, StreamDescriptor,
};
pub use punctual_proto::schema::{EnumType, Field, Fields, Schema, StructType, Type, Variant};

use bytes::Bytes;
use punctual_proto::status::{CallError, Status};
use std::any::Any;

/// The bytes, if that is what `value` is.
pub fn as_bytes<T: Any>(value: &T) -> Option<&Bytes> {
    (value as &dyn Any).downcast_ref()
}

/// `bytes` as a `T`, if that is what a `T` is.
pub fn from_bytes<T: Any>(bytes: Bytes) -> Option<T> {
    let mut slot = Some(bytes);
    let slot: &mut dyn Any = &mut slot;
    slot.downcast_mut::<Option<T>>().and_then(Option::take)
}

/// One error for both ways in which a call fails, for the client as an implementation of the contract.
pub fn flatten<E: From<Status>>(error: CallError<E>) -> E {
    match error {
        CallError::App(error) => error,
        CallError::Status(status) => status.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::{as_bytes, from_bytes};
    use bytes::Bytes;

    /// Only `Bytes` itself travels raw, whatever a type calls itself.
    #[test]
    fn bytes_are_recognised_by_type() {
        let bytes = Bytes::from_static(b"raw");
        assert_eq!(as_bytes(&bytes), Some(&bytes));
        assert_eq!(from_bytes(bytes.clone()), Some(bytes.clone()));
        assert_eq!(as_bytes(&vec![1u8]), None);
        assert_eq!(from_bytes::<Vec<u8>>(bytes), None);
    }
}
