//! What a contract says, as plain data.

use proc_macro2::{Ident, TokenStream};
use std::time::Duration;
use syn::punctuated::Punctuated;
use syn::{Attribute, Path, Token, Type, TypeParamBound, Visibility};

/// One contract.
pub(crate) struct Service {
    /// The path of the `punctual` crate.
    pub(crate) punctual: Path,
    /// Everything that stood on the trait.
    pub(crate) attributes: Vec<Attribute>,
    /// The trait's doc comment.
    pub(crate) docs: String,
    /// The trait's visibility.
    pub(crate) visibility: Visibility,
    /// The trait.
    pub(crate) ident: Ident,
    /// The service's name on the wire.
    pub(crate) name: String,
    /// The module of the requests.
    pub(crate) module: Ident,
    /// The client.
    pub(crate) client: Ident,
    /// The server wrapper.
    pub(crate) server: Ident,
    /// The bounds that the trait states itself.
    pub(crate) supertraits: Punctuated<TypeParamBound, Token![+]>,
    /// The methods in order.
    pub(crate) methods: Vec<Method>,
}

/// One method.
pub(crate) struct Method {
    /// Its name.
    pub(crate) ident: Ident,
    /// `Service/method`.
    pub(crate) full_name: String,
    /// Everything that stood on it but `rpc`.
    pub(crate) attributes: Vec<Attribute>,
    /// Its doc comment.
    pub(crate) docs: String,
    /// Its request structure.
    pub(crate) request: Ident,
    /// Its place in the descriptor: a number, or a sum where methods before it are conditional.
    pub(crate) index: TokenStream,
    /// Its arguments.
    pub(crate) arguments: Vec<Argument>,
    /// What its attribute and signature say about calls.
    pub(crate) call: Call,
    /// The contract's timeout.
    pub(crate) timeout: Option<Duration>,
    /// The stream that it returns, if it does.
    pub(crate) returned: Option<Streamed>,
    /// Whether its handler runs to its end.
    pub(crate) detached: bool,
    /// Where its handler runs, if not in a task of its own.
    pub(crate) runs: Option<Runs>,
}

/// Where a handler runs. It is the server's affair alone: no descriptor says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runs {
    /// In the connection's turn, for one poll.
    Inline,
    /// On the blocking pool.
    Blocking,
}

/// One argument.
pub(crate) struct Argument {
    /// Its name.
    pub(crate) ident: Ident,
    /// Doc comments, `serde` and `message` attributes: they belong to the request's field.
    pub(crate) attributes: Vec<Attribute>,
    /// Its type.
    pub(crate) ty: Type,
    /// What is streamed, where it is a stream and so no field of the request.
    pub(crate) stream: Option<Streamed>,
}

/// What a `Streaming<T, E>` names.
pub(crate) struct Streamed {
    /// The items.
    pub(crate) item: Type,
    /// What it may fail with; the status where it names nothing.
    pub(crate) err: Option<Type>,
}

/// How a method is called.
pub(crate) enum Call {
    /// One request, one reply.
    Unary {
        /// The `Result`.
        reply: Box<Type>,
        /// Whether a client may send it twice.
        idempotent: bool,
        /// How it runs as a task.
        durable: Option<Durable>,
    },
    /// One request, no reply.
    OneWay,
}

/// How a method runs as a task, as far as the contract says so.
#[derive(Default)]
pub(crate) struct Durable {
    /// The queue.
    pub(crate) queue: Option<String>,
    /// Attempts in all.
    pub(crate) attempts: Option<u32>,
    /// The wait between them.
    pub(crate) backoff: Option<Backoff>,
    /// The level in the queue.
    pub(crate) priority: Option<u8>,
}

/// The wait between attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backoff {
    /// Always the same.
    Fixed(Duration),
    /// Growing by `first` up to `max`.
    Linear(Duration, Duration),
    /// Doubling from `first` up to `max`.
    Exponential(Duration, Duration),
}

impl Method {
    /// The method's policy as a task, if it can be one.
    pub(crate) fn durable(&self) -> Option<&Durable> {
        match &self.call {
            Call::Unary { durable, .. } => durable.as_ref(),
            Call::OneWay => None,
        }
    }

    /// The arguments that are fields of the request.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &Argument> {
        self.arguments.iter().filter(|argument| argument.stream.is_none())
    }

    /// The arguments that are streams.
    pub(crate) fn streams(&self) -> impl Iterator<Item = (&Ident, &Streamed)> {
        self.arguments.iter().filter_map(|argument| Some((&argument.ident, argument.stream.as_ref()?)))
    }

    /// The attributes that decide whether the method exists.
    pub(crate) fn conditions(&self) -> impl Iterator<Item = &Attribute> {
        crate::docs::named(&self.attributes, &["cfg"])
    }
}
