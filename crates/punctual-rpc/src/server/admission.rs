//! Admission control around the pure core: the lock, the wakers, and the tasks of calls that wait.

use crate::client::sleep_until;
use crate::server::connection::Connection;
use crate::server::inbound::Inbound;
use crate::server::registry::Registry;
use punctual_clock::{Clock, Instant};
use punctual_context::{Identity, Metadata};
use punctual_proto::admission::{Admission, AdmissionLimits, Arrival, Entered, Permit, Refusal, Route, Ticket, Waited};
use punctual_proto::contract::MethodDescriptor;
use punctual_proto::status::Status;
use std::collections::HashMap;
use std::fmt::Debug;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Which calls share the limits of a partition.
pub trait Partition: Debug + Send + Sync + 'static {
    /// The name of a call's partition, or `None` where it has none and partitions' limits do not apply. Runs in the
    /// connection's own task: it must not block. A panic refuses the call.
    fn partition(&self, identity: Option<&Identity>, method: &MethodDescriptor, metadata: &Metadata) -> Option<String>;
}

/// By the tenant of whoever calls, or by who that is where there is no tenant. Without an identity there is no partition.
#[derive(Debug, Clone, Copy, Default)]
pub struct ByTenant;

impl Partition for ByTenant {
    fn partition(&self, identity: Option<&Identity>, _: &MethodDescriptor, _: &Metadata) -> Option<String> {
        identity.map(|identity| identity.tenant.clone().unwrap_or_else(|| identity.subject.clone()))
    }
}

/// By the value of one entry of the metadata. The caller says what that is: trust it as far as you trust the caller.
#[derive(Debug, Clone)]
pub struct ByMetadata(String);

impl ByMetadata {
    /// By the first value of this name, where that is text.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        ByMetadata(name.into())
    }
}

impl Partition for ByMetadata {
    fn partition(&self, _: Option<&Identity>, _: &MethodDescriptor, metadata: &Metadata) -> Option<String> {
        metadata.get_str(&self.0).map(str::to_owned)
    }
}

/// The server's door.
pub(crate) struct Door {
    admission: Mutex<Admission<Waker>>,
    /// By the id of the method.
    routes: HashMap<u64, Route>,
    partition: Option<Arc<dyn Partition>>,
    clock: Arc<dyn Clock>,
    refused: AtomicU64,
}

/// A call that was let in. Dropping it gives its permit back.
pub(crate) struct Admitted {
    door: Arc<Door>,
    permit: Option<Permit>,
}

/// A call's place in the line. Dropping it leaves the line.
struct Place {
    door: Arc<Door>,
    ticket: Option<Ticket>,
}

impl Door {
    /// `None` where nothing is limited.
    pub(crate) fn new(
        limits: &AdmissionLimits,
        partition: Option<&Arc<dyn Partition>>,
        registry: &Registry,
        clock: &Arc<dyn Clock>,
    ) -> Option<Arc<Self>> {
        if !limits.is_on() {
            return None;
        }
        let admission = Admission::new(limits.clone());
        let methods = registry.descriptors().flat_map(|service| service.methods.iter().map(move |one| (service, one)));
        let routes = methods.map(|(service, method)| (method.id, admission.route(service.name, method.full_name)));
        let routes = routes.collect();
        let by = || partition.map_or_else(|| Arc::new(ByTenant) as Arc<dyn Partition>, Arc::clone);
        let partition = admission.has_partitions().then(by);
        let (admission, refused) = (Mutex::new(admission), AtomicU64::new(0));
        Some(Arc::new(Door { admission, routes, partition, clock: Arc::clone(clock), refused }))
    }

