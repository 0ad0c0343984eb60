//! From the id of a method to its service.

use crate::server::error::ServerError;
use crate::server::service::Service;
use bytes::Bytes;
use punctual_proto::admission::AdmissionLimits;
use punctual_proto::contract::{MethodDescriptor, ServiceDescriptor};
use punctual_proto::describe::ServiceDescription;
use punctual_proto::handshake::ServiceEntry;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A method that is served.
pub(crate) struct Method<'a> {
    pub(crate) service: &'a dyn Service,
    pub(crate) index: usize,
    pub(crate) descriptor: &'static MethodDescriptor,
}

/// The services of a server. Open addressing over the ids, which are hashes already.
pub(crate) struct Registry {
    services: Vec<Arc<dyn Service>>,
    table: Vec<Option<(u64, u32, u32)>>,
    /// The describe replies: of all services under the empty name, and of each.
    descriptions: BTreeMap<String, Bytes>,
}

impl Registry {
    pub(crate) fn new(services: Vec<Arc<dyn Service>>) -> Result<Self, ServerError> {
        let count: usize = services.iter().map(|service| service.descriptor().methods.len()).sum();
        let mut table: Vec<Option<(u64, u32, u32)>> = vec![None; (count * 2).next_power_of_two().max(2)];
        let mask = table.len() - 1;
        let mut descriptions = BTreeMap::new();
        let mut all = Vec::new();
        for (at, service) in services.iter().enumerate() {
            let descriptor = service.descriptor();
            let description = ServiceDescription::from(descriptor);
            if descriptions.insert(descriptor.name.to_owned(), encode(std::slice::from_ref(&description))?).is_some() {
                return Err(ServerError::config(format!("the service {:?} is served twice", descriptor.name)));
            }
            all.push(description);
            for (index, method) in descriptor.methods.iter().enumerate() {
                let mut slot = usize::try_from(method.id & mask as u64).unwrap_or(0);
                while let Some(Some((id, ..))) = table.get(slot) {
                    if *id == method.id {
                        let text = format!("the method {} has the same 64-bit id as another one", method.full_name);
                        return Err(ServerError::config(text));
                    }
                    slot = (slot + 1) & mask;
                }
                if let Some(place) = table.get_mut(slot) {
                    *place = Some((method.id, u32::try_from(at).unwrap_or(0), u32::try_from(index).unwrap_or(0)));
                }
            }
        }
        descriptions.insert(String::new(), encode(&all)?);
        Ok(Registry { services, table, descriptions })
    }

    pub(crate) fn find(&self, id: u64) -> Option<Method<'_>> {
        let mask = self.table.len() - 1;
        let mut slot = usize::try_from(id & mask as u64).unwrap_or(0);
        loop {
            match self.table.get(slot)? {
                Some((known, service, index)) if *known == id => {
                    let service = &**self.services.get(*service as usize)?;
                    let index = *index as usize;
                    return Some(Method { service, index, descriptor: service.descriptor().methods.get(index)? });
                }
                Some(_) => slot = (slot + 1) & mask,
                None => return None,
            }
        }
    }

    /// The contracts that are served.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = &'static ServiceDescriptor> {
        self.services.iter().map(|service| service.descriptor())
    }

    /// The first of these names that is no service or method of this server.
    pub(crate) fn unknown<'a>(&self, admission: &'a AdmissionLimits) -> Option<&'a str> {
        let method = |name: &str| self.descriptors().any(|one| one.methods.iter().any(|one| one.full_name == name));
        let service = admission.services.keys().find(|name| !self.has_service(name));
        service.or_else(|| admission.methods.keys().find(|name| !method(name))).map(String::as_str)
    }

    pub(crate) fn has_service(&self, name: &str) -> bool {
        self.services.iter().any(|service| service.descriptor().name == name)
    }

    pub(crate) fn description(&self, service: &str) -> Option<&Bytes> {
        self.descriptions.get(service)
    }

    /// What is served, for the answer to a call of what is not.
    pub(crate) fn names(&self) -> String {
        let names: Vec<&str> = self.services.iter().map(|service| service.descriptor().name).collect();
        if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
    }

    pub(crate) fn entries(&self) -> Vec<ServiceEntry> {
        let entry = |service: &Arc<dyn Service>| {
            let descriptor = service.descriptor();
            ServiceEntry { name: descriptor.name.to_owned(), contract: descriptor.contract_hash() }
        };
        self.services.iter().map(entry).collect()
    }
}

fn encode(descriptions: &[ServiceDescription]) -> Result<Bytes, ServerError> {
    ServiceDescription::encode_all(descriptions)
        .map(Bytes::from)
        .map_err(|error| ServerError::config(format!("a contract cannot be described: {error}")))
}
