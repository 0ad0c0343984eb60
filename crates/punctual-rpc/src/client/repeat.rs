//! Whether a call may be made more than once, and how: what the call says, else its method, else the channel.

use crate::client::config::ChannelConfig;
use crate::client::hedge::HedgePolicy;
use crate::client::options::CallOptions;
use crate::client::publish::Callee;
use crate::client::retry::RetryPolicy;
use punctual_proto::contract::Shape;
use punctual_proto::status::Status;

/// How a call is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Repeat {
    Once,
    /// Again after a failure.
    Retry(RetryPolicy),
    /// Again while it takes long.
    Hedge(HedgePolicy),
}

impl Repeat {
    /// What two policies mean of which at most one is set.
    pub(crate) fn of(retry: Option<&RetryPolicy>, hedge: Option<&HedgePolicy>) -> Self {
        match (retry, hedge) {
            (_, Some(hedge)) => Repeat::Hedge(hedge.clone()),
            (Some(retry), None) => Repeat::Retry(retry.clone()),
            (None, None) => Repeat::Once,
        }
    }

    /// How this call is made.
    ///
    /// # Errors
    /// Where the call asks for what its method does not allow.
    pub(crate) fn of_call(callee: &Callee, options: &CallOptions, settings: &ChannelConfig) -> Result<Self, Status> {
        let method = callee.method;
        let may_repeat = method.idempotent && method.shape == Shape::Unary;
        // Who calls by name and asks for it says that the method may be made twice: only the contract would know better.
        let is_vouched_for = callee.json && callee.is_unary();
        match options.repeat() {
            Some(Repeat::Once) => Ok(Repeat::Once),
            Some(_) if !may_repeat && !is_vouched_for => Err(Status::invalid_argument(format!(
                "{} may not be made twice: mark it #[rpc(idempotent)] if it is, or drop the policy of this call",
                method.full_name
            ))),
            Some(own) => own.validate().map(|()| own.clone()),
            None if !may_repeat => Ok(Repeat::Once),
            None => {
                let policy = settings.policy_of(method.full_name);
                Ok(Repeat::of(policy.retry.as_ref(), policy.hedge.as_ref()))
            }
        }
    }

    fn validate(&self) -> Result<(), Status> {
        match self {
            Repeat::Once => Ok(()),
            Repeat::Retry(policy) => policy.validate(),
            Repeat::Hedge(policy) => policy.validate(),
        }
    }
}