    /// Calls that wait, and calls that were refused.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.with(|admission, _| admission.waiting()) as u64, self.refused.load(Ordering::Relaxed))
    }

    /// One step under the lock, and then whoever it let in is woken.
    fn with<R>(&self, step: impl FnOnce(&mut Admission<Waker>, &mut Vec<Waker>) -> R) -> R {
        let mut woken = Vec::new();
        let result = step(&mut self.admission.lock().unwrap_or_else(PoisonError::into_inner), &mut woken);
        for waker in woken {
            waker.wake();
        }
        result
    }

    fn refuse(&self, inbound: Inbound<'_>, refusal: &Refusal) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        inbound.reject(&status(refusal));
    }

    /// Lets a call in, or has it wait in a task of its own, or refuses it. What is let in is dispatched.
    pub(crate) fn enter(self: &Arc<Self>, connection: &Arc<Connection>, mut inbound: Inbound<'_>) {
        let method = inbound.method();
        let partition =
            self.partition.as_ref().and_then(|by| by.partition(connection.identity(), method, inbound.metadata()));
        let arrival = Arrival {
            route: self.routes.get(&method.id).copied().unwrap_or_default(),
            partition: partition.as_deref(),
            bytes: inbound.held_bytes(),
            deadline: inbound.deadline(),
        };
        let now = self.clock.now();
        match self.with(|admission, woken| admission.enter(arrival, now, woken)) {
            Entered::Admitted(permit) => {
                inbound.admit(Admitted { door: Arc::clone(self), permit: Some(permit) });
                connection.dispatch(inbound);
            }
            Entered::Refused(refusal) => self.refuse(inbound, &refusal),
            Entered::Waits(ticket, look_at) => {
                let place = Place { door: Arc::clone(self), ticket: Some(ticket) };
                tokio::spawn(wait(Arc::clone(connection), inbound.into_owned(), place, look_at));
            }
        }
    }
}

/// Waits in the line until the call is let in, refused, or over.
async fn wait(connection: Arc<Connection>, mut inbound: Inbound<'static>, mut place: Place, mut look_at: Instant) {
    let door = Arc::clone(&place.door);
    let waited = loop {
        let until = look_at;
        tokio::select! {
            biased;
            () = poll_fn(|cx| inbound.poll_over(cx)) => break None,
            waited = poll_fn(|cx| place.poll(&mut look_at, cx)) => break Some(waited),
            () = sleep_until(&*door.clock, until) => {}
        }
    };
    match waited {
        // Nobody waits for its answer, or it was given already.
        None => {
            drop(place);
            inbound.forget();
        }
        Some(Ok(permit)) => {
            inbound.admit(Admitted { door, permit: Some(permit) });
            connection.dispatch(inbound);
        }
        Some(Err(refusal)) => door.refuse(inbound, &refusal),
    }
}

impl Place {
    fn poll(&mut self, look_at: &mut Instant, cx: &mut Context<'_>) -> Poll<Result<Permit, Refusal>> {
        let Some(ticket) = self.ticket else { return Poll::Pending };
        let mut waker = Some(cx.waker().clone());
        let now = self.door.clock.now();
        let waited = self.door.with(|admission, woken| admission.poll(ticket, &mut waker, now, woken));
        let ready = match waited {
            Waited::Waits(at) => {
                *look_at = at;
                return Poll::Pending;
            }
            Waited::Admitted(permit) => Ok(permit),
            Waited::Refused(refusal) => Err(refusal),
        };
        self.ticket = None;
        Poll::Ready(ready)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let now = self.door.clock.now();
            let stale = self.door.with(|admission, woken| admission.give_up(ticket, now, woken));
            drop(stale);
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            let now = self.door.clock.now();
            self.door.with(|admission, woken| admission.leave(permit, now, woken));
        }
    }
}

fn status(refusal: &Refusal) -> Status {
    let Refusal { limit, value, retry_after, .. } = *refusal;
    let text = format!("the server's admission control has no room: {limit} is {value}; try again in {retry_after:?}");
    Status::resource_exhausted(text).with_limit(limit, value).with_retry_after(retry_after)
}
