//! `#[rpc(..)]` on a method.

use super::duration;
use super::model::{Backoff, Durable, Runs};
use crate::errors::Errors;
use proc_macro2::Span;
use std::time::Duration;
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::{Attribute, Error, LitInt, LitStr};

/// What `rpc` knows, as told to who writes something else.
const KNOWN: &str = "`oneway`, `idempotent`, `detached`, `inline`, `blocking`, `timeout`, `durable`, `queue`, `attempts`, `backoff`, `priority`";

/// Attempts beyond this are a mistake: with the shortest useful waits they outlive every retention.
const ATTEMPTS_MAX: u32 = 1_000;
/// The last level of a queue.
const PRIORITY_MAX: u8 = 3;
/// Queue names are keys in every store's index.
const QUEUE_BYTES_MAX: usize = 200;

/// What stood in the attributes, each with the span of its key.
#[derive(Default)]
pub(crate) struct Options {
    oneway: Option<Span>,
    idempotent: Option<Span>,
    detached: Option<Span>,
    inline: Option<Span>,
    blocking: Option<Span>,
    timeout: Option<(Span, Duration)>,
    durable: Option<Span>,
    queue: Option<(Span, String)>,
    attempts: Option<(Span, u32)>,
    backoff: Option<(Span, Backoff)>,
    priority: Option<(Span, u8)>,
}

