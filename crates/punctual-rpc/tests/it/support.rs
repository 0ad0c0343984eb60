//! What the tests share: a service written by hand as the macro writes it, and a server for each transport.

pub(crate) mod probe;
pub(crate) mod site;

pub(crate) use probe::{Probe, ProbeClient};
pub(crate) use site::Site;
