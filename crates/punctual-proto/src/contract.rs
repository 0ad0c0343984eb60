//! What a service promises: its methods, their shapes, and the numbers that stand for them on the wire.
//!
//! `#[punctual::service]` builds one [`ServiceDescriptor`] as a constant; clients, servers and the engine read it. It
//! holds no behaviour and never allocates until a hash is asked for.

mod reply;
#[cfg(test)]
mod tests;

pub use reply::Reply;

use crate::frame::CallStreams;
use crate::schema::{Fields, StructType, Type};
use std::fmt::{self, Write};
use std::time::Duration;

/// A service: the unit that has a contract hash.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ServiceDescriptor {
    /// Its name, unique on a server.
    pub name: &'static str,
    /// The trait's doc comment, lines joined by `\n`; empty without one.
    pub docs: &'static str,
    /// The methods in declaration order. Their index is what a server dispatches by.
    pub methods: &'static [MethodDescriptor],
}

impl ServiceDescriptor {
    /// A service with these methods.
    ///
    /// # Panics
    /// Where two methods have the same id. In a constant that is a compile error.
    #[must_use]
    pub const fn new(name: &'static str, docs: &'static str, methods: &'static [MethodDescriptor]) -> Self {
        check_unique_ids(methods);
        ServiceDescriptor { name, docs, methods }
    }

    /// The first half of a blake3 hash over the contract's canonical text: equal on two sides only if both write and read
    /// the same bytes for every method. Doc comments, names of types, timeouts and durable policies do not count.
    ///
    /// It is computed anew at each call; a runtime keeps the result for the life of the process.
    #[must_use]
    pub fn contract_hash(&self) -> [u8; 16] {
        let mut hasher = Hasher(blake3::Hasher::new());
        // The hasher never refuses.
        let _ = self.write_canonical(&mut hasher);
        let mut hash = [0; 16];
        hash.copy_from_slice(&hasher.0.finalize().as_bytes()[..16]);
        hash
    }

    /// Writes the canonical text, one method a line in order of name, so that moving a method keeps the contract.
    ///
    /// # Errors
    /// Where `out` refuses.
    pub fn write_canonical(&self, out: &mut impl Write) -> fmt::Result {
        let mut methods: Vec<&MethodDescriptor> = self.methods.iter().collect();
        methods.sort_by_key(|method| method.full_name);
        writeln!(out, "service {}", self.name)?;
        for method in methods {
            method.write_canonical(out)?;
            out.write_char('\n')?;
        }
        Ok(())
    }

    /// The index of the method with this id.
    #[must_use]
    pub fn index_of(&self, id: u64) -> Option<usize> {
        self.methods.iter().position(|method| method.id == id)
    }
}

/// The most arguments of a method that are streams. Each is a producer of its own; more are a stream of a type that says
/// which it is.
pub const STREAM_ARGUMENTS_MAX: usize = 16;

/// How a method's call runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Shape {
    /// One request, one reply.
    Unary,
    /// One request, no reply; it may have streams beside it.
    OneWay,
    /// A stream of requests, one reply.
    ClientStream,
    /// One request, a stream of replies.
    ServerStream,
    /// Streams both ways.
    Duplex,
}

impl Shape {
    /// The word for it in canonical texts and descriptions.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Shape::Unary => "unary",
            Shape::OneWay => "oneway",
            Shape::ClientStream => "client-stream",
            Shape::ServerStream => "server-stream",
            Shape::Duplex => "duplex",
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An argument that is a stream.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct StreamDescriptor {
    /// The argument's name.
    pub name: &'static str,
    /// What its items are.
    pub item: &'static Type,
    /// What it may fail with; [`Type::Status`] where that is no type of the application's.
    pub err: &'static Type,
}

impl StreamDescriptor {
    /// A stream of these items, which may fail with this.
    #[must_use]
    pub const fn new(name: &'static str, item: &'static Type, err: &'static Type) -> Self {
        StreamDescriptor { name, item, err }
    }
}

/// One method of a service.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct MethodDescriptor {
    /// Its name in the trait.
    pub name: &'static str,
    /// `Service/method`.
    pub full_name: &'static str,
    /// [`method_id`] of the full name.
    pub id: u64,
    /// Its doc comment, lines joined by `\n`; empty without one.
    pub docs: &'static str,
    /// How its call runs.
    pub shape: Shape,
    /// Whether a client may send it twice.
    pub idempotent: bool,
    /// The contract's own timeout, used where the caller gives none.
    pub timeout: Option<Duration>,
    /// How it runs as a durable task; `None` where it cannot be stored.
    pub durable: Option<DurablePolicy>,
    /// The arguments that are no streams: a structure with one named field each.
    pub args: &'static Type,
    /// The arguments that are streams, in order; they have the numbers from 1 on the wire.
    pub streams: &'static [StreamDescriptor],
    /// The result; the items of the returned stream where the result is one.
    pub ok: &'static Type,
    /// What the returned stream may fail with, where the result is one.
    pub item_err: Option<&'static Type>,
    /// The application's error.
    pub err: &'static Type,
    /// Whether the only argument is raw bytes, sent without a codec.
    pub raw_args: bool,
    /// Whether the result is raw bytes, sent without a codec.
    pub raw_ok: bool,
    /// Whether the request holds something that the compact codec cannot carry (a JSON value).
    pub args_self_describing: bool,
    /// Whether the reply does.
    pub reply_self_describing: bool,
    /// Whether the handler runs to its end, also when its call is over.
    pub detached: bool,
}

