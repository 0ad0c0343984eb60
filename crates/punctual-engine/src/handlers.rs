//! What an engine can run: a service's durable methods, behind one object-safe trait.

use crate::{Durable, Failure};
use bytes::Bytes;
use punctual_task::{PAYLOAD_BYTES_MAX, Policy};
use serde::Serialize;
use std::fmt;
use std::future::ready;
use std::pin::Pin;

/// One attempt of a handler. The result is JSON.
///
/// # Cancel safety
/// The engine drops it at the end of the attempt's budget, after a cancel's grace, and when the lease is lost.
pub type HandlerFuture = Pin<Box<dyn Future<Output = Result<Bytes, Failure>> + Send + 'static>>;

/// A durable method that an engine can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DurableMethod {
    /// `Service/method`.
    pub name: &'static str,
    /// The fingerprint of the request's schema.
    pub schema: u64,
    /// How its tasks run unless a task says otherwise.
    pub policy: Policy,
}

impl DurableMethod {
    /// The method that takes `C`.
    #[must_use]
    pub fn of<C: Durable>() -> Self {
        DurableMethod { name: C::METHOD, schema: C::schema_hash(), policy: C::POLICY }
    }
}

/// A service's durable methods. Implemented by the server wrapper that `#[punctual::service]` writes.
pub trait Handlers: Send + Sync + 'static {
    /// The service's name.
    fn service(&self) -> &'static str;

    /// Its durable methods. Asked for once, when the engine starts.
    fn methods(&self) -> Vec<DurableMethod>;

    /// Begins one attempt of `method` (`Service/method`, one of [`Handlers::methods`]) with JSON arguments.
    /// Must not block: the work belongs into the future.
    fn run(&self, method: &str, args: Bytes) -> HandlerFuture;
}

impl fmt::Debug for dyn Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers").field("service", &self.service()).finish_non_exhaustive()
    }
}

/// One attempt of a typed handler: decodes the arguments, runs `handler`, encodes what it returns. `explain` turns the
/// method's own error into a failure; its detail is filled in here.
///
/// Arguments that cannot be decoded are a dead letter: no later attempt would read them better.
pub fn run_typed<C, T, E, F, Fut>(args: &Bytes, handler: F, explain: fn(&E) -> Failure) -> HandlerFuture
where
    C: Durable,
    T: Serialize + 'static,
    E: Serialize + Send + 'static,
    F: FnOnce(C) -> Fut,
    Fut: Future<Output = Result<T, E>> + Send + 'static,
{
    let call: C = match serde_json::from_slice(args) {
        Ok(call) => call,
        Err(error) => {
            return Box::pin(ready(Err(Failure::dead_letter(format!(
                "the stored arguments of {} cannot be read: {error}",
                C::METHOD
            )))));
        }
    };
    let attempt = handler(call);
    Box::pin(async move {
        match attempt.await {
            Ok(value) => encode::<C, T>(&value),
            Err(error) => {
                let failure = explain(&error);
                // An error that has no JSON form, or one beyond the limit, is still told by its message.
                Err(match serde_json::to_vec(&error) {
                    Ok(detail) if detail.len() <= PAYLOAD_BYTES_MAX => failure.with_detail(detail.into()),
                    _ => failure,
                })
            }
        }
    })
}

/// The work is done when this fails, so a retry would do it twice: such a result is a dead letter with the reason.
fn encode<C: Durable, T: Serialize>(value: &T) -> Result<Bytes, Failure> {
    let result = serde_json::to_vec(value).map_err(|error| {
        Failure::dead_letter(format!("{} ran, but its result cannot be written as JSON: {error}", C::METHOD))
    })?;
    if result.len() > PAYLOAD_BYTES_MAX {
        return Err(Failure::dead_letter(format!(
            "{} ran, but its result has {} bytes; the limit is {PAYLOAD_BYTES_MAX}: store it elsewhere and return a reference",
            C::METHOD,
            result.len()
        )));
    }
    Ok(result.into())
}
