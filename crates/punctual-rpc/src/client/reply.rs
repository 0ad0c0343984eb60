//! A published call: its slot, and what becomes of its reply.

use crate::client::connection::Connection;
use crate::client::options::CallOptions;
use crate::client::response::Heard;
use crate::scratch::with_scratch;
use bytes::Bytes;
use punctual_proto::codec::{self, Codec, CodecError};
use punctual_proto::frame::{CancelCause, Outcome};
use punctual_proto::session::{CallKey, Effects, Ending, Reply, ReplyHead, ReplyPoll};
use punctual_proto::status::{CallError, Code, Status};
use serde::de::{DeserializeOwned, IgnoredAny};
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A call in its slot. Dropping it cancels the call.
#[derive(Debug)]
pub(crate) struct LiveCall {
    connection: Arc<Connection>,
    /// `None` once the slot was given back.
    key: Option<CallKey>,
    /// Who wants the metadata of its reply.
    heard: Option<Heard>,
}

impl LiveCall {
    pub(crate) fn new(connection: Arc<Connection>, key: CallKey) -> Self {
        LiveCall { connection, key: Some(key), heard: None }
    }

    /// The same of a call with these options.
    pub(crate) fn of(connection: Arc<Connection>, key: CallKey, options: &CallOptions) -> Self {
        LiveCall { connection, key: Some(key), heard: options.heard().cloned() }
    }

    /// Polls for the reply, and reads it with `read` outside of the lock.
    pub(crate) fn poll<R>(&mut self, cx: &mut Context<'_>, read: impl FnOnce(Reply, &[u8]) -> R) -> Poll<R> {
        let Some(key) = self.key else { return Poll::Pending };
        with_scratch(|buffer| {
            let mut fresh = None;
            loop {
                let polled = self.connection.session().poll_reply(key, cx.waker(), &mut fresh, buffer);
                match polled {
                    ReplyPoll::Pending => return Poll::Pending,
                    ReplyPoll::NeedsWaker => fresh = Some(cx.waker().clone()),
                    ReplyPoll::Ready(reply) => {
                        self.key = None;
                        return Poll::Ready(self.read(reply, buffer, read));
                    }
                }
            }
        })
    }

    #[inline]
    fn read<R>(&self, reply: Reply, copied: &[u8], read: impl FnOnce(Reply, &[u8]) -> R) -> R {
        let reply = match &reply {
            Reply::Copied(head) | Reply::Shared(head, _) if head.plain.is_some() => self.inflated(reply, copied),
            _ => reply,
        };
        match self.heard.as_ref().map_or(Ok(()), |heard| heard.hear(&reply, copied)) {
            Ok(()) => read(reply, copied),
            Err(status) => read(failed(&status), &[]),
        }
    }
}

impl LiveCall {
    /// The reply as it was before it was compressed.
    #[cold]
    fn inflated(&self, reply: Reply, copied: &[u8]) -> Reply {
        let (head, bytes) = match &reply {
            Reply::Copied(head) => (*head, copied),
            Reply::Shared(head, bytes) => (*head, &bytes[..]),
            _ => return reply,
        };
        // A server compresses only what was agreed on.
        let (Some(plain), Some(agreed)) = (head.plain, self.connection.compression()) else { return reply };
        let (metadata, body) = bytes.split_at(bytes.len().min(head.metadata_bytes as usize));
        match agreed.inflate(body, plain) {
            Ok(body) if metadata.is_empty() => Reply::Shared(ReplyHead { plain: None, ..head }, body),
            Ok(body) => Reply::Shared(ReplyHead { plain: None, ..head }, Bytes::from([metadata, &body].concat())),
            Err(corrupt) => failed(&Status::data_loss(corrupt.to_string())),
        }
    }
}

/// A reply in place of one that cannot be read.
fn failed(status: &Status) -> Reply {
    let mut body = Vec::with_capacity(status.encoded_len());
    status.encode(&mut body);
    let head = ReplyHead { outcome: Outcome::Status, codec: Codec::Compact, metadata_bytes: 0, plain: None };
    Reply::Shared(head, Bytes::from(body))
}

impl LiveCall {
    /// Polls for the opening of the returned stream, whose metadata it gives; another reply is read with `read` outside of
    /// the lock.
    pub(crate) fn poll_opened<R>(
        &mut self,
        cx: &mut Context<'_>,
        read: impl FnOnce(Reply, &[u8]) -> R,
    ) -> Poll<Result<Bytes, R>> {
        let key = self.key;
        let polled = self.poll(cx, |reply, copied| match reply {
            Reply::Opened(metadata) => Ok(metadata),
            reply => Err(read(reply, copied)),
        });
        if let Poll::Ready(Ok(_)) = &polled {
            // The call goes on.
            self.key = key;
        }
        polled
    }

    /// The connection that it went through.
    pub(crate) fn into_connection(self) -> Arc<Connection> {
        Arc::clone(&self.connection)
    }

    /// What the call is known by, for who minds it from here on.
    pub(crate) fn into_key(mut self) -> Option<(Arc<Connection>, CallKey)> {
        let key = self.key.take()?;
        Some((Arc::clone(&self.connection), key))
    }
}

impl Drop for LiveCall {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            let mut effects = Effects::default();
            self.connection.session().abandon(key, CancelCause::User, &mut effects);
            effects.run();
        }
    }
}

/// What a reply means to a call that can be sent again.
pub(crate) enum Answer<T, E> {
    Result(Result<T, CallError<E>>),
    /// The server went away before it took the call.
    NeverAccepted,
}