impl MethodDescriptor {
    /// A unary method without attributes. `full_name` is `Service/method`.
    ///
    /// # Panics
    /// Where `full_name` has no slash. In a constant that is a compile error.
    #[must_use]
    pub const fn unary(full_name: &'static str, args: &'static Type, ok: &'static Type, err: &'static Type) -> Self {
        MethodDescriptor {
            name: after_slash(full_name),
            full_name,
            id: method_id(full_name),
            docs: "",
            shape: Shape::Unary,
            idempotent: false,
            timeout: None,
            durable: None,
            args,
            streams: &[],
            ok,
            item_err: None,
            err,
            raw_args: is_only_bytes(args),
            raw_ok: matches!(ok, Type::Bytes),
            args_self_describing: args.is_self_describing(),
            reply_self_describing: ok.is_self_describing() || err.is_self_describing(),
            detached: false,
        }
    }

    /// A one-way method without attributes.
    ///
    /// # Panics
    /// As [`MethodDescriptor::unary`].
    #[must_use]
    pub const fn oneway(full_name: &'static str, args: &'static Type) -> Self {
        let mut method = Self::unary(full_name, args, &Type::Unit, &Type::Unit);
        method.shape = Shape::OneWay;
        method
    }

    /// The same with these arguments beside the others, each a stream.
    ///
    /// # Panics
    /// Where they are more than [`STREAM_ARGUMENTS_MAX`]. In a constant that is a compile error.
    #[must_use]
    pub const fn streams(mut self, streams: &'static [StreamDescriptor]) -> Self {
        assert!(streams.len() <= STREAM_ARGUMENTS_MAX, "a method takes at most 16 streams");
        self.streams = streams;
        self.shape = match self.shape {
            Shape::Unary => Shape::ClientStream,
            Shape::ServerStream => Shape::Duplex,
            shape => shape,
        };
        self
    }

    /// The same, but what succeeds is a stream of its result, which may fail with `err` later.
    #[must_use]
    pub const fn returns_stream(mut self, err: &'static Type) -> Self {
        self.item_err = Some(err);
        self.reply_self_describing = self.reply_self_describing || err.is_self_describing();
        self.shape = match self.shape {
            Shape::ClientStream => Shape::Duplex,
            _ => Shape::ServerStream,
        };
        self
    }

    /// The same, but its handler runs to its end.
    #[must_use]
    pub const fn detached(mut self) -> Self {
        self.detached = true;
        self
    }

    /// Whether it has streams at all.
    #[must_use]
    pub const fn has_streams(&self) -> bool {
        !self.streams.is_empty() || self.item_err.is_some()
    }

    /// The streams that a call of it announces.
    #[must_use]
    pub fn call_streams(&self) -> CallStreams {
        CallStreams::new(u16::try_from(self.streams.len()).unwrap_or(u16::MAX), self.item_err.is_some())
    }

    /// The same with a doc comment.
    #[must_use]
    pub const fn docs(mut self, docs: &'static str) -> Self {
        self.docs = docs;
        self
    }

    /// The same, but a client may send it twice.
    #[must_use]
    pub const fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// The same with a timeout of its own.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The same, but it can be stored and run later.
    #[must_use]
    pub const fn durable(mut self, policy: DurablePolicy) -> Self {
        self.durable = Some(policy);
        self
    }

