//! What tools ask: calls by name in JSON, descriptions, health.

use crate::client::attempts::{self, Resendable};
use crate::client::channel::Channel;
use crate::client::connection::Connection;
use crate::client::kept::Kept;
use crate::client::oneway::send;
use crate::client::options::CallOptions;
use crate::client::publish::{Callee, deadline_of, refusal_status};
use crate::client::reply::{LiveCall, name_method, read_bytes, read_bytes_answer};
use bytes::Bytes;
use punctual_clock::Instant;
use punctual_proto::contract::{MethodDescriptor, method_id};
use punctual_proto::describe::{HealthStatus, ServiceDescription};
use punctual_proto::frame::CallStreams;
use punctual_proto::handshake::SERVICE_NAME_BYTES_MAX;
use punctual_proto::schema::Type;
use punctual_proto::session::{ClientSession, Opened, Refusal, Reply};
use punctual_proto::status::{CallError, Status};
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// What is asked for without a contract at hand.
pub(super) static ANY: MethodDescriptor = MethodDescriptor::unary("*/*", &Type::Json, &Type::Json, &Type::Json);

impl Channel {
    /// Calls `Service/method` with a JSON object of its arguments, and gives its result as JSON.
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
        options: CallOptions,
    ) -> Result<Bytes, CallError<Bytes>> {
        if let Some(status) = options.invalid() {
            return Err(status.into());
        }
        let callee = Callee {
            service: None,
            method: &ANY,
            id: method_id(full_name),
            json: true,
            oneway: false,
            streams: CallStreams::NONE,
        };
        let deadline = deadline_of(self, &callee, &options)?;
        let call = Resendable {
            channel: self.clone(),
            settings: self.settings(),
            callee,
            args: Kept::new(args),
            options,
            deadline,
        };
        attempts::call(call, None, read_bytes_answer).await.map_err(|error| name_method(error, callee.id, full_name))
    }

    /// Calls the one-way method `Service/method` with a JSON object of its arguments.
    ///
    /// # Errors
    /// Why it was not sent.
    pub async fn send_json(&self, full_name: &str, args: Bytes, options: CallOptions) -> Result<(), Status> {
        if let Some(status) = options.invalid() {
            return Err(status);
        }
        let callee = Callee {
            service: None,
            method: &ANY,
            id: method_id(full_name),
            json: true,
            oneway: true,
            streams: CallStreams::NONE,
        };
        let deadline = deadline_of(self, &callee, &options)?;
        send(
            Resendable {
                channel: self.clone(),
                settings: self.settings(),
                callee,
                args: Kept::new(args),
                options,
                deadline,
            },
            None,
        )
        .await
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
        ServiceDescription::decode_all(&body).map_err(|error| error.into_reply_status())
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
        let mut after: Option<std::sync::Arc<Connection>> = None;
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
