//! A call that a breaker let through, until it knows how that ended.

use crate::client::breaker::{End, Permit};
use crate::client::config::ChannelConfig;
use crate::client::endpoint::Endpoint;
use punctual_proto::status::Status;
use std::sync::Arc;

/// The duty to tell an endpoint's breaker how a call ended. Dropped, it tells that nobody knows.
pub(crate) struct Trial {
    endpoint: Arc<Endpoint>,
    /// Those that the call began with.
    settings: Arc<ChannelConfig>,
    permit: Option<Permit>,
}

impl Trial {
    pub(crate) fn new(endpoint: Arc<Endpoint>, settings: Arc<ChannelConfig>, permit: Permit) -> Self {
        Trial { endpoint, settings, permit: Some(permit) }
    }

    /// The call ended, with this status or without a failure of anybody's but the application's.
    pub(crate) fn end(mut self, status: Option<&Status>) {
        let end = self.settings.breaker.as_ref().map_or(End::Unknown, |policy| policy.judge(status));
        self.tell(end);
    }

    fn tell(&mut self, end: End) {
        if let (Some(permit), Some(policy)) = (self.permit.take(), &self.settings.breaker) {
            self.endpoint.record(policy, permit, end);
        }
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        self.tell(End::Unknown);
    }
}
