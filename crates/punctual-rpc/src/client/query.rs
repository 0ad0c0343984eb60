//! What tools ask: calls by name in JSON, descriptions, health.

use crate::client::attempts::{self, Resendable};
use crate::client::channel::Channel;
use crate::client::connection::Connection;
use crate::client::intercept::around;
use crate::client::oneway::{send, status_of};
use crate::client::options::CallOptions;
use crate::client::publish::{Callee, deadline_of, refusal_status};
use crate::client::reply::{LiveCall, name_method, read_bytes, read_bytes_answer};
use crate::telemetry::{Watch, outcome_of, sent_outcome, watched};
use crate::transport::BoxFuture;
use bytes::Bytes;
use punctual_clock::Instant;
use punctual_proto::contract::method_id;
use punctual_proto::describe::{HealthStatus, ServiceDescription};
use punctual_proto::frame::CallStreams;
use punctual_proto::handshake::SERVICE_NAME_BYTES_MAX;
use punctual_proto::session::{ClientSession, Opened, Refusal, Reply};
use punctual_proto::status::{CallError, Status};
use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

impl Channel {
    /// Calls `Service/method` with a JSON object of its arguments, and gives its result as JSON.
    ///
    /// The channel's interceptors, observers, breakers and budgets take part as in any call: to them the request, the result and
    /// the method's own error are [`Bytes`] of JSON. It is made again by the channel's policies where [`Channel::describe`]
    /// has told that the method is idempotent, and by the policy of its own options in any case.
    ///
    /// # Errors
    /// [`CallError::App`] with the method's own error as JSON, else a status.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call.
    pub async fn call_json(
        &self,
        full_name: &str,
        args: Bytes,
        mut options: CallOptions,
    ) -> Result<Bytes, CallError<Bytes>> {
        let callee = self.callee_by_name(full_name, false, CallStreams::NONE);
        let watch = Watch::client(self, callee.method, &mut options);
        let call = async {
            if let Some(status) = options.invalid() {
                return Err(status.into());
            }
            let (deadline, settings) = (deadline_of(self, &callee, &options)?, self.settings());
            let (channel, generation) = (self.clone(), Arc::clone(&settings));
            let last = move |args, options: CallOptions| -> BoxFuture<'static, Result<Bytes, CallError<Bytes>>> {
                let (channel, settings, deadline) = (channel.clone(), Arc::clone(&generation), options.deadline);
                let call = Resendable::new(channel, settings, callee, args, options, deadline);
                Box::pin(attempts::call(call, None, read_bytes_answer))
            };
            if settings.interceptors.is_empty() {
                return last(args, options.fixed(deadline)).await;
            }
            around(settings, callee, args, options, deadline, last).await
        };
        let result = watched(watch, call, |result, watch| watch.end(outcome_of(result))).await;
        result.map_err(|error| name_method(error, callee.id, full_name))
    }

    /// Calls the one-way method `Service/method` with a JSON object of its arguments. Interceptors and the rest take part as in
    /// [`Channel::call_json`].
    ///
    /// # Errors
    /// Why it was not sent.
    pub async fn send_json(&self, full_name: &str, args: Bytes, mut options: CallOptions) -> Result<(), Status> {
        let callee = self.callee_by_name(full_name, true, CallStreams::NONE);
        let watch = Watch::client(self, callee.method, &mut options);
        let call = async {
            if let Some(status) = options.invalid() {
                return Err(status);
            }
            let (deadline, settings) = (deadline_of(self, &callee, &options)?, self.settings());
            let (channel, generation) = (self.clone(), Arc::clone(&settings));
            let last = move |args, options: CallOptions| -> BoxFuture<'static, Result<(), CallError<Infallible>>> {
                let (channel, settings, deadline) = (channel.clone(), Arc::clone(&generation), options.deadline);
                let call = Resendable::new(channel, settings, callee, args, options, deadline);
                Box::pin(async move { send(call, None).await.map_err(CallError::Status) })
            };
            if settings.interceptors.is_empty() {
                return last(args, options.fixed(deadline)).await.map_err(status_of);
            }
            around(settings, callee, args, options, deadline, last).await.map_err(status_of)
        };
        watched(watch, call, |result, watch| watch.end(sent_outcome(result))).await
    }

    /// What is called by this name.
    pub(crate) fn callee_by_name(&self, full_name: &str, oneway: bool, streams: CallStreams) -> Callee {
        let method = self.named().of(full_name);
        Callee { service: None, method, id: method_id(full_name), json: true, oneway, streams }
    }

    /// The contracts of the server's services, as plain data.
    ///
    /// # Errors
    /// Where there is no connection, or the answer does not come within the channel's default timeout.
    pub async fn describe(&self) -> Result<Vec<ServiceDescription>, Status> {
        let body = self.query("", ClientSession::ask_describe, read_bytes).await?;
        let body = body.map_err(|error| match error {
            CallError::Status(status) => status,
            CallError::App(_) => Status::internal("a describe reply with an application error"),
        })?;
        let services = ServiceDescription::decode_all(&body).map_err(|error| error.into_reply_status())?;
        self.named().learn(&services);
        Ok(services)
    }

    /// The health of a service, or of the server as a whole for an empty name.
    ///
    /// # Errors
    /// Where there is no connection, or the answer does not come within the channel's default timeout.
    pub async fn health(&self, service: &str) -> Result<HealthStatus, Status> {
        if service.len() > SERVICE_NAME_BYTES_MAX as usize {
            return Ok(HealthStatus::UnknownService);
        }
        self.query(service, ClientSession::ask_health, |reply, _| match reply {
            Reply::Health(health) => Ok(health),
            Reply::Failed(ending) => Err(ending.status()),
            _ => Err(Status::internal("a reply of another kind to a health query")),
        })
        .await?
    }

    async fn query<R>(
        &self,
        service: &str,
        ask: impl Fn(&mut ClientSession, &str, Instant, Instant, &mut Option<Waker>) -> Result<Opened, Refusal>,
        read: impl FnOnce(Reply, &[u8]) -> R,
    ) -> Result<R, Status> {
        let now = self.clock().now();
        let deadline = self.default_timeout().map_or(Instant::FAR, |timeout| now.after(timeout));
        let mut after: Option<Arc<Connection>> = None;
        loop {
            let connection = self.reach(deadline, after.as_ref()).await?;
            let now = self.clock().now();
            let opened = poll_fn(|cx| {
                let mut waker = Some(cx.waker().clone());
                let opened = ask(&mut connection.session(), service, deadline, now, &mut waker);
                Poll::Ready(opened)
            })
            .await;
            match opened {
                Ok(opened) => {
                    if let Some(driver) = opened.driver {
                        driver.wake();
                    }
                    let mut live = LiveCall::new(connection, opened.key);
                    let mut read = Some(read);
                    return poll_fn(|cx| live.poll(cx, |reply, copied| read.take().map(|read| read(reply, copied))))
                        .await
                        .ok_or(Status::internal("a reply was read twice"));
                }
                Err(Refusal::Closed(_)) => after = Some(connection),
                Err(refusal) => return Err(refusal_status(refusal)),
            }
        }
    }
}
