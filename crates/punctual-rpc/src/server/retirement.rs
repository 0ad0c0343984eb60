//! When a connection is asked to make way for another one: at its greatest age, or when its peer's identity expires.

use crate::server::connection::Connection;
use crate::server::stop::{PONG_WITHIN, begin_drain, end_drain};
use punctual_clock::{Entropy, SeededEntropy};
use punctual_proto::frame::GoAwayReason;
use std::future::Future;
use std::pin::Pin;
use std::sync::Weak;
use std::time::Duration;
use tokio::time::sleep;

/// The share of the greatest age that is added by chance.
const SPREAD_DIVISOR: u64 = 10;

/// The end that a connection has before it, if its peer does not end it sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retirement {
    after: Duration,
    why: GoAwayReason,
    text: &'static str,
}

impl Retirement {
    /// `None` where it may live for ever.
    pub(crate) fn of(connection: &Connection) -> Option<Self> {
        let config = &connection.shared().config;
        let age = config.connection_age_max.map(|max| {
            let spread = u64::try_from(max.as_nanos()).unwrap_or(u64::MAX) / SPREAD_DIVISOR;
            let drawn = SeededEntropy::from_system().below(spread.max(1));
            let after = max.saturating_add(Duration::from_nanos(drawn));
            Retirement { after, why: GoAwayReason::Age, text: "the connection has reached its greatest age" }
        });
        let expiry = connection.identity().and_then(|identity| identity.expires).map(|expires| Retirement {
            after: expires.since(config.clock.timestamp()),
            why: GoAwayReason::Unauthenticated,
            text: "the identity that the connection was opened with has expired",
        });
        [age, expiry].into_iter().flatten().min_by_key(|retirement| retirement.after)
    }

    /// Moves the connection to its end. The client hears in time that it should open another one, and calls under way end
    /// on this one.
    pub(crate) async fn accompany(self, mut driver: Pin<&mut impl Future<Output = ()>>, connection: &Weak<Connection>) {
        tokio::select! {
            biased;
            () = &mut driver => return,
            () = sleep(self.after) => {}
        }
        if let Some(connection) = connection.upgrade() {
            begin_drain(&connection, self.why, self.text);
        }
        // What the client had sent before it heard comes before its pong; there is no hurry.
        tokio::select! {
            biased;
            () = &mut driver => return,
            () = sleep(PONG_WITHIN) => {}
        }
        if let Some(connection) = connection.upgrade() {
            end_drain(&connection, self.why, self.text);
        }
        driver.await;
    }
}
