//! A durable call as a type: what can be enqueued, and how its outcome reads back.

use punctual_task::Policy;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The request of one durable method: `billing::Charge { order, cents }` for `Billing::charge`. Written by
/// `#[punctual::service]` for every method marked `durable`.
///
/// Its JSON form is what the store keeps, so that a field may be added with a serde default while tasks wait.
pub trait Durable: Serialize + DeserializeOwned + Send + 'static {
    /// `Service/method`.
    const METHOD: &'static str;
    /// How its tasks run unless a task says otherwise.
    const POLICY: Policy;
    /// What the method returns on success.
    type Ok: DeserializeOwned;
    /// What it returns on failure.
    type Err: DeserializeOwned;
    /// The fingerprint of the request's schema, kept with each task.
    fn schema_hash() -> u64;
}

/// The service's part of `Service/method`: the default queue's name.
#[must_use]
pub fn service_of(method: &str) -> &str {
    method.split_once('/').map_or(method, |(service, _)| service)
}
