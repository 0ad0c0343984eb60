//! The client's lock-free parts, and stubs of what they name.

#[path = "../../../crates/punctual-rpc/src/client/retry/budget.rs"]
#[expect(dead_code, unreachable_pub, reason = "the models need a part of the file")]
pub(crate) mod budget;
#[path = "../../../crates/punctual-rpc/src/client/contracts.rs"]
#[cfg_attr(not(test), expect(dead_code, reason = "the models need a part of the file"))]
pub(crate) mod contracts;
#[path = "../../../crates/punctual-rpc/src/client/duty.rs"]
pub(crate) mod duty;
#[path = "../../../crates/punctual-rpc/src/client/lane.rs"]
pub(crate) mod lane;
#[path = "../../../crates/punctual-rpc/src/client/pool.rs"]
#[expect(dead_code, reason = "the models need a part of the file")]
pub(crate) mod pool;
#[path = "../../../crates/punctual-rpc/src/client/settings.rs"]
#[expect(dead_code, reason = "the models need a part of the file")]
pub(crate) mod settings;

/// A connection is who it is.
pub(crate) mod connection {
    #[derive(Debug, PartialEq, Eq)]
    pub(crate) struct Connection(pub(crate) u32);
}

/// A connector keeps a connection.
pub(crate) mod connector {
    use super::connection::Connection;
    use crate::sync::ArcSwapOption;
    use std::sync::Arc;

    pub(crate) struct Connector {
        id: u64,
        pub(crate) own: ArcSwapOption<Connection>,
    }

    impl Connector {
        pub(crate) fn new(id: u64) -> Self {
            Connector { id, own: ArcSwapOption::empty() }
        }

        pub(crate) fn id(&self) -> u64 {
            self.id
        }

        pub(crate) fn current(&self) -> Option<Arc<Connection>> {
            self.own.load_full()
        }
    }
}

/// The two settings that are mirrored.
pub(crate) mod config {
    use punctual_proto::status::Status;
    use std::time::Duration;

    #[derive(Clone)]
    pub(crate) struct ChannelConfig {
        pub(crate) default_timeout: Option<Duration>,
        pub(crate) retries: bool,
    }

    impl ChannelConfig {
        pub(crate) fn has_policies(&self) -> bool {
            self.retries
        }

        pub(crate) fn is_observed(&self) -> bool {
            self.retries
        }

        pub(crate) fn validate(&self) -> Result<(), Status> {
            Ok(())
        }

        pub(crate) fn check_fixed(&self, _: &ChannelConfig) -> Result<(), Status> {
            Ok(())
        }
    }
}
