//! Which methods an engine runs, and with which policy.

use crate::{DurableMethod, Error, ErrorKind, Handlers};
use punctual_task::check_name;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most methods of one engine: every claim names them all.
const METHODS_MAX: usize = 10_000;

/// One method and who runs it.
#[derive(Debug, Clone)]
pub(crate) struct Served {
    pub(crate) method: DurableMethod,
    pub(crate) handlers: Arc<dyn Handlers>,
}

/// All methods of an engine, by full name.
#[derive(Debug, Default)]
pub(crate) struct Methods {
    by_name: BTreeMap<&'static str, Served>,
}

impl Methods {
    /// Adds a service's methods.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] where a name is served twice, is no name, or there are too many.
    pub(crate) fn add(&mut self, handlers: Arc<dyn Handlers>) -> Result<(), Error> {
        let refuse = |text: String| Error::new(ErrorKind::Config, text);
        for method in handlers.methods() {
            check_name("method", method.name).map_err(|error| refuse(error.to_string()))?;
            if method.policy.attempts == 0 {
                return Err(refuse(format!("{} has 0 attempts; it needs at least 1", method.name)));
            }
            let served = Served { method, handlers: Arc::clone(&handlers) };
            if self.by_name.insert(method.name, served).is_some() {
                return Err(refuse(format!("{} is served twice by one engine", method.name)));
            }
        }
        if self.by_name.len() > METHODS_MAX {
            return Err(refuse(format!("{} methods are served; at most {METHODS_MAX} may be", self.by_name.len())));
        }
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Served> {
        self.by_name.get(name)
    }

    /// The names, as a claim lists them.
    pub(crate) fn names(&self) -> Vec<String> {
        self.by_name.keys().map(|name| (*name).to_owned()).collect()
    }
}
