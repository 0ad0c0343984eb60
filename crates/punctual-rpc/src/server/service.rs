//! What a server serves.

use crate::server::inbound::Inbound;
use punctual_proto::contract::ServiceDescriptor;

/// An implementation of a contract, as a server runs it. `#[punctual::service]` writes it.
pub trait Service: Send + Sync + 'static {
    /// The contract.
    fn descriptor(&self) -> &'static ServiceDescriptor;

    /// Starts a call of the method at `method` in the descriptor. It runs in the connection's own task and must not
    /// block; [`Inbound::unary`] and [`Inbound::oneway`] spawn the handler.
    fn dispatch(&self, method: usize, call: Inbound<'_>);
}
