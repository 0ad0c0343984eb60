//! How long an instance of a service lives where that is less than the server does: a connection, or a call.
//!
//! Both are services themselves, which pass calls on to their instances. So the registry knows one kind of service only, and
//! whoever serves a single instance pays nothing for the others.

use crate::server::inbound::Inbound;
use crate::server::service::Service;
use crate::server::shared::Shared;
use punctual_context::Peer;
use punctual_proto::contract::ServiceDescriptor;
use punctual_proto::status::Status;
use std::any::Any;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// A service whose contract is known before there is an instance of it. `#[punctual::service]` writes it.
pub trait Contract: Service {
    /// What [`Service::descriptor`] of every instance says.
    fn contract() -> &'static ServiceDescriptor
    where
        Self: Sized;
}

/// What is kept for a call, up to its end.
pub(crate) type Instance = Arc<dyn Any + Send + Sync>;

/// A service with an instance for each call.
pub(crate) struct PerCall<S, F> {
    make: F,
    made: PhantomData<fn() -> S>,
}

impl<S, F> PerCall<S, F> {
    pub(crate) fn new(make: F) -> Self {
        PerCall { make, made: PhantomData }
    }
}

impl<S, F> Service for PerCall<S, F>
where
    S: Contract,
    F: Fn(&Inbound<'_>) -> Result<S, Status> + Send + Sync + 'static,
{
    fn descriptor(&self) -> &'static ServiceDescriptor {
        S::contract()
    }

    fn dispatch(&self, method: usize, mut call: Inbound<'_>) {
        match (self.make)(&call) {
            Ok(instance) => {
                let instance = Arc::new(instance);
                // A handler holds its service itself; the stream that it returns does not.
                call.keep(Arc::clone(&instance) as Instance);
                instance.dispatch(method, call);
            }
            Err(status) => call.reject(&status),
        }
    }
}

/// Makes the instance of one service for a connection.
pub(crate) struct Factory {
    service: &'static str,
    make: Box<Make>,
}

type Make = dyn Fn(&Peer) -> Result<Arc<dyn Service>, Status> + Send + Sync;

impl Factory {
    pub(crate) fn new<S: Contract>(make: impl Fn(&Peer) -> Result<S, Status> + Send + Sync + 'static) -> Self {
        let make = move |peer: &Peer| make(peer).map(|made| Arc::new(made) as Arc<dyn Service>);
        Factory { service: S::contract().name, make: Box::new(make) }
    }
}

/// A service with an instance for each connection: the one that its factory, at the same place, made.
pub(crate) struct PerConnection {
    pub(crate) place: usize,
    pub(crate) contract: &'static ServiceDescriptor,
}

impl Service for PerConnection {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        self.contract
    }

    fn dispatch(&self, method: usize, call: Inbound<'_>) {
        match call.instances().get(self.place) {
            Some(instance) => instance.dispatch(method, call),
            None => call.reject(&Status::unavailable("the connection closed before the call was started")),
        }
    }
}

/// The instances of one connection, in the order of the server's factories.
#[derive(Default)]
pub(crate) struct Instances(Mutex<Vec<Arc<dyn Service>>>);

impl Instances {
    /// Makes all of them for this peer.
    ///
    /// # Errors
    /// The first refusal. A panic is one, too: it turns this peer away and nobody else.
    pub(crate) fn make(shared: &Shared, peer: &Peer) -> Result<Self, Status> {
        let mut made = Vec::with_capacity(shared.factories.len());
        for factory in &shared.factories {
            match catch_unwind(AssertUnwindSafe(|| (factory.make)(peer))) {
                Ok(instance) => made.push(instance?),
                Err(_) => {
                    shared.panicked(factory.service);
                    return Err(Status::unmapped());
                }
            }
        }
        Ok(Instances(Mutex::new(made)))
    }

    fn get(&self, place: usize) -> Option<Arc<dyn Service>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(place).cloned()
    }

    /// The connection has ended: from here on only the handlers that still run hold their instance.
    pub(crate) fn end(&self) {
        let ended = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for instance in ended {
            // Each is user code, and whoever ends the connection has to go on.
            if catch_unwind(AssertUnwindSafe(|| drop(instance))).is_err() {
                tracing::error!("an instance of a service panicked when it was dropped");
            }
        }
    }
}
