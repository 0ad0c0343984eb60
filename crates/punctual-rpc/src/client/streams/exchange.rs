//! One call with streams on its way: published, answered, sent again where its server never took it, and its producers.

use crate::client::attempts::{Resendable, Resends, never_accepted};
use crate::client::channel::Channel;
use crate::client::connection::Connection;
use crate::client::options::CallOptions;
use crate::client::publish::{Callee, Published, Sent, deadline_of, publish_slowly};
use crate::client::pump::Pump;
use crate::client::reply::{Answer, LiveCall, read_bytes_answer};
use crate::client::response::read_metadata;
use crate::client::trial::Trial;
use crate::compression::Agreed;
use crate::streaming::{Remote, Sending, Source};
use punctual_proto::codec::{Args, Codec};
use punctual_proto::frame::CancelCause;
use punctual_proto::session::{CallKey, Consumed, Effects, Ending, ItemsPoll, Refusal, Reply, StreamItem};
use punctual_proto::status::{CallError, Status};
use serde::Serialize;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::task::JoinHandle;

/// What a call begins with.
pub(crate) struct Parts<A> {
    pub(crate) channel: Channel,
    pub(crate) callee: Callee,
    pub(crate) args: A,
    pub(crate) sources: Vec<Box<dyn Source>>,
}

/// A call with streams that can be sent again as long as nothing was taken from them.
struct Restartable<A> {
    call: Resendable<A>,
    sources: Vec<Box<dyn Source>>,
    resends: Resends,
    refused: Option<(Arc<Connection>, Refusal)>,
}

impl<A: Args + Serialize + Send> Restartable<A> {
    fn new(parts: Parts<A>, options: CallOptions) -> Result<Self, Status> {
        let Parts { channel, callee, args, sources } = parts;
        if let Some(status) = options.invalid() {
            return Err(status);
        }
        let deadline = deadline_of(&channel, &callee, &options)?;
        let settings = channel.settings();
        let call = Resendable::new(channel, settings, callee, args, options, deadline);
        Ok(Restartable { call, sources, resends: Resends::default(), refused: None })
    }

    /// Publishes the call. Its producers wait in the pump.
    async fn start(&mut self) -> Result<(Pump, LiveCall, Option<Trial>), Status> {
        let Sent { connection, published, trial } = publish_slowly(&self.call, self.refused.take()).await?;
        let Published::Live(key) = published else {
            return Err(Status::internal("a call with streams with a one-way shape"));
        };
        let codec = self.call.callee.item_codec(&connection);
        let method = self.call.callee.id;
        let shrink = connection.compression().and_then(|agreed| agreed.of_call(method, self.call.options.compress));
        let sending = std::mem::take(&mut self.sources)
            .into_iter()
            .map(|source| Sending::new(source, codec, shrink.clone()))
            .collect();
        let live = LiveCall::of(Arc::clone(&connection), key, &self.call.options);
        Ok((Pump::new(connection, key, sending), live, trial))
    }

    /// The server went away before it took the call: it can be started elsewhere if its sources gave nothing yet.
    fn take_back(&mut self, live: LiveCall, sources: Option<Vec<Box<dyn Source>>>) -> Result<(), Status> {
        self.sources = sources.ok_or_else(never_accepted)?;
        self.refused = Some(self.resends.again(&self.call.channel, live.into_connection())?);
        Ok(())
    }
}

/// Makes a call that has one result.
pub(crate) async fn single<A, T, E>(
    parts: Parts<A>,
    options: CallOptions,
    read: fn(Reply, &[u8]) -> Answer<T, E>,
) -> Result<T, CallError<E>>
where
    A: Args + Serialize + Send,
{
    let mut call = Restartable::new(parts, options)?;
    loop {
        // Declared in this order, so that a call that is dropped is cancelled before its producers are.
        let (mut pump, mut live, trial) = call.start().await?;
        let answer = poll_fn(|cx| {
            if let Poll::Ready(answer) = live.poll(cx, read) {
                return Poll::Ready(answer);
            }
            // The reply ends the call, not the end of what it takes.
            let _ = pump.poll(cx);
            Poll::Pending
        })
        .await;
        match answer {
            Answer::Result(result) => {
                tell(trial, result.as_ref().err().and_then(CallError::status));
                return result;
            }
            Answer::NeverAccepted => call.take_back(live, pump.into_sources())?,
        }
    }
}

/// Waits until the call is answered with a stream. Its producers start in their own task when the request was written.
pub(crate) async fn returned<A: Args + Serialize + Send, E>(
    parts: Parts<A>,
    options: CallOptions,
    read: fn(Reply, &[u8]) -> CallError<E>,
) -> Result<Remote, CallError<E>> {
    let mut call = Restartable::new(parts, options)?;
    loop {
        let (pump, mut live, trial) = call.start().await?;
        let mut producers = Producers::of(pump);
        let opened = poll_fn(|cx| {
            producers.poll_start(cx);
            live.poll_opened(cx, |reply, copied| match reply {
                Reply::Failed(Ending::NeverAccepted) => None,
                reply => Some(read(reply, copied)),
            })
        })
        .await;
        match opened {
            Ok(metadata) => {
                // The answer may come before it was seen that the request was written: the producers have all of the call
                // before them.
                producers.start();
                tell(trial, None);
                let open = live.into_key().map(|(connection, key)| StreamCallKey { connection, key, over: false });
                let metadata = read_metadata(metadata).map_err(CallError::Status)?;
                return match open {
                    Some(open) => Ok(Remote::of_call(open, metadata)),
                    None => Err(CallError::Status(Status::internal("a call was answered twice"))),
                };
            }
            Err(Some(error)) => {
                tell(trial, error.status());
                return Err(error);
            }
            Err(None) => call.take_back(live, producers.into_sources().await)?,
        }
    }
}

