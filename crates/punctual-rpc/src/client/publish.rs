//! From a call object to a published request: encode, read the clock, pass the gate.

use crate::client::attempts::Resendable;
use crate::client::channel::Channel;
use crate::client::connection::Connection;
use crate::client::line::Place;
use crate::client::options::CallOptions;
use crate::client::timer::sleep_until;
use crate::client::trial::Trial;
use crate::client::tried::Past;
use crate::scratch::with_scratch;
use bytes::Bytes;
use punctual_clock::{Clock, Instant};
use punctual_proto::codec::{self, Args, Codec};
use punctual_proto::contract::{MethodDescriptor, ServiceDescriptor, Shape};
use punctual_proto::frame::{CallStreams, PAYLOAD_BYTES_MAX, RequestHead};
use punctual_proto::session::{Body, CallKey, LINK_BYTES_MIN, Opening, Refusal, Ticket};
use punctual_proto::status::Status;
use serde::Serialize;
use std::future::poll_fn;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// Encoded bodies from this length on are linked: the copy under the lock would take longer than a new buffer.
const HAND_OVER_BYTES: usize = 16 * LINK_BYTES_MIN;

/// What is called, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Callee {
    pub(crate) service: Option<&'static ServiceDescriptor>,
    pub(crate) method: &'static MethodDescriptor,
    /// Where the descriptor is not known: the id and the codec of a tool's call.
    pub(crate) id: u64,
    pub(crate) json: bool,
    /// It has no reply, and no entry in the table beyond its being written.
    pub(crate) oneway: bool,
    pub(crate) streams: CallStreams,
}

impl Callee {
    pub(crate) fn of(service: &'static ServiceDescriptor, method: &'static MethodDescriptor) -> Self {
        let streams = method.call_streams();
        // One-way with streams waits for the end of what is sent, as any call with streams.
        let oneway = method.shape == Shape::OneWay && streams == CallStreams::NONE;
        Callee { service: Some(service), method, id: method.id, json: false, oneway, streams }
    }

    /// Only such a call has the channel's default timeout: the others may rightly last for ever.
    pub(crate) fn is_unary(&self) -> bool {
        !self.oneway && self.streams == CallStreams::NONE
    }

    /// A call that goes on in the background when it was written may as well wait for the queue, if its time is bounded.
    fn waits_for_room(&self) -> bool {
        self.method.shape == Shape::OneWay && self.streams != CallStreams::NONE
    }

    /// How its arguments are encoded on a connection, where they are not raw bytes.
    fn codec(&self, connection: &Connection) -> Codec {
        match self.service {
            _ if self.json => Codec::Json,
            Some(service) => connection.codec(service, self.method),
            None => Codec::Named,
        }
    }
}

/// A call whose deadline is fixed.
pub(crate) struct Request<'a, A> {
    pub(crate) clock: &'a dyn Clock,
    pub(crate) callee: &'a Callee,
    pub(crate) args: &'a A,
    pub(crate) options: &'a CallOptions,
    pub(crate) deadline: Instant,
}

/// A request that is through the gate.
#[derive(Debug)]
pub(crate) enum Published {
    /// The call waits in its slot.
    Live(CallKey),
    /// An untimed one-way is queued; whether so much is that the caller gives way once.
    Sent(bool),
}

/// Why a request is not.
#[derive(Debug)]
pub(crate) enum Unpublished {
    /// The gate refused; nothing was registered or queued.
    Gate(Refusal),
    /// It can never be published.
    Status(Status),
}

/// The deadline of a call whose first poll is at `now`.
pub(crate) fn deadline_of(channel: &Channel, callee: &Callee, options: &CallOptions) -> Result<Instant, Status> {
    let fixed = options.deadline.min(options.inherited);
    let own = match options.timeout {
        Some(own) => Some(own),
        // What the call says for itself replaces the method's and the channel's, also where it is longer.
        None if options.deadline != Instant::FAR => None,
        None if !callee.is_unary() => callee.method.timeout,
        None => callee.method.timeout.or_else(|| channel.default_timeout()),
    };
    if own.is_none() && fixed == Instant::FAR {
        return Ok(Instant::FAR);
    }
    let now = channel.clock().now();
    let deadline = own.map_or(fixed, |own| fixed.min(now.after(own)));
    if now >= deadline { Err(elapsed()) } else { Ok(deadline) }
}

pub(crate) fn elapsed() -> Status {
    Status::deadline_exceeded("the deadline passed before the request was sent; nothing was sent")
}

