//! The table of what there is, and who may ask for it.

use super::rest::{Call, TABLE};
use super::role::Role;

/// How a route is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    Post,
    Patch,
}

impl Verb {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Verb::Get => "GET",
            Verb::Post => "POST",
            Verb::Patch => "PATCH",
        }
    }
}

/// Who may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Everyone who reaches the address: it says nothing but whether the daemon lives.
    Open,
    /// Those who have this role.
    Role(Role),
    /// Those who have the role of the method that is called.
    OfMethod,
}

/// What is done.
#[derive(Debug, Clone, Copy)]
pub(super) enum Action {
    Health,
    Ready,
    Metrics,
    OpenApi,
    Events,
    Gateway,
    /// A method of the admin contract.
    Admin(&'static Call),
}

impl Action {
    /// The method of the admin contract, if it is one.
    pub(super) const fn call(self) -> Option<&'static Call> {
        match self {
            Action::Admin(call) => Some(call),
            _ => None,
        }
    }
}

/// One row. There is no route without one, and no row without an access.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) verb: Verb,
    pub(super) path: &'static str,
    pub(super) access: Access,
    pub(super) action: Action,
}

/// Those that have no method of the admin contract.
static DAEMON: &[Route] = &[
    Route { verb: Verb::Get, path: "/healthz", access: Access::Open, action: Action::Health },
    Route { verb: Verb::Get, path: "/readyz", access: Access::Open, action: Action::Ready },
    Route { verb: Verb::Get, path: "/metrics", access: Access::Role(Role::View), action: Action::Metrics },
    Route { verb: Verb::Get, path: "/api/v1/openapi.json", access: Access::Role(Role::View), action: Action::OpenApi },
    Route { verb: Verb::Get, path: "/api/v1/events", access: Access::Role(Role::View), action: Action::Events },
    Route { verb: Verb::Post, path: "/rpc/{service}/{method}", access: Access::OfMethod, action: Action::Gateway },
];

/// Every route.
pub(super) fn routes() -> impl Iterator<Item = &'static Route> {
    DAEMON.iter().chain(TABLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = include_str!("../../../../docs/http.md");

    /// The document has a row for each route, with the role that it needs.
    #[test]
    fn the_document_names_every_route() {
        for route in routes() {
            let role = match route.access {
                Access::Open => "none",
                Access::Role(role) => role.as_str(),
                Access::OfMethod => "by method",
            };
            let path = route.path.replace("{service}/{method}", "Service/method");
            let row = format!("| `{} {path}` | {role} |", route.verb.as_str());
            assert!(DOCUMENT.contains(&row), "{row}");
        }
    }

    /// No two routes are the same, so that each has one rule.
    #[test]
    fn routes_differ() {
        let mut all: Vec<_> = routes().map(|route| (route.path, route.verb.as_str())).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
