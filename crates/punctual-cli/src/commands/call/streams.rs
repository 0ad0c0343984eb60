//! Calls with streams: items are lines of JSON, read from standard input and printed as they come.

use super::{Reply, returned, value};
use crate::exit::Failure;
use crate::output::Output;
use crate::text::shown;
use punctual::contract::MethodDescription;
use punctual::rpc::{CallOptions, Channel, JsonItems, JsonReply};
use punctual::{Bytes, CallError, Status};
use serde_json::Value;
use std::io::BufRead;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// Items that are read ahead of what is sent.
const ITEMS_AHEAD: usize = 16;

/// The longest line that is read: an item must fit a message.
const LINE_BYTES_MAX: usize = 64 << 20;

/// Calls a method with streams. What it returns as a stream is printed here.
pub(super) async fn call(
    channel: &Channel,
    method: &MethodDescription,
    args: Bytes,
    options: CallOptions,
    output: &mut Output,
) -> Result<Reply, Failure> {
    let wrong = Arc::new(Mutex::new(None));
    let streams = if method.streams.is_empty() { Vec::new() } else { read_input(method, Arc::clone(&wrong)) };
    let called = talk(channel, method, args, streams, options, output).await;
    // What was wrong with the input is the cause of whatever the method made of it.
    match wrong.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(text) => Err(Failure::usage(text)),
        None => called,
    }
}

async fn talk(
    channel: &Channel,
    method: &MethodDescription,
    args: Bytes,
    streams: Vec<JsonItems>,
    options: CallOptions,
    output: &mut Output,
) -> Result<Reply, Failure> {
    let name = &method.full_name;
    if method.shape == "oneway" {
        channel.send_stream_json(name, args, streams, options).await?;
        return Ok(Reply::None);
    }
    let failed = |error: CallError<Bytes>| match error {
        CallError::Status(status) => Failure::from(status),
        CallError::App(error) => returned(name, &error),
    };
    let returns_stream = method.item_err.is_some();
    let reply = channel.stream_json(name, args, streams, returns_stream, options).await.map_err(failed)?;
    let mut items = match reply {
        JsonReply::One(reply) => return Ok(Reply::One(reply)),
        JsonReply::Stream(items) => items,
        _ => return Err(Failure::failed("the reply is of a kind that this build does not know")),
    };
    while let Some(item) = items.next().await {
        let item = value(&item.map_err(failed)?);
        output.line(item.to_string())?;
        // Whoever reads sees it when it comes.
        output.flush()?;
    }
    Ok(Reply::Printed)
}

/// The streams of a method, fed from standard input by a thread: reading blocks, and nothing but the process' end stops it.
fn read_input(method: &MethodDescription, wrong: Arc<Mutex<Option<String>>>) -> Vec<JsonItems> {
    let mut senders = Vec::new();
    let mut streams: Vec<JsonItems> = Vec::new();
    for stream in &method.streams {
        let (sender, receiver) = mpsc::channel(ITEMS_AHEAD);
        senders.push((stream.name.clone(), sender));
        streams.push(Box::pin(Items(receiver)));
    }
    std::thread::spawn(move || {
        if let Err(text) = feed(&mut std::io::stdin().lock(), &senders) {
            *wrong.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
            for (_, sender) in &senders {
                // Where nobody takes it, the call is over already.
                let _ = sender.blocking_send(Err(Status::cancelled("the input cannot be read")));
            }
        }
    });
    streams
}

type Sender = mpsc::Sender<Result<Bytes, Status>>;

/// Sends each line on its stream, up to the end of the input or of the call.
fn feed(input: &mut impl BufRead, senders: &[(String, Sender)]) -> Result<(), String> {
    for number in 1_u64.. {
        let mut line = Vec::new();
        let mut limited = std::io::Read::take(&mut *input, LINE_BYTES_MAX as u64 + 1);
        let read = limited.read_until(b'\n', &mut line);
        let read = read.map_err(|error| format!("cannot read standard input: {error}; check what writes to it"))?;
        if read > LINE_BYTES_MAX {
            return Err(format!("line {number} has more than {LINE_BYTES_MAX} bytes, the most that is read; split it"));
        }
        if read == 0 {
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let item: Value = serde_json::from_slice(&line).map_err(|error| {
            format!("line {number} of standard input is not JSON ({error}): write one value a line")
        })?;
        let (sender, item) = route(senders, item).map_err(|text| format!("line {number} of standard input {text}"))?;
        if sender.blocking_send(Ok(Bytes::from(item.to_string()))).is_err() {
            break;
        }
    }
    Ok(())
}

/// Where an item goes: of several streams, to the one that it names.
fn route(senders: &[(String, Sender)], item: Value) -> Result<(&Sender, Value), String> {
    if let [(_, only)] = senders {
        return Ok((only, item));
    }
    let names: Vec<&str> = senders.iter().map(|(name, _)| name.as_str()).collect();
    let wanted = || format!("does not name its stream: write {{\"NAME\": ITEM}} with one of {}", names.join(", "));
    let Value::Object(fields) = item else { return Err(wanted()) };
    let mut fields = fields.into_iter();
    let (Some((name, item)), None) = (fields.next(), fields.next()) else { return Err(wanted()) };
    match senders.iter().find(|(stream, _)| *stream == name) {
        Some((_, sender)) => Ok((sender, item)),
        None => Err(format!("names a stream `{}`; the method has {}", shown(&name), names.join(", "))),
    }
}

/// The items of one stream, as the thread sends them.
struct Items(mpsc::Receiver<Result<Bytes, Status>>);

impl futures_core::Stream for Items {
    type Item = Result<Bytes, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(names: &[&str], input: &str) -> (Result<(), String>, Vec<Vec<String>>) {
        let (senders, receivers): (Vec<_>, Vec<_>) = names
            .iter()
            .map(|name| {
                let (sender, receiver) = mpsc::channel(ITEMS_AHEAD);
                ((name.to_string(), sender), receiver)
            })
            .unzip();
        let result = feed(&mut input.as_bytes(), &senders);
        drop(senders);
        let taken = receivers.into_iter().map(|mut receiver| {
            let mut items = Vec::new();
            while let Ok(Ok(item)) = receiver.try_recv() {
                items.push(String::from_utf8_lossy(&item).into_owned());
            }
            items
        });
        (result, taken.collect())
    }

    /// One stream takes each line as it is; of several, each line names its own; what is wrong is said with its line.
    #[test]
    fn lines_go_to_their_streams() {
        assert_eq!(
            fed(&["a"], "1\n\n{\"b\": 2}\n\"x\""),
            (Ok(()), vec![vec!["1".into(), "{\"b\":2}".into(), "\"x\"".into()]])
        );
        let (result, items) = fed(&["a", "b"], "{\"b\": 1}\n{\"a\": [2]}\n{\"b\": 3}\n");
        assert_eq!((result, items), (Ok(()), vec![vec!["[2]".into()], vec!["1".into(), "3".into()]]));
        for (input, words) in [
            ("1\n", "line 1 of standard input does not name its stream"),
            ("{\"a\": 1}\n{\"c\": 1}", "line 2 of standard input names a stream `c`; the method has a, b"),
            ("{\"a\": 1, \"b\": 2}", "does not name its stream"),
            ("{\"a\": ", "line 1 of standard input is not JSON"),
        ] {
            let text = fed(&["a", "b"], input).0.unwrap_err();
            assert!(text.contains(words), "{text}");
        }
    }
}
