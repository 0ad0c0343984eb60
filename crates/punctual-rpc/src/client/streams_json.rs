//! Calls with streams by name, for tools: everything that is given and taken is JSON.

use crate::client::channel::Channel;
use crate::client::oneway::status_of;
use crate::client::options::CallOptions;
use crate::client::reply::{name_method, read_failure_bytes};
use crate::client::streams::{Parts, intercepted, oneway, returned, single_bytes};
use crate::streaming::{JsonSource, Remote, RemoteEnd, Source, read_status};
use crate::telemetry::{CallOutcome, Watch, outcome_of, sent_outcome, watched};
use bytes::Bytes;
use futures_core::Stream;
use punctual_proto::frame::{CallStreams, Outcome};
use punctual_proto::status::{CallError, Status};
use std::convert::Infallible;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;

/// What a call by name gives.
#[derive(Debug)]
#[non_exhaustive]
pub enum JsonReply {
    /// One result.
    One(Bytes),
    /// A stream of them.
    Stream(JsonStream),
}

/// The items of a returned stream, each as JSON. Dropping it cancels the call.
pub struct JsonStream {
    remote: Option<Remote>,
}

/// Items of a stream to be sent, each as JSON.
pub type JsonItems = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

impl JsonStream {
    /// The next item, an error as the last one, or `None` at the clean end.
    ///
    /// # Errors
    /// [`CallError::App`] with the method's own error as JSON, else a status.
    ///
    /// # Cancel safety
    /// Dropping the future takes no item.
    pub async fn next(&mut self) -> Option<Result<Bytes, CallError<Bytes>>> {
        let remote = self.remote.as_mut()?;
        let end = match poll_fn(|cx| remote.poll_next(cx)).await {
            Ok(item) => return Some(Ok(item.bytes)),
            Err(end) => end,
        };
        let mut remote = self.remote.take()?;
        let error: CallError<Bytes> = match end {
            RemoteEnd::Failed(status) => status.into(),
            RemoteEnd::End(end) => match end.outcome {
                Outcome::Ok => {
                    remote.tell(CallOutcome::Ok);
                    return None;
                }
                Outcome::App => CallError::App(end.body),
                Outcome::Status => read_status(&end.body).into(),
            },
        };
        let failed = Err(error);
        remote.tell(outcome_of(&failed));
        Some(failed)
    }
}

impl fmt::Debug for JsonStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonStream").field("is_open", &self.remote.is_some()).finish()
    }
}

impl Channel {
    /// Calls `Service/method` with a JSON object of its plain arguments and the streams of the others, in the order of the
    /// method; `returns_stream` says whether it gives a stream. What the method has is in its description
    /// ([`Channel::describe`]); a call that announces other streams is refused by the server.
    ///
    /// # Errors
    /// [`CallError::App`] with the method's own error as JSON, else a status.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call.
    pub async fn stream_json(
        &self,
        full_name: &str,
        args: Bytes,
        streams: Vec<JsonItems>,
        returns_stream: bool,
        mut options: CallOptions,
    ) -> Result<JsonReply, CallError<Bytes>> {
        let parts = self.json_parts(full_name, args, streams, returns_stream);
        let id = parts.callee.id;
        let watch = Watch::client(self, parts.callee.method, &mut options);
        let result = if returns_stream {
            let call = intercepted(parts, options, |parts, options| {
                Box::pin(async move {
                    let remote = returned(parts, options, read_failure_bytes).await?;
                    Ok(JsonStream { remote: Some(remote) })
                })
            });
            // The call is over when its stream is.
            let judge = |result: &mut Result<JsonStream, _>, watch: Box<Watch>| match result {
                Ok(JsonStream { remote: Some(remote) }) => remote.watched(watch),
                _ => watch.end(outcome_of(result)),
            };
            watched(watch, call, judge).await.map(JsonReply::Stream)
        } else {
            let call = intercepted(parts, options, |parts, options| Box::pin(single_bytes(parts, options)));
            watched(watch, call, |result, watch| watch.end(outcome_of(result))).await.map(JsonReply::One)
        };
        result.map_err(|error| name_method(error, id, full_name))
    }

    /// Calls the one-way method `Service/method`, which takes streams.
    ///
    /// # Errors
    /// Why it was not sent.
    pub async fn send_stream_json(
        &self,
        full_name: &str,
        args: Bytes,
        streams: Vec<JsonItems>,
        mut options: CallOptions,
    ) -> Result<(), Status> {
        let parts = self.json_parts(full_name, args, streams, false);
        let watch = Watch::client(self, parts.callee.method, &mut options);
        let call = async {
            let make = intercepted(parts, options, |parts, options| {
                Box::pin(async move { oneway(parts, options).await.map_err(CallError::<Infallible>::Status) })
            });
            make.await.map_err(status_of)
        };
        watched(watch, call, |result, watch| watch.end(sent_outcome(result))).await
    }

    fn json_parts(&self, full_name: &str, args: Bytes, streams: Vec<JsonItems>, returned: bool) -> Parts<Bytes> {
        let arguments = u16::try_from(streams.len()).unwrap_or(CallStreams::ARGUMENTS_MAX);
        let callee = self.callee_by_name(full_name, false, CallStreams::new(arguments, returned));
        let sources = streams.into_iter().map(|items| Box::new(JsonSource(items)) as Box<dyn Source>).collect();
        Parts::new(self.clone(), callee, args, sources)
    }
}
