//! Admission control: which calls a server lets in, which wait, and which it refuses, before anything of them is decoded.
//!
//! ```text
//!  enter ──▶ room in every scope ───────────────────▶ Permit ── leave ──▶ the next in line
//!     │                                                 ▲
//!     ├─ no room ─▶ the line, bounded by count, bytes, time ─┘
//!     └─ the line is full, or waiting is no use ─▶ Refusal: the limit's name and value, and when to try again
//! ```
//! A call passes up to four scopes: the server, its service, its method, its partition (a tenant, say). Each may bound how many
//! calls run at once, and how many begin in a time. The line is one for all; whoever in it has room goes, the oldest first, so
//! that one full scope holds nobody else back. Pure: the runtime owns the lock, the clock and what is woken.

mod rate;
mod scope;
#[cfg(test)]
mod tests;

pub use rate::Rate;
pub use scope::{ScopeKind, ScopeLimits};

use punctual_clock::Instant;
use scope::{Blocked, Scope};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

/// What is let in. Everything is off by default: no scope has a limit, and what has no limit costs nothing.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AdmissionLimits {
    /// Of the server as a whole.
    pub server: ScopeLimits,
    /// Of single services, by name.
    pub services: BTreeMap<String, ScopeLimits>,
    /// Of single methods, by `Service/method`.
    pub methods: BTreeMap<String, ScopeLimits>,
    /// Of each partition.
    pub partition: ScopeLimits,
    /// Partitions that are told apart at once. What comes beyond shares one, so that made-up names cost no memory. 1,024.
    pub partitions_max: usize,
    /// Calls that may wait. 0: none does, what has no room is refused at once. 256.
    pub queue_calls_max: usize,
    /// Bytes of bodies and metadata that may wait. 8 MiB.
    pub queue_bytes_max: usize,
    /// How long a call waits. Its budget may end before. 1 s.
    pub queue_wait_max: Duration,
    /// When a call is to come again that was refused for how many run: nobody knows when those end. 100 ms.
    pub retry_after: Duration,
}

impl Default for AdmissionLimits {
    fn default() -> Self {
        AdmissionLimits {
            server: ScopeLimits::NONE,
            services: BTreeMap::new(),
            methods: BTreeMap::new(),
            partition: ScopeLimits::NONE,
            partitions_max: 1_024,
            queue_calls_max: 256,
            queue_bytes_max: 8 << 20,
            queue_wait_max: Duration::from_secs(1),
            retry_after: Duration::from_millis(100),
        }
    }
}

impl AdmissionLimits {
    /// Whether anything is limited.
    #[must_use]
    pub fn is_on(&self) -> bool {
        let all =
            [&self.server, &self.partition].into_iter().chain(self.services.values()).chain(self.methods.values());
        all.into_iter().any(|limits| *limits != ScopeLimits::NONE)
    }

    /// Refuses settings that let nothing in, or cannot be kept.
    ///
    /// # Errors
    /// The first one, with what to set instead.
    pub fn validate(&self) -> Result<(), String> {
        self.server.validate("the server")?;
        self.partition.validate("a partition")?;
        for (name, limits) in self.services.iter().chain(&self.methods) {
            limits.validate(name)?;
        }
        if self.partitions_max == 0 {
            return Err("partitions_max of the admission control is 0; set at least 1".to_owned());
        }
        Ok(())
    }
}

/// The scopes of one method, looked up once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Route {
    service: Option<u32>,
    method: Option<u32>,
}

/// A call at the door.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// Of its method.
    pub route: Route,
    /// Whose it is, where partitions are limited.
    pub partition: Option<&'a str>,
    /// What is held of it while it waits.
    pub bytes: usize,
    /// When its budget ends: what is known to come later is not waited for. Whoever runs the call ends it then, also in the
    /// line.
    pub deadline: Instant,
}

/// The right of one call to run. To be given back exactly once, by [`Admission::leave`].
#[derive(Debug)]
#[must_use = "a permit that is not given back is lost"]
pub struct Permit {
    wanted: Wanted,
}

/// A place in the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// Why a call is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// The limit that has no room.
    pub limit: &'static str,
    /// Its value.
    pub value: u64,
    /// When to try again.
    pub retry_after: Duration,
}

/// What became of a call at the door.
#[derive(Debug)]
pub enum Entered {
    /// It runs.
    Admitted(Permit),
    /// It waits: look again at this instant, or when its waker is woken.
    Waits(Ticket, Instant),
    /// It does not.
    Refused(Refusal),
}

/// What became of a call in the line.
#[derive(Debug)]
pub enum Waited {
    /// It runs.
    Admitted(Permit),
    /// It waits on: look again at this instant, or when its waker is woken.
    Waits(Instant),
    /// It has waited long enough.
    Refused(Refusal),
}

/// The scopes of one call, by their places.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    route: Route,
    partition: Option<u32>,
}

