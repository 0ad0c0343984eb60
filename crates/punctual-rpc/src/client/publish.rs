//! From a call object to a published request: encode, read the clock, pass the gate.

use crate::client::channel::Channel;
use crate::client::connection::Connection;
use crate::client::line::Place;
use crate::client::options::CallOptions;
use crate::scratch::with_scratch;
use bytes::Bytes;
use punctual_clock::{Clock, Instant};
use punctual_proto::codec::{self, Args, Codec};
use punctual_proto::contract::{MethodDescriptor, ServiceDescriptor, Shape};
use punctual_proto::frame::RequestHead;
use punctual_proto::session::{Body, CallKey, LINK_BYTES_MIN, Opening, Refusal, Ticket};
use punctual_proto::status::Status;
use serde::Serialize;
use std::future::poll_fn;
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
    pub(crate) oneway: bool,
}

impl Callee {
    pub(crate) fn of(service: &'static ServiceDescriptor, method: &'static MethodDescriptor) -> Self {
        Callee { service: Some(service), method, id: method.id, json: false, oneway: method.shape == Shape::OneWay }
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
    // Only a unary call has the channel's default: the others may rightly last for ever.
    let default = if callee.oneway { None } else { channel.config().default_timeout };
    // What the call says for itself replaces the method's and the channel's, also where it is longer.
    let own = match options.deadline {
        Some(_) => options.timeout,
        None => options.timeout.or(callee.method.timeout).or(default),
    };
    if own.is_none() && options.deadline.is_none() && options.inherited.is_none() {
        return Ok(Instant::FAR);
    }
    let now = channel.clock().now();
    let mut deadline = own.map_or(Instant::FAR, |own| now.after(own));
    for other in [options.deadline, options.inherited].into_iter().flatten() {
        deadline = deadline.min(other);
    }
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
        let (codec, mut body) = encode(connection, callee, args, buffer).map_err(Unpublished::Status)?;
        let metadata = options.metadata.as_encoded();
        check_sizes(connection, body.len(), metadata.len()).map_err(Unpublished::Status)?;
        let mut head = RequestHead {
            method: callee.id,
            budget_micros: None,
            oneway: callee.oneway,
            codec,
            metadata,
            total: None,
            body: &[],
        };
        let mut now = Instant::from_nanos(0);
        if deadline != Instant::FAR {
            now = clock.now();
            head.budget_micros = RequestHead::budget(deadline.since(now));
        } else if callee.oneway {
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

fn encode<'a, A: Args + Serialize>(
    connection: &Connection,
    callee: &Callee,
    args: &A,
    buffer: &'a mut Vec<u8>,
) -> Result<(Codec, Body<'a>), Status> {
    let codec = match callee.service {
        _ if callee.json => Codec::Json,
        Some(service) => connection.codec(service, callee.method),
        None => Codec::Named,
    };
    if let Some(raw) = args.raw() {
        let codec = if callee.json { codec } else { Codec::Raw };
        return Ok((codec, Body::shared(raw.clone())));
    }
    codec::encode(codec, args, buffer).map_err(codec::CodecError::into_encode_status)?;
    if buffer.len() >= HAND_OVER_BYTES {
        return Ok((codec, Body::shared(Bytes::from(std::mem::take(buffer)))));
    }
    Ok((codec, Body::copied(buffer)))
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
        Refusal::Full { limit, max } => Status::resource_exhausted(format!(
            "the send queue is full: {limit} is {max} bytes; the server reads too slowly"
        ))
        .with_limit(limit, max),
        Refusal::Closed(closure) => Status::unavailable(closure.reason()),
        _ => Status::unavailable("the connection takes no new calls"),
    }
}

/// What is not plain: waiting for a connection, for a place on the server, or for the ring of big messages.
pub(crate) async fn publish_slowly<A: Args + Serialize>(
    channel: Channel,
    callee: Callee,
    args: A,
    options: CallOptions,
    deadline: Instant,
    mut refused: Option<(Arc<Connection>, Refusal)>,
) -> Result<(Arc<Connection>, Published), Status> {
    loop {
        // A connection that refused because it closes is never tried again: what it refused was never sent.
        let (connection, mut refusal) = match refused.take() {
            Some((connection, refusal @ (Refusal::Line | Refusal::Bulk { .. }))) => (connection, Some(refusal)),
            Some((connection, Refusal::Closed(_) | Refusal::GoingAway)) => {
                (channel.ready(options.wait_for_ready, deadline, Some(&connection)).await?, None)
            }
            Some((_, refusal)) => return Err(refusal_status(refusal)),
            None => (channel.ready(options.wait_for_ready, deadline, None).await?, None),
        };
        let mut place = None;
        loop {
            match refusal.take() {
                Some(Refusal::Line) => {
                    let held = place.get_or_insert_with(|| Place::enter(Arc::clone(&connection)));
                    held.granted(channel.clock(), deadline).await?;
                }
                Some(Refusal::Bulk { bytes }) => Place::bulk(&connection, bytes, channel.clock(), deadline).await?,
                Some(refusal) => {
                    refused = Some((Arc::clone(&connection), refusal));
                    break;
                }
                None => {}
            }
            let ticket = place.as_ref().map(Place::ticket);
            // Not inside of the closure: the arguments need not be shareable between threads.
            let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
            let (clock, callee, args, options) = (channel.clock(), &callee, &args, &options);
            match publish(&Request { clock, callee, args, options, deadline }, &connection, ticket, &waker) {
                Ok(published) => {
                    if let Some(place) = place {
                        place.used();
                    }
                    return Ok((connection, published));
                }
                Err(Unpublished::Gate(gate)) => refusal = Some(gate),
                Err(Unpublished::Status(status)) => return Err(status),
            }
        }
    }
}
