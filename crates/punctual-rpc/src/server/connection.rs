//! One connection of a server: the lock around the session, and the handlers' host.

use crate::compression::Agreed;
use crate::driver::{Role, Traffic};
use crate::server::congestion::Congestion;
use crate::server::inbound::{Inbound, Payload};
use crate::server::lifetime::Instances;
use crate::server::place::{Place, REFUSAL_BYTES_MAX};
use crate::server::shared::Shared;
use crate::telemetry::Watch;
use bytes::Bytes;
use punctual_clock::Clock;
use punctual_context::{CancelReason, Host, Identity, Metadata, MetadataError, Peer};
use punctual_proto::contract::MethodDescriptor;
use punctual_proto::describe::HealthStatus;
use punctual_proto::frame::{CallId, CallStreams, Direction, HealthFrame};
use punctual_proto::handshake::{Agreement, Windows};
use punctual_proto::limits::Limits;
use punctual_proto::session::{
    Block, Body, Closure, Effects, Incoming, Item, Refused, RunKey, ServerSession, Session, Start,
};
use punctual_proto::status::Status;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

/// Aligned so that two connections never share a cache line.
#[repr(align(128))]
pub(crate) struct Connection {
    session: Mutex<ServerSession>,
    /// Somebody waits for room in the queue: ask before encoding more.
    congestion: Congestion,
    limits: Limits,
    windows: Windows,
    compression: Option<Agreed>,
    peer: Peer,
    instances: Instances,
    shared: Arc<Shared>,
    turns: AtomicU64,
    traffic: Traffic,
}

impl Connection {
    pub(crate) fn new(agreement: &Agreement, peer: Peer, instances: Instances, shared: Arc<Shared>) -> Self {
        Connection {
            session: Mutex::new(ServerSession::new(agreement, shared.config.budgets())),
            congestion: Congestion::none(),
            limits: agreement.limits,
            windows: agreement.own,
            compression: shared.config.compression.agreed(agreement.compression),
            peer,
            instances,
            shared,
            turns: AtomicU64::new(0),
            traffic: Traffic::default(),
        }
    }

    pub(crate) fn session(&self) -> MutexGuard<'_, ServerSession> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Who the peer is, where it had to prove that.
    pub(crate) fn identity(&self) -> Option<&Identity> {
        self.peer.identity.as_ref()
    }

    /// Where it comes from, and who it is.
    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The services that it has to itself.
    pub(crate) fn instances(&self) -> &Instances {
        &self.instances
    }

    /// How bodies are compressed, where both sides can.
    #[inline]
    pub(crate) fn compression(&self) -> Option<&Agreed> {
        self.compression.as_ref()
    }

    /// What this side is ready to hold of streams.
    pub(crate) fn own_windows(&self) -> Windows {
        self.windows
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Bytes written and bytes read.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        self.traffic.bytes()
    }