struct Waiting<W> {
    ticket: Ticket,
    wanted: Wanted,
    bytes: usize,
    until: Instant,
    waker: Option<W>,
    /// It was let in, and has not looked since.
    permit: Option<Permit>,
}

/// What a server lets in, and who waits. `W` is what wakes who waits.
pub struct Admission<W> {
    limits: AdmissionLimits,
    server: Scope,
    /// Of services and methods that have limits.
    named: Vec<Scope>,
    /// Of partitions; the first one is shared by those that have none of their own.
    partitions: Vec<Scope>,
    by_name: HashMap<Box<str>, u32>,
    line: VecDeque<Waiting<W>>,
    /// Of those in the line who were not let in.
    waiting: usize,
    queued_bytes: usize,
    tickets: u64,
}

impl<W> Admission<W> {
    /// Nobody runs and nobody waits.
    #[must_use]
    pub fn new(limits: AdmissionLimits) -> Self {
        let services = limits.services.values().map(|own| Scope::new(ScopeKind::Service, own.clone()));
        let methods = limits.methods.values().map(|own| Scope::new(ScopeKind::Method, own.clone()));
        Admission {
            server: Scope::new(ScopeKind::Server, limits.server.clone()),
            named: services.chain(methods).collect(),
            partitions: vec![Scope::new(ScopeKind::Partition, limits.partition.clone())],
            by_name: HashMap::new(),
            line: VecDeque::new(),
            waiting: 0,
            queued_bytes: 0,
            tickets: 0,
            limits,
        }
    }

    /// The scopes of a method.
    #[must_use]
    pub fn route(&self, service: &str, full_name: &str) -> Route {
        let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let service = self.limits.services.keys().position(|name| name == service);
        let method = self.limits.methods.keys().position(|name| name == full_name);
        Route { service: service.map(place), method: method.map(|at| place(self.limits.services.len() + at)) }
    }

    /// Whether partitions are limited, and so told apart.
    #[must_use]
    pub fn has_partitions(&self) -> bool {
        self.limits.partition != ScopeLimits::NONE
    }

    /// Calls that run.
    #[must_use]
    pub fn running(&self) -> usize {
        self.server.running()
    }

