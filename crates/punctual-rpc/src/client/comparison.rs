//! The describe exchange: which methods of a service are the same although its contract is not.
//!
//! ```text
//!  a call finds another hash ── Contracts::differing ──▶ DESCRIBE ──▶ equal_methods ──▶ Differing::settle
//!  calls meanwhile: named                                                calls from here on: compact where equal
//! ```
//!
//! No call waits for it: what is not known to be the same goes in the self-describing codec, which is always right.

use crate::client::connection::Connection;
use crate::client::contracts::Differing;
use crate::client::reply::{LiveCall, read_bytes};
use crate::driver::Role;
use punctual_proto::describe::equal_methods;
use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

/// Compares the services of a connection, one after the other, as calls find that they differ. To be dropped with the
/// connection: one that drains must not wait for an answer.
pub(crate) async fn compare_all(connection: &Arc<Connection>) -> Infallible {
    loop {
        let differing = connection.contracts().differing().await;
        let service = differing.service();
        match ask(connection, &differing).await {
            Ok(equal) => {
                tracing::debug!(
                    service = service.name,
                    equal = equal.len(),
                    methods = service.methods.len(),
                    "the server has another version of the contract; methods that are equal stay compact"
                );
                differing.settle(equal);
            }
            // It stays as it is: every method self-describing. What the server said does not belong in a log.
            Err(why) => tracing::debug!(
                service = service.name,
                why,
                "the server has another version of the contract, and its methods cannot be compared"
            ),
        }
    }
}

/// The methods that are the same, or why that is not known. Takes at most as long as a handshake may.
async fn ask(connection: &Arc<Connection>, differing: &Differing) -> Result<Vec<u64>, &'static str> {
    let service = differing.service();
    let now = Role::clock(&**connection).now();
    let deadline = now.after(connection.limits().handshake_timeout);
    let opened = poll_fn(|cx| {
        let mut waker = Some(cx.waker().clone());
        Poll::Ready(connection.session().ask_describe(service.name, deadline, now, &mut waker))
    });
    let opened = opened.await.map_err(|_| "not asked")?;
    if let Some(driver) = opened.driver {
        driver.wake();
    }
    let mut live = LiveCall::new(Arc::clone(connection), opened.key);
    let body = poll_fn(|cx| live.poll(cx, read_bytes)).await;
    let body = body.map_err(|error| error.status().map_or("failed", |status| status.code().name()))?;
    equal_methods(service, &body).map_err(|error| error.name())
}