/// Encodes and publishes on this connection. The clock is read after all foreign code, and its sample is the budget's.
pub(crate) fn publish<A: Args + Serialize>(
    request: &Request<'_, A>,
    connection: &Connection,
    ticket: Option<Ticket>,
    waker: &Waker,
) -> Result<Published, Unpublished> {
    let Request { clock, callee, args, options, deadline } = *request;
    with_scratch(|buffer| {
        let metadata = options.encoded_metadata();
        let timed = deadline != Instant::FAR;
        let raw = args.raw();
        let mut head = RequestHead {
            method: callee.id,
            // The frame keeps room for the budget, which is known when everything else is done.
            budget_micros: timed.then_some(NonZeroU64::MIN),
            oneway: callee.oneway,
            codec: match raw {
                Some(_) if !callee.json => Codec::Raw,
                _ => callee.codec(connection),
            },
            metadata,
            streams: callee.streams,
            total: None,
            plain: None,
            body: &[],
        };
        let body_at = head.open_frame(buffer);
        if raw.is_none() {
            codec::encode(head.codec, args, buffer).map_err(|error| Unpublished::Status(error.into_encode_status()))?;
        }
        let encoded = buffer.len() - body_at;
        let len = encoded + raw.map_or(0, Bytes::len);
        check_sizes(connection, len, metadata.len()).map_err(Unpublished::Status)?;
        let shrunk = connection.compression().and_then(|agreed| {
            let plain = match raw {
                Some(raw) => &raw[..],
                None => buffer.get(body_at..).unwrap_or_default(),
            };
            agreed.shrink(callee.id, options.compress, plain)
        });
        let mut now = Instant::from_nanos(0);
        if timed {
            now = clock.now();
            head.budget_micros = RequestHead::budget(deadline.since(now));
        }
        let mut body = if let Some(shrunk) = shrunk {
            head.plain = Some(shrunk.plain);
            Body::compressed(shrunk.bytes, shrunk.plain)
        } else if encoded >= HAND_OVER_BYTES || head.head_bytes() + len > PAYLOAD_BYTES_MAX as usize {
            Body::shared(raw.map_or_else(|| hand_over(buffer, body_at), Bytes::clone))
        } else {
            let (copied, linked) = match raw {
                None => (&[][..], Bytes::new()),
                Some(raw) if raw.len() < LINK_BYTES_MIN => (&raw[..], Bytes::new()),
                Some(raw) => (&[][..], raw.clone()),
            };
            RequestHead::close_frame(buffer, copied.len() + linked.len(), head.budget_micros);
            Body::framed(buffer, body_at, copied, linked)
        };
        if callee.oneway && !timed {
            let sent = connection.session().send_oneway(head, &mut body).map_err(Unpublished::Gate)?;
            let (driver, give_way) = sent;
            if let Some(driver) = driver {
                driver.wake();
            }
            return Ok(Published::Sent(give_way));
        }
        let mut parked = Some(waker.clone());
        let opening = Opening { head, body: &mut body, deadline, now, ticket };
        let opened = {
            let mut session = connection.session();
            if callee.oneway {
                session.open_oneway(opening, &mut parked)
            } else if callee.streams != CallStreams::NONE {
                session.open_streams(opening, &mut parked)
            } else {
                session.open_call(opening, &mut parked)
            }
        };
        let opened = opened.map_err(Unpublished::Gate)?;
        if let Some(driver) = opened.driver {
            driver.wake();
        }
        Ok(Published::Live(opened.key))
    })
}

/// The body that was encoded behind `body_at`, without a copy.
fn hand_over(buffer: &mut Vec<u8>, body_at: usize) -> Bytes {
    Bytes::from(std::mem::take(buffer)).split_off(body_at)
}

fn check_sizes(connection: &Connection, body: usize, metadata: usize) -> Result<(), Status> {
    let limits = connection.limits();
    let over = |what: &str, bytes: usize, limit: &'static str, max: u32| {
        Status::resource_exhausted(format!(
            "the request's {what} has {bytes} bytes; {limit} of this connection is {max}"
        ))
        .with_limit(limit, u64::from(max))
    };
    if body as u64 > u64::from(limits.message_bytes_max) {
        return Err(over("body", body, "message_bytes_max", limits.message_bytes_max));
    }
    if metadata as u64 > u64::from(limits.metadata_bytes_max) {
        return Err(over("metadata", metadata, "metadata_bytes_max", limits.metadata_bytes_max));
    }
    Ok(())
}

/// What a caller is told of a refusal that no waiting helps.
pub(crate) fn refusal_status(refusal: Refusal) -> Status {
    match refusal {
        Refusal::Elapsed => elapsed(),
        Refusal::Full { limit: "pending_calls_max", max } => {
            Status::resource_exhausted(format!("{max} calls wait on this connection, which is pending_calls_max"))
                .with_limit("pending_calls_max", max)
        }
        Refusal::Full { limit: "streams_max", max } => {
            Status::resource_exhausted(format!("{max} streams are open on this connection, which is streams_max"))
                .with_limit("streams_max", max)
        }
        Refusal::NoStreams => Status::unimplemented("the server does not know streams; upgrade it"),
        Refusal::Full { limit, max } => Status::resource_exhausted(format!(
            "the send queue is full: {limit} is {max} bytes; the server reads too slowly"
        ))
        .with_limit(limit, max),
        Refusal::Closed(closure) => Status::unavailable(closure.reason()),
        _ => Status::unavailable("the connection takes no new calls"),
    }
}