    /// Calls that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Partitions that are told apart now.
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.by_name.len()
    }

    /// A call comes. Who was let in from the line meanwhile is in `woken`, to be woken outside of the lock.
    pub fn enter(&mut self, arrival: Arrival<'_>, now: Instant, woken: &mut Vec<W>) -> Entered {
        self.advance(now, woken);
        let partition = arrival.partition.filter(|_| self.has_partitions()).map(|name| self.partition(name, now));
        let wanted = Wanted { route: arrival.route, partition };
        let blocked = match self.blocked(wanted, now) {
            None => return Entered::Admitted(self.take(wanted, now)),
            Some(blocked) => blocked,
        };
        let until = now.after(self.limits.queue_wait_max);
        let refusal = self.refusal(&blocked);
        // What is known to come too late is not waited for.
        if self.limits.queue_calls_max == 0 || blocked.free_at.is_some_and(|at| at >= until.min(arrival.deadline)) {
            return Entered::Refused(refusal);
        }
        let full = |limit, value: usize| {
            Entered::Refused(Refusal { limit, value: value as u64, retry_after: self.limits.retry_after })
        };
        if self.line.len() >= self.limits.queue_calls_max {
            return full("admission_queue_calls_max", self.limits.queue_calls_max);
        }
        if self.queued_bytes.saturating_add(arrival.bytes) > self.limits.queue_bytes_max {
            return full("admission_queue_bytes_max", self.limits.queue_bytes_max);
        }
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.each(wanted, Scope::joined);
        self.queued_bytes += arrival.bytes;
        self.waiting += 1;
        self.line.push_back(Waiting { ticket, wanted, bytes: arrival.bytes, until, waker: None, permit: None });
        Entered::Waits(ticket, blocked.free_at.map_or(until, |at| at.min(until)))
    }

    /// A call in the line looks whether it may run. Where it waits on, `waker` is kept, and what was kept before is returned
    /// in its place.
    pub fn poll(&mut self, ticket: Ticket, waker: &mut Option<W>, now: Instant, woken: &mut Vec<W>) -> Waited {
        self.advance(now, woken);
        let gone = Waited::Refused(Refusal { limit: "", value: 0, retry_after: self.limits.retry_after });
        let Some(at) = self.line.iter().position(|one| one.ticket == ticket) else { return gone };
        let Some(waiting) = self.line.get_mut(at) else { return gone };
        if waiting.permit.is_none() && now < waiting.until {
            let (wanted, until) = (waiting.wanted, waiting.until);
            if waker.is_some() {
                std::mem::swap(&mut waiting.waker, waker);
            }
            let free_at = self.blocked(wanted, now).and_then(|blocked| blocked.free_at);
            return Waited::Waits(free_at.map_or(until, |at| at.min(until)));
        }
        let Some(waiting) = self.line.remove(at) else { return gone };
        *waker = waiting.waker;
        self.queued_bytes -= waiting.bytes;
        if let Some(permit) = waiting.permit {
            return Waited::Admitted(permit);
        }
        self.waiting -= 1;
        let refusal = self.blocked(waiting.wanted, now).map(|blocked| self.refusal(&blocked));
        self.each(waiting.wanted, Scope::parted);
        Waited::Refused(refusal.unwrap_or(Refusal {
            limit: "admission_queue_wait_max_millis",
            value: u64::try_from(self.limits.queue_wait_max.as_millis()).unwrap_or(u64::MAX),
            retry_after: self.limits.retry_after,
        }))
    }

    /// A call in the line gives up; whether it was let in meanwhile makes no difference. What was kept of it is returned.
    pub fn give_up(&mut self, ticket: Ticket, now: Instant, woken: &mut Vec<W>) -> Option<W> {
        let at = self.line.iter().position(|one| one.ticket == ticket)?;
        let waiting = self.line.remove(at)?;
        self.queued_bytes -= waiting.bytes;
        match waiting.permit {
            Some(permit) => self.leave(permit, now, woken),
            None => {
                self.waiting -= 1;
                self.each(waiting.wanted, Scope::parted);
            }
        }
        waiting.waker
    }

    /// A call has ended.
    pub fn leave(&mut self, permit: Permit, now: Instant, woken: &mut Vec<W>) {
        self.each(permit.wanted, Scope::left);
        self.advance(now, woken);
    }

    /// Lets in whoever in the line has room, the oldest first.
    fn advance(&mut self, now: Instant, woken: &mut Vec<W>) {
        if self.waiting == 0 {
            return;
        }
        for at in 0..self.line.len() {
            let Some(waiting) = self.line.get(at) else { break };
            let wanted = waiting.wanted;
            if waiting.permit.is_some() || now >= waiting.until || self.blocked(wanted, now).is_some() {
                continue;
            }
            self.each(wanted, Scope::parted);
            let permit = self.take(wanted, now);
            self.waiting -= 1;
            if let Some(waiting) = self.line.get_mut(at) {
                waiting.permit = Some(permit);
                woken.extend(waiting.waker.take());
            }
        }
    }

    fn take(&mut self, wanted: Wanted, now: Instant) -> Permit {
        self.each(wanted, |scope| scope.take(now));
        Permit { wanted }
    }

    /// The scope that has no room; of several the one that is known to have some last.
    fn blocked(&self, wanted: Wanted, now: Instant) -> Option<Blocked> {
        let named = |place: Option<u32>| self.named.get(place? as usize);
        let partition = wanted.partition.and_then(|place| self.partitions.get(place as usize));
        let scopes = [Some(&self.server), named(wanted.route.service), named(wanted.route.method), partition];
        let blocked = scopes.into_iter().flatten().filter_map(|scope| scope.blocked(now));
        // A scope that says when is outweighed by one that cannot.
        blocked.max_by_key(|blocked| blocked.free_at.unwrap_or(Instant::FAR))
    }

    fn each(&mut self, wanted: Wanted, mut note: impl FnMut(&mut Scope)) {
        note(&mut self.server);
        for place in [wanted.route.service, wanted.route.method].into_iter().flatten() {
            if let Some(scope) = self.named.get_mut(place as usize) {
                note(scope);
            }
        }
        if let Some(partition) = wanted.partition.and_then(|place| self.partitions.get_mut(place as usize)) {
            note(partition);
        }
    }

    fn refusal(&self, blocked: &Blocked) -> Refusal {
        let retry_after = blocked.retry_after.unwrap_or(self.limits.retry_after);
        Refusal { limit: blocked.limit, value: blocked.value, retry_after }
    }

    /// The place of a partition. One that nobody uses, and whose rate remembers nothing, gives its own to a new one.
    fn partition(&mut self, name: &str, now: Instant) -> u32 {
        if let Some(place) = self.by_name.get(name) {
            return *place;
        }
        let place = if self.by_name.len() < self.limits.partitions_max {
            self.partitions.push(Scope::new(ScopeKind::Partition, self.limits.partition.clone()));
            u32::try_from(self.partitions.len() - 1).unwrap_or(0)
        } else {
            let idle = |place: u32| self.partitions.get(place as usize).is_some_and(|scope| scope.is_idle(now));
            let Some((old, place)) = self.by_name.iter().find(|(_, place)| idle(**place)) else { return 0 };
            let (old, place) = (old.clone(), *place);
            self.by_name.remove(&old);
            place
        };
        self.by_name.insert(name.into(), place);
        place
    }
}

impl<W> std::fmt::Debug for Admission<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admission")
            .field("running", &self.running())
            .field("waiting", &self.waiting)
            .field("queued_bytes", &self.queued_bytes)
            .field("partitions", &self.by_name.len())
            .finish_non_exhaustive()
    }
}