    pub(crate) fn turns_taken(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// Whether a result must wait before it is encoded. Cheap while there is room.
    pub(crate) fn poll_congested(&self, key: RunKey, cx: &mut Context<'_>) -> Poll<()> {
        if !self.congestion.is_likely() {
            return Poll::Ready(());
        }
        let waker = cx.waker().clone();
        let mut session = self.session();
        let out = session.outbox();
        if out.queued_bytes() <= out.queue_bytes_max() / 2 {
            self.congestion.end();
            return Poll::Ready(());
        }
        let stale = session.wait_for_room(key, waker);
        drop(session);
        drop(stale);
        Poll::Pending
    }

    pub(crate) fn set_congested(&self) {
        self.congestion.begin();
    }

    fn start(self: &Arc<Self>, start: Start, block: Block<'_>) {
        let Start { key, method: id, codec, plain, streams, deadline, metadata, body, whole, .. } = start;
        let place = Place::new(Arc::clone(self), key);
        let Some(method) = self.shared.registry.find(id) else {
            let text = format!("no method with id {id:016x}; this server serves {}", self.shared.registry.names());
            place.refuse(&Status::unimplemented(text));
            return;
        };
        let (metadata, body) = match whole {
            None if metadata.is_empty() => (Ok(Metadata::new()), Payload::In(block, body)),
            None => {
                let metadata = Bytes::copy_from_slice(block.get(&metadata));
                (Metadata::from_encoded(metadata), Payload::In(block, body))
            }
            Some(whole) => (Metadata::from_encoded(whole.0), Payload::Own(whole.1)),
        };
        let place = place.watched(self.watch(method.descriptor, metadata.as_ref().ok()));
        if streams != method.descriptor.call_streams() {
            place.refuse(&wrong_streams(method.descriptor, streams));
            return;
        }
        let metadata = match metadata {
            Ok(metadata) => metadata,
            Err(error) => {
                place.refuse(&Status::invalid_argument(format!("the metadata cannot be read: {error}")));
                return;
            }
        };
        // A panic of whoever decides refuses that call alone: it is not let through, and the connection lives.
        match catch_unwind(AssertUnwindSafe(|| self.may_call(method.descriptor, &metadata))) {
            Ok(Ok(())) => {}
            Ok(Err(status)) => return place.refuse(&status),
            Err(_) => return self.shared.panicked(method.descriptor.full_name),
        }
        let inbound = Inbound::new(place, method.descriptor, codec, deadline, metadata, body).compressed(plain);
        if let Some(door) = &self.shared.door {
            if catch_unwind(AssertUnwindSafe(|| door.enter(self, inbound))).is_err() {
                self.shared.panicked(method.descriptor.full_name);
            }
            return;
        }
        // A panic of the service's own dispatch, or of a decoder, ends that call alone.
        if catch_unwind(AssertUnwindSafe(|| method.service.dispatch(method.index, inbound))).is_err() {
            self.shared.panicked(method.descriptor.full_name);
        }
    }

    /// Who looks on at a call of this method, if anybody does.
    fn watch(&self, method: &'static MethodDescriptor, metadata: Option<&Metadata>) -> Option<Box<Watch>> {
        let config = &self.shared.config;
        Watch::server(&config.telemetry, &config.clock, method, metadata, &self.peer.address)
    }

    /// Starts a call that was let in.
    pub(crate) fn dispatch(&self, inbound: Inbound<'_>) {
        let descriptor = inbound.method();
        let Some(method) = self.shared.registry.find(descriptor.id) else { return };
        if catch_unwind(AssertUnwindSafe(|| method.service.dispatch(method.index, inbound))).is_err() {
            self.shared.panicked(descriptor.full_name);
        }
    }

    /// Whether the peer is still who it was, and may call this.
    fn may_call(&self, method: &MethodDescriptor, metadata: &Metadata) -> Result<(), Status> {
        let config = &self.shared.config;
        let identity = self.identity();
        if let Some(expires) = identity.and_then(|identity| identity.expires)
            && config.clock.timestamp() >= expires
        {
            return Err(Status::unauthenticated(
                "the identity that this connection was opened with has expired; connect again",
            ));
        }
        config.authorizer.as_ref().map_or(Ok(()), |authorizer| authorizer.authorize(identity, method, metadata))
    }

    fn refused(&self, call: CallId, refused: Refused) {
        let status = match refused {
            Refused::Connection { max } => {
                let text =
                    format!("this connection runs {max} calls, which is running_calls_max; wait for some to end");
                Status::resource_exhausted(text).with_limit("running_calls_max", max as u64)
            }
            Refused::Streams { max } => {
                let text = format!("this connection has {max} streams, which is streams_max; wait for some to end");
                Status::resource_exhausted(text).with_limit("streams_max", max)
            }
            Refused::Server => {
                let max = self.shared.config.server_limits.running_calls_max;
                let text = format!("this server runs {max} calls, which is its running_calls_max; try again later");
                Status::resource_exhausted(text).with_limit("server_running_calls_max", u64::from(max))
            }
            Refused::Budget { budget, min } => Status::deadline_exceeded(format!(
                "the budget of {budget:?} is below the {min:?} that this server accepts; it was not started"
            )),
            _ => Status::resource_exhausted("the call was refused"),
        };
        let driver = self.session().answer_refused(call, &status);
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    fn describe(&self, call: CallId, service: &str) {
        let max = usize::try_from(self.limits.message_bytes_max).unwrap_or(usize::MAX);
        let answer = match self.shared.registry.description(service) {
            Some(description) if description.len() > max => {
                let text = format!(
                    "the description has {} bytes; message_bytes_max of this connection is {max}; ask for one service",
                    description.len()
                );
                Err(Status::resource_exhausted(text).with_limit("message_bytes_max", max as u64))
            }
            Some(description)
                if self.session().answer_describe(call, false, &mut Body::shared(description.clone())) =>
            {
                Ok(())
            }
            Some(_) => Err(Status::resource_exhausted("too many big replies are under way; ask again")),
            None => {
                let text = format!("no service {service:?}; this server serves {}", self.shared.registry.names());
                Err(Status::not_found(text))
            }
        };
        if let Err(status) = answer {
            let status = encoded(&status.fitted(max.min(REFUSAL_BYTES_MAX)));
            self.session().refuse_describe(call, &status);
        }
    }

    fn health(&self, service: &str) -> HealthStatus {
        self.shared.health(service)
    }
}

/// The two sides have different ideas of a method.
fn wrong_streams(method: &MethodDescriptor, announced: CallStreams) -> Status {
    let shown = |streams: CallStreams| {
        let result = if streams.returned() { "a stream" } else { "no stream" };
        format!("{} argument streams and returns {result}", streams.arguments())
    };
    let own = shown(method.call_streams());
    Status::invalid_argument(format!("{} has {own}; the call announced {}", method.full_name, shown(announced)))
}

fn encoded(status: &Status) -> Bytes {
    let mut bytes = Vec::with_capacity(status.encoded_len());
    status.encode(&mut bytes);
    Bytes::from(bytes)
}

impl Role for Connection {
    type Session = ServerSession;
    type Work = Vec<Incoming>;
    const FROM: Direction = Direction::FromClient;

    fn lock(&self) -> MutexGuard<'_, ServerSession> {
        self.session()
    }

    fn is_poisoned(&self) -> bool {
        self.session.is_poisoned()
    }

    fn clock(&self) -> &dyn Clock {
        &*self.shared.config.clock
    }

    fn write_latency(&self) -> Duration {
        self.shared.config.write_latency_max
    }

    fn turns(&self) -> &AtomicU64 {
        &self.turns
    }

    fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    fn prepare(&self, session: &mut ServerSession, items: &[Item]) {
        let wanted = session.permits_wanted(items.len());
        if wanted > 0 {
            session.grant_permits(self.shared.permits.take(wanted));
        }
    }

    fn collect(&self, session: &mut ServerSession, work: &mut Vec<Incoming>) {
        session.take_incoming(work);
    }

    fn work(self: &Arc<Self>, work: &mut Vec<Incoming>, block: Block<'_>) -> usize {
        let started = work.len();
        for incoming in work.drain(..) {
            match incoming {
                Incoming::Start(start) => self.start(start, block),
                Incoming::Refused(call, refused) => self.refused(call, refused),
                Incoming::Describe(call, service) => self.describe(call, &service),
                Incoming::Health(call, service) => {
                    let health = HealthFrame::Reply(self.health(&service));
                    // Where its reserve is used up the peer asks without reading; it can ask again.
                    self.session().answer_health(call, health);
                }
            }
        }
        started
    }

    fn must_pause(&self, session: &mut ServerSession) -> bool {
        let missing = session.permits_wanted(0);
        if missing > 0 {
            session.grant_permits(self.shared.permits.take(missing));
        }
        // A connection that is idle keeps nothing: others may need it.
        let keep = if session.running() == 0 { 0 } else { self.shared.permits.spare() };
        let surplus = session.take_permits(keep);
        self.shared.permits.give(surplus);
        if self.shared.is_draining() && !session.awaits_pong() {
            self.shared.changed.notify_one();
        }
        session.must_pause()
    }

    fn ended(self: &Arc<Self>, closure: &Closure) {
        tracing::debug!(peer = %self.peer.address, ?closure, "connection closed");
        if matches!(closure, Closure::Violation(_)) {
            self.shared.violations.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let permits = self.session().take_permits(0);
        self.shared.permits.give(permits);
        // A stop may wait for the last handler, which held this connection.
        self.shared.changed.notify_one();
    }
}

impl Host for Connection {
    fn clock(&self) -> &dyn Clock {
        &*self.shared.config.clock
    }

    fn peer(&self) -> Option<&Peer> {
        Some(&self.peer)
    }

    fn cancel_reason(&self, key: u64) -> Option<CancelReason> {
        self.session().cancel_reason(CallId::from_u64(key))
    }

    fn poll_cancelled(&self, key: u64, cx: &mut Context<'_>) -> Poll<CancelReason> {
        let mut waker = Some(cx.waker().clone());
        let mut effects = Effects::default();
        let reason = self.session().watch(CallId::from_u64(key), &mut waker, &mut effects);
        effects.run();
        reason.map_or(Poll::Pending, Poll::Ready)
    }

    fn respond_with(&self, key: u64, name: &str, value: &[u8]) -> Result<(), MetadataError> {
        self.session().respond_with(CallId::from_u64(key), name, value)
    }
}

impl Connection {
    /// Ends what is under way, and the connection behind it.
    pub(crate) fn cancel_all(&self, reason: CancelReason, status: &Status) {
        let mut effects = Effects::default();
        self.session().cancel_all(reason, status, &mut effects);
        effects.run();
    }

    /// Closes at once, whatever still runs. Returns how many handlers do.
    pub(crate) fn close_now(&self) -> usize {
        let mut effects = Effects::default();
        let (last, running) = {
            let mut session = self.session();
            let last = session.close(Closure::Shutdown, &mut effects);
            (last, session.running())
        };
        drop(last);
        effects.run();
        running
    }

    pub(crate) fn release(&self, key: RunKey) {
        let (stale, driver) = {
            let mut session = self.session();
            (session.release(key), session.driver_after_release())
        };
        drop(stale);
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}
