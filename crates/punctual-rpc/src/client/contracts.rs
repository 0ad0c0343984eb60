//! Which codec each method is spoken to in, on one connection.

use crate::sync::{Mutex, OnceLock, RwLock};
use punctual_proto::codec::Codec;
use punctual_proto::contract::{MethodDescriptor, ServiceDescriptor};
use punctual_proto::handshake::ServiceEntry;
use std::collections::BTreeMap;
use std::ptr;
use std::sync::{Arc, PoisonError};
use tokio::sync::Notify;

/// Services whose codec is found without a lock. A client rarely speaks to more over one connection.
const QUICK: usize = 8;

/// The contracts that the server announced, and what comparing them with ours gave.
pub(crate) struct Contracts {
    announced: BTreeMap<String, [u8; 16]>,
    quick: [OnceLock<Known>; QUICK],
    others: RwLock<BTreeMap<usize, Known>>,
    /// Services whose description is still to be asked for: each that differs comes here once.
    unasked: Mutex<Vec<Arc<Differing>>>,
    bell: Notify,
}

/// A service that was compared.
#[derive(Clone)]
struct Known {
    /// Of our own descriptor, which is static.
    address: usize,
    /// Nothing where both sides have the same contract.
    differing: Option<Arc<Differing>>,
}

/// A service whose contract is not the server's.
pub(crate) struct Differing {
    service: &'static ServiceDescriptor,
    /// The ids of the methods that are the same all the same, in ascending order; unset until the server has told.
    equal: OnceLock<Vec<u64>>,
}

impl Known {
    #[inline]
    fn codec(&self, method: &MethodDescriptor) -> Codec {
        match &self.differing {
            None => Codec::Compact,
            Some(differing) => differing.codec(method),
        }
    }
}

impl Differing {
    #[cold]
    fn codec(&self, method: &MethodDescriptor) -> Codec {
        match self.equal.get() {
            Some(equal) if equal.binary_search(&method.id).is_ok() => Codec::Compact,
            _ => Codec::Named,
        }
    }

    pub(crate) fn service(&self) -> &'static ServiceDescriptor {
        self.service
    }

    /// Methods with these ids, in ascending order, are the same on both sides; the others are not. Holds for good.
    pub(crate) fn settle(&self, equal: Vec<u64>) {
        // Each service is asked about once.
        let _ = self.equal.set(equal);
    }
}

impl Contracts {
    pub(crate) fn new(services: &[ServiceEntry]) -> Self {
        Contracts {
            announced: services.iter().map(|entry| (entry.name.clone(), entry.contract)).collect(),
            quick: Default::default(),
            others: RwLock::default(),
            unasked: Mutex::new(Vec::new()),
            bell: Notify::new(),
        }
    }

    /// Compact where both sides have the same contract, or the same method in different ones as far as that is known;
    /// else named.
    pub(crate) fn codec(&self, service: &'static ServiceDescriptor, method: &MethodDescriptor) -> Codec {
        let address = ptr::from_ref(service).addr();
        for place in &self.quick {
            match place.get() {
                Some(known) if known.address == address => return known.codec(method),
                Some(_) => {}
                None => break,
            }
        }
        self.compare(service, method, address)
    }

    /// The next service whose methods are to be compared, once there is one.
    ///
    /// # Cancel safety
    /// Dropping the future loses none.
    pub(crate) async fn differing(&self) -> Arc<Differing> {
        loop {
            // A ring while nobody waits is kept for who waits next.
            if let Some(differing) = self.unasked.lock().unwrap_or_else(PoisonError::into_inner).pop() {
                return differing;
            }
            self.bell.notified().await;
        }
    }

    #[cold]
    fn compare(&self, service: &'static ServiceDescriptor, method: &MethodDescriptor, address: usize) -> Codec {
        if let Some(known) = self.others.read().unwrap_or_else(PoisonError::into_inner).get(&address) {
            return known.codec(method);
        }
        let theirs = self.announced.get(service.name);
        let same = theirs.is_some_and(|theirs| *theirs == service.contract_hash());
        let differing = (!same).then(|| Arc::new(Differing { service, equal: OnceLock::new() }));
        let ours = Known { address, differing };
        let kept = self.keep(&ours);
        // Of two callers that compare at once, one has what is kept. What is not announced has no description.
        if let (Some(differing), Some(kept)) = (&ours.differing, &kept.differing)
            && Arc::ptr_eq(differing, kept)
            && theirs.is_some()
        {
            self.unasked.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(kept));
            self.bell.notify_one();
        }
        kept.codec(method)
    }

    /// What is known of the service from here on: this, or what another caller was quicker with.
    fn keep(&self, ours: &Known) -> Known {
        for place in &self.quick {
            let known = place.get_or_init(|| ours.clone());
            if known.address == ours.address {
                return known.clone();
            }
        }
        let mut others = self.others.write().unwrap_or_else(PoisonError::into_inner);
        others.entry(ours.address).or_insert_with(|| ours.clone()).clone()
    }
}

// Named, since the models compile this file from another place.
#[cfg(test)]
#[path = "contracts/tests.rs"]
mod tests;
