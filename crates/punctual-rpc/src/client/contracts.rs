//! Which codec each service is spoken to in, on one connection.

use crate::sync::{OnceLock, RwLock};
use punctual_proto::codec::Codec;
use punctual_proto::contract::ServiceDescriptor;
use punctual_proto::handshake::ServiceEntry;
use std::collections::BTreeMap;
use std::ptr;
use std::sync::PoisonError;

/// Services whose codec is found without a lock. A client rarely speaks to more over one connection.
const QUICK: usize = 8;

/// The contracts that the server announced, and what comparing them with ours gave.
pub(crate) struct Contracts {
    announced: BTreeMap<String, [u8; 16]>,
    /// By the address of our own descriptor, which is static.
    quick: [OnceLock<(usize, Codec)>; QUICK],
    others: RwLock<BTreeMap<usize, Codec>>,
}

impl Contracts {
    pub(crate) fn new(services: &[ServiceEntry]) -> Self {
        Contracts {
            announced: services.iter().map(|entry| (entry.name.clone(), entry.contract)).collect(),
            quick: Default::default(),
            others: RwLock::default(),
        }
    }

    /// Compact where both sides have the same contract, else named.
    pub(crate) fn codec(&self, service: &'static ServiceDescriptor) -> Codec {
        let address = ptr::from_ref(service).addr();
        for place in &self.quick {
            match place.get() {
                Some((known, codec)) if *known == address => return *codec,
                Some(_) => {}
                None => break,
            }
        }
        self.compare(service, address)
    }

    #[cold]
    fn compare(&self, service: &'static ServiceDescriptor, address: usize) -> Codec {
        if let Some(codec) = self.others.read().unwrap_or_else(PoisonError::into_inner).get(&address) {
            return *codec;
        }
        let codec = match self.announced.get(service.name) {
            Some(theirs) if *theirs == service.contract_hash() => Codec::Compact,
            _ => Codec::Named,
        };
        for place in &self.quick {
            let (known, codec) = *place.get_or_init(|| (address, codec));
            if known == address {
                return codec;
            }
        }
        self.others.write().unwrap_or_else(PoisonError::into_inner).insert(address, codec);
        codec
    }
}