/// A request that went through the gate, and the breaker that wants to know how it ended.
pub(crate) struct Sent {
    pub(crate) connection: Arc<Connection>,
    pub(crate) published: Published,
    pub(crate) trial: Option<Trial>,
}

/// Waits for a place on the server of `connection`, or for another connection that has one, which it then gives.
async fn wait_in_line(
    channel: &Channel,
    connection: &Arc<Connection>,
    held: &Place,
    deadline: Instant,
) -> Result<Option<Arc<Connection>>, Status> {
    let Some(home) = connection.home() else { return held.granted(channel.clock(), deadline).await.map(|()| None) };
    home.grow();
    tokio::select! {
        biased;
        granted = held.granted(channel.clock(), deadline) => granted.map(|()| None),
        roomier = home.roomier(connection) => Ok(Some(roomier)),
    }
}

/// Another connection of the pool for a call whose streams one more connection has no room for; none where the pool grows
/// no more.
async fn with_streams_left(
    channel: &Channel,
    callee: &Callee,
    connection: &Arc<Connection>,
    deadline: Instant,
) -> Result<Option<Arc<Connection>>, Status> {
    let Some(home) = connection.home() else { return Ok(None) };
    tokio::select! {
        biased;
        other = home.with_streams_left(connection, callee.streams.count()) => Ok(other),
        () = sleep_until(channel.clock(), deadline) => Err(Status::deadline_exceeded(
            "the deadline passed while the call waited for a connection with room for its streams; nothing was sent",
        )),
    }
}

/// What is not plain: waiting for a connection, for a place on the server, or for the ring of big messages.
pub(crate) async fn publish_slowly<A: Args + Serialize + Send>(
    call: &Resendable<A>,
    mut refused: Option<(Arc<Connection>, Refusal)>,
) -> Result<Sent, Status> {
    let Resendable { channel, callee, options, deadline, .. } = call;
    let deadline = *deadline;
    let tried = Some(&call.tried);
    let mut trial;
    loop {
        // A connection that refused because it closes is never tried again: what it refused was never sent.
        let (mut connection, mut refusal) = match refused.take() {
            // Only a plain first poll comes here with these, and it passed no breaker.
            Some((connection, refusal @ (Refusal::Line | Refusal::Bulk { .. }))) => {
                trial = None;
                (connection, Some(refusal))
            }
            Some((connection, Refusal::Closed(_) | Refusal::GoingAway)) => {
                let ready = channel
                    .ready(options.wait_for_ready, deadline, Past { connection: Some(&connection), tried })
                    .await?;
                trial = ready.trial;
                (ready.connection, None)
            }
            Some((_, refusal)) => return Err(refusal_status(refusal)),
            None => {
                let ready = channel.ready(options.wait_for_ready, deadline, Past { connection: None, tried }).await?;
                trial = ready.trial;
                (ready.connection, None)
            }
        };
        call.tried.add(&connection);
        let mut place = None;
        loop {
            match refusal.take() {
                Some(Refusal::Line) => {
                    // The pool grows; who waits takes whichever is free first, a place in the line or another connection.
                    let held = place.get_or_insert_with(|| Place::enter(Arc::clone(&connection)));
                    if let Some(roomier) = wait_in_line(channel, &connection, held, deadline).await? {
                        place = None;
                        connection = roomier;
                    }
                }
                Some(Refusal::Full { limit: "streams_max", max }) => {
                    let other = with_streams_left(channel, callee, &connection, deadline).await?;
                    let full = Refusal::Full { limit: "streams_max", max };
                    connection = other.ok_or_else(|| refusal_status(full))?;
                    place = None;
                }
                Some(Refusal::Full { limit: "send_queue_bytes_max", .. })
                    if callee.waits_for_room() && deadline != Instant::FAR =>
                {
                    Place::room(&connection, channel.clock(), deadline).await?;
                }
                Some(Refusal::Bulk { bytes }) => Place::bulk(&connection, bytes, channel.clock(), deadline).await?,
                Some(refusal) => {
                    refused = Some((Arc::clone(&connection), refusal));
                    break;
                }
                None => {}
            }
            let ticket = place.as_ref().map(Place::ticket);
            let published = poll_fn(|cx| {
                let (clock, args) = (channel.clock(), &*call.args.get());
                let request = Request { clock, callee, args, options, deadline };
                Poll::Ready(publish(&request, &connection, ticket, cx.waker()))
            });
            match published.await {
                Ok(published) => {
                    if let Some(place) = place {
                        place.used();
                    }
                    return Ok(Sent { connection, published, trial });
                }
                Err(Unpublished::Gate(gate)) => refusal = Some(gate),
                Err(Unpublished::Status(status)) => return Err(status),
            }
        }
    }
}
