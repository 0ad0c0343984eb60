//! The workloads.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Items of one call with streams.
pub const ITEMS: u64 = 16;

/// Bytes of one item.
pub const ITEM_BYTES: usize = 4_096;

/// Callers of the small calls beside a bulk stream: light work, since a full core would hide what the stream does to it.
const SMALL_CALLERS: usize = 16;

/// One workload. Each is the same code for every column, over the methods of [`Calls`](crate::rpc::calls::Calls).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Case {
    /// Two `i32` there, one back
    Add,
    /// Two `i32` there and no answer; counted where the server takes it
    Oneway,
    /// 256 bytes there and back
    #[value(name = "echo-256")]
    #[serde(rename = "echo-256")]
    Echo256,
    /// 4,096 bytes there and back
    #[value(name = "echo-4096")]
    #[serde(rename = "echo-4096")]
    Echo4096,
    /// A stream of 16 items of 4,096 bytes there, their length back
    #[value(name = "upload-4096")]
    #[serde(rename = "upload-4096")]
    Upload4096,
    /// The same stream back
    #[value(name = "download-4096")]
    #[serde(rename = "download-4096")]
    Download4096,
    /// There and back, each item as it comes
    #[value(name = "duplex-4096")]
    #[serde(rename = "duplex-4096")]
    Duplex4096,
    /// `add` with one call in flight
    Latency,
    /// `add`, and every hundredth call's handler sleeps 10 ms
    Slow,
    /// `add` with few in flight: what `beside` is held against
    Calm,
    /// `add` as in `calm`, beside one stream on the same connection that never ends
    Beside,
    /// Ten thousand connections that did one call each and then nothing
    Idle,
}

impl Case {
    /// All of them, in the order of the table.
    pub const ALL: [Case; 12] = [
        Case::Add,
        Case::Oneway,
        Case::Echo256,
        Case::Echo4096,
        Case::Upload4096,
        Case::Download4096,
        Case::Duplex4096,
        Case::Latency,
        Case::Slow,
        Case::Calm,
        Case::Beside,
        Case::Idle,
    ];

    /// Those of a quick look.
    pub const QUICK: usize = 8;

    /// The name on the command line and in the table.
    pub fn name(self) -> &'static str {
        match self {
            Case::Add => "add",
            Case::Oneway => "oneway",
            Case::Echo256 => "echo-256",
            Case::Echo4096 => "echo-4096",
            Case::Upload4096 => "upload-4096",
            Case::Download4096 => "download-4096",
            Case::Duplex4096 => "duplex-4096",
            Case::Latency => "latency",
            Case::Slow => "slow",
            Case::Calm => "calm",
            Case::Beside => "beside",
            Case::Idle => "idle",
        }
    }

    /// What one operation of it is, for the table.
    pub fn does(self) -> &'static str {
        match self {
            Case::Add => "two i32 there, one back",
            Case::Oneway => "two i32 there, no answer; counted where the server takes it",
            Case::Echo256 => "256 bytes there and back",
            Case::Echo4096 => "4,096 bytes there and back",
            Case::Upload4096 => "a call with 16 items of 4,096 bytes there",
            Case::Download4096 => "a call with 16 items of 4,096 bytes back",
            Case::Duplex4096 => "a call with 16 items of 4,096 bytes there and back",
            Case::Latency => "add with one call in flight",
            Case::Slow => "add, 1 % of the handlers sleep 10 ms; latencies are of the others",
            Case::Calm => "add with few in flight, nothing beside it",
            Case::Beside => "the same beside one endless stream of 4,096-byte items on its connection",
            Case::Idle => "connections that did one add each and then nothing",
        }
    }

    /// How many calls are in flight in it where the run has `asked` for so many.
    pub fn in_flight(self, asked: usize) -> usize {
        match self {
            Case::Latency | Case::Idle => 1,
            Case::Calm | Case::Beside => asked.min(SMALL_CALLERS),
            _ => asked,
        }
    }

    /// How many connections they are spread over.
    pub fn connections(self, asked: usize) -> usize {
        match self {
            // What is beside each other shares a connection.
            Case::Latency | Case::Calm | Case::Beside => 1,
            _ => asked,
        }
    }

    /// Whether its calls carry streams, or run beside one.
    pub fn has_streams(self) -> bool {
        matches!(self, Case::Upload4096 | Case::Download4096 | Case::Duplex4096 | Case::Calm | Case::Beside)
    }

    /// Payload bytes of one message.
    pub fn bytes(self) -> usize {
        match self {
            Case::Echo256 => 256,
            Case::Echo4096 => 4_096,
            Case::Upload4096 | Case::Download4096 | Case::Duplex4096 => ITEM_BYTES,
            _ => 0,
        }
    }
}
