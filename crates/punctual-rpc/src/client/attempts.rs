//! What is not plain about a unary call: waiting for a connection, and being made more than once.
//!
//! ```text
//!  call ─▶ attempt ─▶ publish ─▶ reply ─▶ result
//!             ▲  ▲        ▲        │ never accepted: sent again elsewhere
//!             │  │        └────────┘
//!             │  └── a failure that may pass: wait, take a token, again (retry.rs)
//!             └── it takes long: take a token, one more beside it (hedge.rs)
//! ```

use crate::client::channel::Channel;
use crate::client::config::ChannelConfig;
use crate::client::connection::Connection;
use crate::client::hedge::hedged;
use crate::client::kept::Kept;
use crate::client::options::CallOptions;
use crate::client::publish::{Callee, Published, Sent, publish_slowly};
use crate::client::repeat::Repeat;
use crate::client::reply::{Answer, LiveCall};
use crate::client::timer::sleep_until;
use crate::client::tried::Tried;
use punctual_clock::Instant;
use punctual_proto::codec::Args;
use punctual_proto::session::{Refusal, Reply};
use punctual_proto::status::{CallError, Status};
use serde::Serialize;
use std::future::poll_fn;
use std::sync::Arc;

/// How often one attempt may find that its server went away before it took the call. Each time is another connection, so
/// only servers that all stop at once come to it.
const NEVER_ACCEPTED_MAX: u32 = 8;

/// A call whose deadline is fixed, with everything that each of its attempts needs.
pub(crate) struct Resendable<A> {
    pub(crate) channel: Channel,
    /// Those that the call began with.
    pub(crate) settings: Arc<ChannelConfig>,
    pub(crate) callee: Callee,
    pub(crate) args: Kept<A>,
    pub(crate) options: CallOptions,
    pub(crate) deadline: Instant,
    pub(crate) tried: Tried,
}

impl<A> Resendable<A> {
    pub(crate) fn new(
        channel: Channel,
        settings: Arc<ChannelConfig>,
        callee: Callee,
        args: A,
        options: CallOptions,
        deadline: Instant,
    ) -> Self {
        Resendable { channel, settings, callee, args: Kept::new(args), options, deadline, tried: Tried::default() }
    }
}

/// How often a call was sent in vain.
#[derive(Debug, Default)]
pub(crate) struct Resends(u32);

impl Resends {
    /// The server went away before it took the call. Gives why the next connection is another one, or, where it was sent
    /// often enough, what the call ends with.
    pub(crate) fn again(
        &mut self,
        channel: &Channel,
        connection: Arc<Connection>,
    ) -> Result<(Arc<Connection>, Refusal), Status> {
        if self.0 >= NEVER_ACCEPTED_MAX {
            return Err(never_accepted());
        }
        self.0 += 1;
        channel.counters().count_resend();
        Ok((connection, Refusal::GoingAway))
    }
}

/// What a call ends with that cannot be sent again.
pub(crate) fn never_accepted() -> Status {
    punctual_proto::session::Ending::NeverAccepted.status()
}

/// Makes the call, as often as its policy says. `refused` is the connection that did not take it at its first poll.
pub(crate) async fn call<A, T, E>(
    call: Resendable<A>,
    mut refused: Option<(Arc<Connection>, Refusal)>,
    read: fn(Reply, &[u8]) -> Answer<T, E>,
) -> Result<T, CallError<E>>
where
    A: Args + Serialize + Send,
{
    let settings = Arc::clone(&call.settings);
    let repeat = Repeat::of_call(&call.callee, &call.options, &settings)?;
    if repeat != Repeat::Once {
        call.channel.tokens().deposit(&settings.retry_budget);
    }
    let policy = match &repeat {
        Repeat::Once => None,
        Repeat::Retry(policy) => Some(policy),
        Repeat::Hedge(policy) => return hedged(&call, policy, &settings, refused, read).await,
    };
    let mut made = 1;
    loop {
        let error = match attempt(&call, refused.take(), read).await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let entropy = &*settings.entropy;
        let wait = match (policy, error.status()) {
            (Some(policy), Some(status)) => policy.wait_after(made, status, entropy),
            _ => None,
        };
        let Some(wait) = wait else { return Err(error) };
        let until = call.channel.clock().now().after(wait);
        // A wait that the deadline cuts short helps nobody: the failure is told now, while it says what is wrong.
        if until >= call.deadline || !call.channel.tokens().withdraw(&settings.retry_budget) {
            return Err(error);
        }
        drop(error);
        sleep_until(call.channel.clock(), until).await;
        made += 1;
        call.channel.counters().count_retry();
    }
}

/// One attempt. It is one physical one, but where a server went away before it took the call.
pub(crate) async fn attempt<A, T, E>(
    call: &Resendable<A>,
    mut refused: Option<(Arc<Connection>, Refusal)>,
    read: fn(Reply, &[u8]) -> Answer<T, E>,
) -> Result<T, CallError<E>>
where
    A: Args + Serialize + Send,
{
    let mut resends = Resends::default();
    loop {
        let Sent { connection, published, trial } = publish_slowly(call, refused).await?;
        let Published::Live(key) = published else {
            return Err(Status::internal("a unary method with a one-way shape").into());
        };
        let mut live = LiveCall::of(Arc::clone(&connection), key, &call.options);
        match poll_fn(|cx| live.poll(cx, read)).await {
            Answer::Result(result) => {
                if let Some(trial) = trial {
                    trial.end(result.as_ref().err().and_then(CallError::status));
                }
                return result;
            }
            Answer::NeverAccepted => refused = Some(resends.again(&call.channel, connection)?),
        }
    }
}
