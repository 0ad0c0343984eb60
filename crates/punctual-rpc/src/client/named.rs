//! Methods that are called by their names, without a contract at hand.

use punctual_proto::contract::MethodDescriptor;
use punctual_proto::describe::ServiceDescription;
use punctual_proto::schema::Type;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError, RwLock};

/// The most methods that a process tells apart by name. What describes one lives as long as the process, so that it can be told
/// to whoever looks on; a method beyond them is called all the same, as `*/*`.
pub(crate) const NAMED_METHODS_MAX: usize = 1_024;

/// The longest name that is told apart: that of a service and that of a method, each as long as can be.
const NAME_BYTES_MAX: usize = 511;

/// What is called without a name of its own.
pub(crate) static ANY: MethodDescriptor = MethodDescriptor::unary("*/*", &Type::Json, &Type::Json, &Type::Json);

/// What a channel has learnt of its server's methods from their descriptions.
#[derive(Debug, Default)]
pub(crate) struct NamedMethods {
    idempotent: RwLock<BTreeMap<String, &'static MethodDescriptor>>,
}

impl NamedMethods {
    /// The server has described itself: what may be made twice is known from here on.
    pub(crate) fn learn(&self, services: &[ServiceDescription]) {
        let methods = services.iter().flat_map(|service| &service.methods).filter(|method| method.idempotent);
        let named = methods.map(|method| (method.full_name.clone(), interned(&method.full_name, true)));
        *self.idempotent.write().unwrap_or_else(PoisonError::into_inner) = named.take(NAMED_METHODS_MAX).collect();
    }

    /// Calls go to other servers.
    pub(crate) fn forget(&self) {
        self.idempotent.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// `Service/method`, as far as it is known. What no description named may not be made twice.
    pub(crate) fn of(&self, full_name: &str) -> &'static MethodDescriptor {
        let known = self.idempotent.read().unwrap_or_else(PoisonError::into_inner).get(full_name).copied();
        known.unwrap_or_else(|| interned(full_name, false))
    }
}

/// The one descriptor of this name, that is never freed.
fn interned(full_name: &str, idempotent: bool) -> &'static MethodDescriptor {
    static DESCRIPTORS: Mutex<BTreeMap<(String, bool), &'static MethodDescriptor>> = Mutex::new(BTreeMap::new());
    let is_name = full_name.len() <= NAME_BYTES_MAX
        && full_name.split_once('/').is_some_and(|(service, method)| !service.is_empty() && !method.is_empty());
    if !is_name {
        return &ANY;
    }
    let mut descriptors = DESCRIPTORS.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (full_name.to_owned(), idempotent);
    if let Some(known) = descriptors.get(&key) {
        return known;
    }
    if descriptors.len() >= NAMED_METHODS_MAX {
        return &ANY;
    }
    let name: &'static str = full_name.to_owned().leak();
    let mut method = MethodDescriptor::unary(name, &Type::Json, &Type::Json, &Type::Json);
    method.idempotent = idempotent;
    let method: &'static MethodDescriptor = Box::leak(Box::new(method));
    descriptors.insert(key, method);
    method
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name has one descriptor; what is no name, or one of too many, has that of any.
    #[test]
    fn names_have_one_descriptor_each() {
        let methods = NamedMethods::default();
        assert!(std::ptr::eq(methods.of("Named/one"), methods.of("Named/one")));
        assert_eq!((methods.of("Named/one").full_name, methods.of("Named/one").idempotent), ("Named/one", false));
        for text in ["", "Named", "/one", "Named/", &format!("Named/{}", "x".repeat(NAME_BYTES_MAX))] {
            assert_eq!(methods.of(text).full_name, "*/*", "{text}");
        }
        for at in 0..=NAMED_METHODS_MAX {
            methods.of(&format!("Named/{at}"));
        }
        assert_eq!(methods.of("Named/beyond").full_name, "*/*");
        assert_eq!(methods.of("Named/one").full_name, "Named/one");
    }
}
