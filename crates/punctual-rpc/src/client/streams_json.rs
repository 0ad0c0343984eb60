//! Calls with streams by name, for tools: everything that is given and taken is JSON.

use crate::client::channel::Channel;
use crate::client::options::CallOptions;
use crate::client::publish::Callee;
use crate::client::query::ANY;
use crate::client::reply::{name_method, read_failure_bytes};
use crate::client::streams::{Parts, oneway, returned, single_bytes};
use crate::streaming::{JsonSource, Remote, RemoteEnd, Source, read_status};
use bytes::Bytes;
use futures_core::Stream;
use punctual_proto::contract::method_id;
use punctual_proto::frame::{CallStreams, Outcome};
use punctual_proto::status::{CallError, Status};
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
        self.remote = None;
        match end {
            RemoteEnd::Failed(status) => Some(Err(status.into())),
            RemoteEnd::End(end) => match end.outcome {
                Outcome::Ok => None,
                Outcome::App => Some(Err(CallError::App(end.body))),
                Outcome::Status => Some(Err(read_status(&end.body).into())),
            },
        }
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
        options: CallOptions,
    ) -> Result<JsonReply, CallError<Bytes>> {
        let (id, parts) = self.json_parts(full_name, args, streams, returns_stream);
        let named = |error| name_method(error, id, full_name);
        if returns_stream {
            let remote = returned(parts, options, read_failure_bytes).await.map_err(named)?;
            Ok(JsonReply::Stream(JsonStream { remote: Some(remote) }))
        } else {
            single_bytes(parts, options).await.map(JsonReply::One).map_err(named)
        }
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
        options: CallOptions,
    ) -> Result<(), Status> {
        let (_, parts) = self.json_parts(full_name, args, streams, false);
        oneway(parts, options).await
    }

    fn json_parts(&self, full_name: &str, args: Bytes, streams: Vec<JsonItems>, returned: bool) -> (u64, Parts<Bytes>) {
        let id = method_id(full_name);
        let arguments = u16::try_from(streams.len()).unwrap_or(CallStreams::ARGUMENTS_MAX);
        let streams_of_call = CallStreams::new(arguments, returned);
        let callee = Callee { service: None, method: &ANY, id, json: true, oneway: false, streams: streams_of_call };
        let sources = streams.into_iter().map(|items| Box::new(JsonSource(items)) as Box<dyn Source>).collect();
        (id, Parts::new(self.clone(), callee, args, sources))
    }
}