/// Tells the breaker of the call's endpoint, if there is one.
fn tell(trial: Option<Trial>, status: Option<&Status>) {
    if let Some(trial) = trial {
        trial.end(status);
    }
}

/// The producers of a call that gives a stream, before and after they have a task of their own.
enum Producers {
    None,
    Waiting(Pump),
    Running(JoinHandle<Option<Vec<Box<dyn Source>>>>),
}

impl Producers {
    fn of(pump: Pump) -> Self {
        if pump.is_under_way() { Producers::Waiting(pump) } else { Producers::None }
    }

    /// Gives them their task when the request was written.
    fn poll_start(&mut self, cx: &mut Context<'_>) {
        if let Producers::Waiting(waiting) = self
            && waiting.poll_start(cx).is_ready()
        {
            self.start();
        }
    }

    fn start(&mut self) {
        *self = match std::mem::replace(self, Producers::None) {
            Producers::Waiting(mut pump) => Producers::Running(tokio::spawn(async move {
                (&mut pump).await;
                pump.into_sources()
            })),
            other => other,
        };
    }

    /// Takes the sources back, where the call is over and they gave nothing yet.
    async fn into_sources(self) -> Option<Vec<Box<dyn Source>>> {
        match self {
            Producers::None => Some(Vec::new()),
            Producers::Waiting(pump) => pump.into_sources(),
            // It ends with the call. One that panicked has nothing to give.
            Producers::Running(task) => task.await.ok().flatten(),
        }
    }
}

/// Makes a one-way call, up to its being written. Its producers go on in a task.
pub(crate) async fn oneway<A: Args + Serialize + Send>(parts: Parts<A>, options: CallOptions) -> Result<(), Status> {
    let mut call = Restartable::new(parts, options)?;
    let (pump, live) = loop {
        let (mut pump, mut live, trial) = call.start().await?;
        let written = poll_fn(|cx| match live.poll(cx, ended_early) {
            Poll::Ready(ended) => Poll::Ready(ended),
            Poll::Pending => pump.poll_start(cx).map(Ok),
        });
        match written.await {
            Ok(()) => {
                tell(trial, None);
                break (pump, live);
            }
            Err(Ending::NeverAccepted) => call.take_back(live, pump.into_sources())?,
            Err(ending) => {
                let status = ending.status();
                tell(trial, Some(&status));
                return Err(status);
            }
        }
    };
    tokio::spawn(async move {
        let (mut pump, mut live) = (pump, live);
        poll_fn(|cx| {
            let over = live.poll(cx, ended_early);
            let _ = pump.poll(cx);
            over
        })
        .await
    });
    Ok(())
}

/// What became of a one-way call before it was written. What its handler ended with is nobody's business.
fn ended_early(reply: Reply, _: &[u8]) -> Result<(), Ending> {
    match reply {
        Reply::Failed(ending) => Err(ending),
        _ => Ok(()),
    }
}

impl<A> Parts<A> {
    pub(crate) fn new(channel: Channel, callee: Callee, args: A, sources: Vec<Box<dyn Source>>) -> Self {
        Parts { channel, callee, args, sources }
    }
}

/// A call with one result for tools, which take it as it is.
pub(crate) async fn single_bytes<A: Args + Serialize + Send>(
    parts: Parts<A>,
    options: CallOptions,
) -> Result<bytes::Bytes, CallError<bytes::Bytes>> {
    single(parts, options, read_bytes_answer).await
}

/// A call whose returned stream is open. Dropping it cancels the call.
pub(crate) struct StreamCallKey {
    connection: Arc<Connection>,
    key: CallKey,
    over: bool,
}

impl StreamCallKey {
    /// How items are compressed, where both sides can.
    pub(crate) fn compression(&self) -> Option<&Agreed> {
        self.connection.compression()
    }

    pub(crate) fn window_bytes(&self) -> u32 {
        self.connection.own_windows().stream_bytes
    }

    pub(crate) fn poll_items(
        &mut self,
        consumed: Consumed,
        buffer: &mut VecDeque<StreamItem>,
        waker: &Waker,
        fresh: &mut Option<Waker>,
        effects: &mut Effects,
    ) -> ItemsPoll {
        let polled = self.connection.session().poll_items(self.key, consumed, buffer, waker, fresh, effects);
        self.over = matches!(polled, ItemsPoll::End(_) | ItemsPoll::Failed(_));
        polled
    }

    pub(crate) fn consume(&self, consumed: Consumed, effects: &mut Effects) {
        self.connection.session().consume(self.key, consumed, effects);
    }
}

impl Drop for StreamCallKey {
    fn drop(&mut self) {
        if !self.over {
            let mut effects = Effects::default();
            self.connection.session().abandon(self.key, CancelCause::ConsumerGone, &mut effects);
            effects.run();
        }
    }
}

impl Callee {
    /// How items of this call's streams are encoded on a connection, where they are not raw bytes.
    fn item_codec(&self, connection: &Connection) -> Codec {
        let self_describing =
            self.method.streams.iter().any(|one| one.item.is_self_describing() || one.err.is_self_describing());
        match self.service {
            _ if self.json => Codec::Json,
            Some(service) => match connection.contract_codec(service, self.method) {
                Codec::Compact if self_describing => Codec::Named,
                codec => codec,
            },
            None => Codec::Named,
        }
    }
}