impl Options {
    /// Reads every `rpc` attribute of a method and refuses what contradicts itself.
    pub(crate) fn parse(attributes: &[Attribute], errors: &mut Errors) -> Options {
        let mut options = Options::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("rpc")) {
            let parsed = attribute.parse_nested_meta(|meta| options.parse_one(&meta));
            errors.take(parsed);
        }
        options.refuse_contradictions(errors);
        options
    }

    fn parse_one(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let key = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        let span = meta.path.span();
        match key.as_str() {
            "oneway" => set(&mut self.oneway, span, span, &key),
            "idempotent" => set(&mut self.idempotent, span, span, &key),
            "detached" => set(&mut self.detached, span, span, &key),
            "durable" => set(&mut self.durable, span, span, &key),
            "inline" => set(&mut self.inline, span, span, &key),
            "blocking" => set(&mut self.blocking, span, span, &key),
            "timeout" => {
                let timeout = text(meta, "\"2s\"")?;
                let value = duration::parse(&timeout.value()).map_err(|reason| Error::new(timeout.span(), reason))?;
                set(&mut self.timeout, (span, value), span, &key)
            }
            "backoff" => {
                let backoff = text(meta, "\"exponential(1s, 10m)\"")?;
                let value =
                    duration::parse_backoff(&backoff.value()).map_err(|reason| Error::new(backoff.span(), reason))?;
                set(&mut self.backoff, (span, value), span, &key)
            }
            "queue" => {
                let queue = text(meta, "\"payments\"")?;
                let value = check_queue(&queue)?;
                set(&mut self.queue, (span, value), span, &key)
            }
            "attempts" => {
                let attempts: LitInt = meta.value()?.parse()?;
                let value = attempts.base10_parse::<u32>().ok().filter(|value| (1..=ATTEMPTS_MAX).contains(value));
                let value = value.ok_or_else(|| {
                    Error::new(
                        attempts.span(),
                        format!("`attempts` counts all tries, from 1 (no retry) to {ATTEMPTS_MAX}"),
                    )
                })?;
                set(&mut self.attempts, (span, value), span, &key)
            }
            "priority" => {
                let priority: LitInt = meta.value()?.parse()?;
                let value = priority.base10_parse::<u8>().ok().filter(|value| *value <= PRIORITY_MAX);
                let value = value.ok_or_else(|| {
                    Error::new(
                        priority.span(),
                        format!("`priority` is a level from 0 (first) to {PRIORITY_MAX} (last)"),
                    )
                })?;
                set(&mut self.priority, (span, value), span, &key)
            }
            _ => Err(meta.error(format!("`rpc` knows {KNOWN}"))),
        }
    }

    fn refuse_contradictions(&self, errors: &mut Errors) {
        let mut refuse = |span: Span, message: &str| errors.push(Error::new(span, message));
        if self.oneway.is_some() {
            if let Some(span) = self.idempotent {
                refuse(
                    span,
                    "`idempotent` allows a retry, and a one-way call is never retried: nobody learns whether it arrived",
                );
            }
            if let Some(span) = self.durable {
                refuse(
                    span,
                    "a durable method says whether it succeeded, so it cannot be `oneway`: return `Result<(), E>`; \
                     enqueueing it does not wait for the result",
                );
            }
        }
        if let (Some(_), Some(span)) = (self.blocking, self.inline) {
            refuse(
                span,
                "`inline` is for a handler that never blocks, and `blocking` for one that does: keep one of them",
            );
        }
        if let (Some(_), Some(span)) = (self.durable, self.blocking) {
            refuse(
                span,
                "a durable method also runs as a task, which has no thread of its own to block: move the blocking part \
                 into `tokio::task::spawn_blocking` in the handler, and drop `blocking`",
            );
        }
        if self.durable.is_none() {
            let orphans = [
                ("queue", self.queue.as_ref().map(|(span, _)| *span)),
                ("attempts", self.attempts.map(|(span, _)| span)),
                ("backoff", self.backoff.map(|(span, _)| span)),
                ("priority", self.priority.map(|(span, _)| span)),
            ];
            for (key, span) in orphans {
                if let Some(span) = span {
                    refuse(span, &format!("`{key}` says how a durable method runs as a task: add `durable`"));
                }
            }
        }
    }

    /// Refuses what does not go with streams; `argument` is where one stands, `returned` where a stream is the result.
    pub(crate) fn refuse_with_streams(&self, argument: Option<Span>, returned: Option<Span>, errors: &mut Errors) {
        let mut refuse = |span: Span, message: &str| errors.push(Error::new(span, message));
        if let (Some(stream), Some(_)) = (argument.or(returned), self.durable) {
            refuse(
                stream,
                "a durable method is stored with its arguments and its result, and a stream cannot be: use a `Vec`, or drop \
                 `durable`",
            );
        }
        if let (Some(_), Some(span)) = (argument.or(returned), self.idempotent) {
            refuse(span, "`idempotent` allows a retry, and only a call without streams can be made twice: drop it");
        }
        if let (Some(_), Some(span)) = (argument.or(returned), self.inline) {
            refuse(
                span,
                "a handler with a stream waits for the other side, so that one poll never ends it: drop `inline`",
            );
        }
        if let (Some(_), Some(span)) = (returned, self.detached) {
            refuse(span, "a handler whose stream nobody takes cannot run to its end: drop `detached`");
        }
    }

    /// Whether the handler runs to its end.
    pub(crate) fn detached(&self) -> bool {
        self.detached.is_some()
    }

    /// Where the handler runs, if the method says so.
    pub(crate) fn runs(&self) -> Option<Runs> {
        self.inline.map(|_| Runs::Inline).or(self.blocking.map(|_| Runs::Blocking))
    }

    /// Where `oneway` stands.
    pub(crate) fn oneway(&self) -> Option<Span> {
        self.oneway
    }

    /// Whether a client may send the call twice.
    pub(crate) fn idempotent(&self) -> bool {
        self.idempotent.is_some()
    }

    /// The contract's timeout.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout.map(|(_, timeout)| timeout)
    }

    /// How the method runs as a task.
    pub(crate) fn durable(self) -> Option<Durable> {
        self.durable.map(|_| Durable {
            queue: self.queue.map(|(_, queue)| queue),
            attempts: self.attempts.map(|(_, attempts)| attempts),
            backoff: self.backoff.map(|(_, backoff)| backoff),
            priority: self.priority.map(|(_, priority)| priority),
        })
    }
}

fn set<T>(slot: &mut Option<T>, value: T, span: Span, key: &str) -> syn::Result<()> {
    if slot.is_some() {
        return Err(Error::new(span, format!("`{key}` is given twice")));
    }
    *slot = Some(value);
    Ok(())
}

fn text(meta: &ParseNestedMeta<'_>, example: &str) -> syn::Result<LitStr> {
    let key = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
    let value = meta.value().map_err(|_| meta.error(format!("`{key}` takes a text, as in `{key} = {example}`")))?;
    value
        .parse()
        .map_err(|error: Error| Error::new(error.span(), format!("`{key}` takes a text, as in `{key} = {example}`")))
}

fn check_queue(queue: &LitStr) -> syn::Result<String> {
    let name = queue.value();
    if name.is_empty() || name.len() > QUEUE_BYTES_MAX || name.chars().any(char::is_control) {
        return Err(Error::new(
            queue.span(),
            format!("a queue's name is 1 to {QUEUE_BYTES_MAX} bytes without control characters"),
        ));
    }
    Ok(name)
}
