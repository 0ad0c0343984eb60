//! Who is on the other end of a connection, once it has proved it.

use punctual_clock::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// Who is on the other end of a connection, as the server's authentication found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    /// Who it is, in the words of whoever vouches for it.
    pub subject: String,
    /// On whose behalf it acts, where there are several.
    pub tenant: Option<String>,
    /// What it may do.
    pub scopes: BTreeSet<String>,
    /// What else is said of it.
    pub claims: BTreeMap<String, String>,
    /// When all this ends; calls after that are refused. `None`: with the connection.
    pub expires: Option<Timestamp>,
}

impl Identity {
    /// An identity with a name and nothing else.
    #[must_use]
    pub fn new(subject: impl Into<String>) -> Self {
        Identity { subject: subject.into(), ..Identity::default() }
    }

    /// The same with this scope, too.
    #[must_use]
    pub fn with_scope(mut self, scope: impl Into<String>) -> Self {
        self.scopes.insert(scope.into());
        self
    }

    /// The same on this tenant's behalf.
    #[must_use]
    pub fn with_tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// The same until then.
    #[must_use]
    pub fn until(mut self, expires: Timestamp) -> Self {
        self.expires = Some(expires);
        self
    }

    /// Whether it has this scope.
    #[must_use]
    pub fn has_scope(&self, scope: &str) -> bool {
        self.scopes.contains(scope)
    }
}