/// Reads a reply as a method's result, or as the leave to send the call again.
pub(crate) fn read_answer<T, E>(reply: Reply, copied: &[u8]) -> Answer<T, E>
where
    T: DeserializeOwned + 'static,
    E: DeserializeOwned + 'static,
{
    match reply {
        Reply::Failed(Ending::NeverAccepted) => Answer::NeverAccepted,
        reply => Answer::Result(read_result(reply, copied)),
    }
}

/// The same for tools, which take the result as it is.
pub(crate) fn read_bytes_answer(reply: Reply, copied: &[u8]) -> Answer<Bytes, Bytes> {
    match reply {
        Reply::Failed(Ending::NeverAccepted) => Answer::NeverAccepted,
        reply => Answer::Result(read_bytes(reply, copied)),
    }
}

/// Reads what became of a one-way call that waited to be written.
pub(crate) fn read_emission(reply: Reply, _: &[u8]) -> Answer<(), Infallible> {
    match reply {
        Reply::Emitted => Answer::Result(Ok(())),
        Reply::Failed(Ending::NeverAccepted) => Answer::NeverAccepted,
        Reply::Failed(ending) => Answer::Result(Err(ending.status().into())),
        _ => Answer::Result(Err(Status::internal("a reply to a one-way call").into())),
    }
}

/// Reads a reply as a method's result.
pub(crate) fn read_result<T, E>(reply: Reply, copied: &[u8]) -> Result<T, CallError<E>>
where
    T: DeserializeOwned + 'static,
    E: DeserializeOwned + 'static,
{
    match reply {
        Reply::Copied(head) => {
            let body = copied.get(head.metadata_bytes as usize..).unwrap_or_default();
            read_outcome(&head, body, codec::decode, codec::decode)
        }
        Reply::Shared(head, mut bytes) => {
            let body = bytes.split_off(bytes.len().min(head.metadata_bytes as usize));
            match head.outcome {
                Outcome::Ok => codec::decode_shared(head.codec, body).map_err(unreadable),
                _ => read_outcome(&head, &body, codec::decode, codec::decode),
            }
        }
        Reply::Failed(ending) => Err(CallError::Status(ending.status())),
        Reply::Emitted | Reply::Opened(_) | Reply::Health(_) => {
            Err(CallError::Status(Status::internal("a reply of another kind of call")))
        }
    }
}

/// Reads a reply whose body is passed on as it is.
pub(crate) fn read_bytes(reply: Reply, copied: &[u8]) -> Result<Bytes, CallError<Bytes>> {
    let keep = |_: Codec, body: &[u8]| Ok(Bytes::copy_from_slice(body));
    match reply {
        Reply::Copied(head) => {
            let body = copied.get(head.metadata_bytes as usize..).unwrap_or_default();
            read_outcome(&head, body, keep, keep)
        }
        Reply::Shared(head, mut bytes) => {
            let body = bytes.split_off(bytes.len().min(head.metadata_bytes as usize));
            match head.outcome {
                Outcome::Ok => Ok(body),
                _ => read_outcome(&head, &body, keep, keep),
            }
        }
        Reply::Failed(ending) => Err(CallError::Status(ending.status())),
        Reply::Emitted | Reply::Opened(_) | Reply::Health(_) => {
            Err(CallError::Status(Status::internal("a reply of another kind of call")))
        }
    }
}

/// Reads why a call for a stream was not answered with one.
pub(crate) fn read_failure<E: DeserializeOwned + 'static>(reply: Reply, copied: &[u8]) -> CallError<E> {
    match reply {
        Reply::Copied(head) | Reply::Shared(head, _) if head.outcome == Outcome::Ok => not_a_stream(),
        reply => match read_result::<IgnoredAny, E>(reply, copied) {
            Ok(_) => not_a_stream(),
            Err(error) => error,
        },
    }
}

/// The same for tools.
pub(crate) fn read_failure_bytes(reply: Reply, copied: &[u8]) -> CallError<Bytes> {
    read_bytes(reply, copied).map_or_else(|error| error, |_| not_a_stream())
}

fn not_a_stream<E>() -> CallError<E> {
    CallError::Status(Status::data_loss("the server answered a call for a stream with a single result"))
}

fn read_outcome<T, E>(
    head: &ReplyHead,
    body: &[u8],
    ok: impl FnOnce(Codec, &[u8]) -> Result<T, CodecError>,
    app: impl FnOnce(Codec, &[u8]) -> Result<E, CodecError>,
) -> Result<T, CallError<E>> {
    match head.outcome {
        Outcome::Ok => ok(head.codec, body).map_err(unreadable),
        Outcome::App => Err(app(head.codec, body).map_or_else(unreadable, CallError::App)),
        Outcome::Status => Err(CallError::Status(
            Status::decode(body)
                .unwrap_or_else(|error| Status::data_loss(format!("the reply's status cannot be read: {error}"))),
        )),
    }
}

/// A server knows a method that it does not serve by its id only; the caller knows its name.
pub(crate) fn name_method<E>(error: CallError<E>, id: u64, full_name: &str) -> CallError<E> {
    let CallError::Status(status) = &error else { return error };
    match status.message().strip_prefix(&format!("no method with id {id:016x}")) {
        Some(rest) if status.code() == Code::Unimplemented => {
            CallError::Status(Status::unimplemented(format!("no method {full_name}{rest}")))
        }
        _ => error,
    }
}

fn unreadable<E>(error: CodecError) -> CallError<E> {
    CallError::Status(error.into_reply_status())
}