    /// The name of the service: what stands before the slash.
    #[must_use]
    pub fn service(&self) -> &'static str {
        self.full_name.split_once('/').map_or("", |(service, _)| service)
    }

    /// A hash of what the method writes in both directions: equal on two sides means that the compact codec may be used.
    #[must_use]
    pub fn schema_hash(&self) -> u64 {
        let mut hasher = Hasher(blake3::Hasher::new());
        let _ = self.write_canonical(&mut hasher);
        hasher.first_u64()
    }

    /// A hash of the arguments alone: what is stored beside a durable call, to tell whether an old one needs care.
    #[must_use]
    pub fn args_hash(&self) -> u64 {
        let mut hasher = Hasher(blake3::Hasher::new());
        let _ = self.args.write_canonical(&mut hasher);
        hasher.first_u64()
    }

    /// Writes the canonical text: `unary charge struct{order:u64} -> u64 ! enum{Declined}`, with ` < ITEM ! ERR` behind the
    /// arguments for each that is a stream, and ` > ERR` at the end where a stream is returned.
    ///
    /// # Errors
    /// Where `out` refuses.
    pub fn write_canonical(&self, out: &mut impl Write) -> fmt::Result {
        write!(out, "{} {} ", self.shape, self.name)?;
        self.args.write_canonical(out)?;
        for stream in self.streams {
            out.write_str(" < ")?;
            stream.item.write_canonical(out)?;
            out.write_str(" ! ")?;
            stream.err.write_canonical(out)?;
        }
        out.write_str(" -> ")?;
        self.ok.write_canonical(out)?;
        out.write_str(" ! ")?;
        self.err.write_canonical(out)?;
        match self.item_err {
            Some(err) => {
                out.write_str(" > ")?;
                err.write_canonical(out)
            }
            None => Ok(()),
        }
    }
}

/// How a method runs as a durable task, as far as its contract says so; the rest is the engine's defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DurablePolicy {
    /// The queue; `None` is the service's name.
    pub queue: Option<&'static str>,
    /// Attempts in all, at least 1.
    pub attempts: Option<u32>,
    /// The wait between attempts.
    pub backoff: Option<Backoff>,
    /// The level inside the queue, 0 (first) to 3.
    pub priority: Option<u8>,
}

impl DurablePolicy {
    /// Everything by default.
    #[must_use]
    pub const fn new() -> Self {
        DurablePolicy { queue: None, attempts: None, backoff: None, priority: None }
    }

    /// The same in this queue.
    #[must_use]
    pub const fn queue(mut self, queue: &'static str) -> Self {
        self.queue = Some(queue);
        self
    }

    /// The same with this many attempts in all.
    #[must_use]
    pub const fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = Some(attempts);
        self
    }

    /// The same with this wait between attempts.
    #[must_use]
    pub const fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = Some(backoff);
        self
    }

    /// The same at this level.
    #[must_use]
    pub const fn priority(mut self, priority: u8) -> Self {
        self.priority = Some(priority);
        self
    }
}

impl Default for DurablePolicy {
    fn default() -> Self {
        Self::new()
    }
}

/// The wait between attempts, as a contract states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backoff {
    /// Always the same.
    Fixed(Duration),
    /// `first`, `2 first`, `3 first`, up to `max`.
    Linear {
        /// The first wait.
        first: Duration,
        /// The longest.
        max: Duration,
    },
    /// `first`, doubled each time, up to `max`.
    Exponential {
        /// The first wait.
        first: Duration,
        /// The longest.
        max: Duration,
    },
}

/// The number of a method on the wire: FNV-1a, 64 bits, over `Service/method`.
#[must_use]
pub const fn method_id(full_name: &str) -> u64 {
    let bytes = full_name.as_bytes();
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        at += 1;
    }
    hash
}

/// Refuses methods that share an id.
///
/// # Panics
/// Where two do. In a constant that is a compile error.
pub const fn check_unique_ids(methods: &[MethodDescriptor]) {
    let mut left = 0;
    while left < methods.len() {
        let mut right = left + 1;
        while right < methods.len() {
            assert!(
                methods[left].id != methods[right].id,
                "two methods of this service have the same 64-bit id: rename one of them"
            );
            right += 1;
        }
        left += 1;
    }
}

const fn is_only_bytes(args: &Type) -> bool {
    match args {
        Type::Struct(StructType { fields: Fields::Named([only]), .. }) => matches!(only.ty, Type::Bytes),
        _ => false,
    }
}

const fn after_slash(full_name: &'static str) -> &'static str {
    let bytes = full_name.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'/' {
            return full_name.split_at(at + 1).1;
        }
        at += 1;
    }
    panic!("a method's full name is Service/method")
}

/// A hasher that a formatter can write to.
struct Hasher(blake3::Hasher);

impl Hasher {
    fn first_u64(&self) -> u64 {
        let hash = self.0.finalize();
        hash.as_bytes().first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
    }
}

impl Write for Hasher {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}
