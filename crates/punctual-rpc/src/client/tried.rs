//! Where the attempts of one call have gone, so that the next one goes elsewhere.

use crate::client::connection::Connection;
use crate::client::endpoint::Endpoint;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The endpoints that a call's attempts were sent to, or wait at. There are never more than the call has attempts.
#[derive(Default)]
pub(crate) struct Tried(Mutex<Vec<Weak<Endpoint>>>);

impl Tried {
    /// An attempt goes through this connection.
    pub(crate) fn add(&self, connection: &Connection) {
        if let Some(home) = connection.home().filter(|home| !self.has(home)) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&home));
        }
    }

    /// Whether one went there.
    pub(crate) fn has(&self, endpoint: &Arc<Endpoint>) -> bool {
        let tried = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tried.iter().any(|tried| std::ptr::eq(tried.as_ptr(), Arc::as_ptr(endpoint)))
    }
}

/// What the choice of a connection passes over.
#[derive(Clone, Copy, Default)]
pub(crate) struct Past<'a> {
    /// Never this one: it took the call not, or no more.
    pub(crate) connection: Option<&'a Arc<Connection>>,
    /// These endpoints only where no other is alive.
    pub(crate) tried: Option<&'a Tried>,
}

impl<'a> Past<'a> {
    /// Another connection than this.
    pub(crate) fn this(connection: Option<&'a Arc<Connection>>) -> Self {
        Past { connection, tried: None }
    }

    /// The same, the endpoints that were tried included.
    pub(crate) fn none_tried(self) -> Self {
        Past { tried: None, ..self }
    }

    pub(crate) fn has_tried(&self, endpoint: &Arc<Endpoint>) -> bool {
        self.tried.is_some_and(|tried| tried.has(endpoint))
    }
}
