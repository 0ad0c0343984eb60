//! The figures of trials.

use crate::rpc::case::Case;
use crate::rpc::column::Column;
use crate::rpc::counters::Counters;
use crate::rpc::load::Measured;
use crate::rpc::transport::Transport;
use serde::{Deserialize, Serialize};

/// Who runs in a trial: a column over a transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    pub column: Column,
    pub transport: Transport,
    /// `true` for the second trial of a round that shows the noise.
    pub again: bool,
}

impl Lane {
    pub fn new(column: Column, transport: Transport) -> Self {
        Lane { column, transport, again: false }
    }

    pub fn again(self) -> Self {
        Lane { again: true, ..self }
    }

    /// Its name in a table of lanes that are `usual`ly over another transport.
    pub fn name(self, usual: Transport) -> String {
        let over = if self.transport == usual { String::new() } else { format!(" over {}", self.transport) };
        let again = if self.again { " again" } else { "" };
        format!("{}{over}{again}", self.column.name())
    }
}

/// What the client measures of itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClientFigures {
    /// Calls that ended in the measured part.
    pub operations: u64,
    /// Calls from the first to the last, those of the warm-up too.
    pub total: u64,
    pub seconds: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub counters: Counters,
    /// What the stream beside the calls carried.
    pub bulk_bytes: u64,
}

impl ClientFigures {
    pub fn of(measured: &Measured, seconds: f64, counters: Counters, bulk_bytes: u64) -> Self {
        let micros = |quantile: f64| {
            let nanos = u32::try_from(measured.latencies.value_at_quantile(quantile)).unwrap_or(u32::MAX);
            f64::from(nanos) / 1_000.0
        };
        ClientFigures {
            operations: measured.operations,
            total: measured.total,
            seconds,
            p50_us: micros(0.5),
            p99_us: micros(0.99),
            p999_us: micros(0.999),
            counters,
            bulk_bytes,
        }
    }
}

/// One timed trial: one lane, one case, its processes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sample {
    pub case: Case,
    #[serde(flatten)]
    pub lane: Lane,
    pub round: usize,
    /// Operations a second; of one-way calls those that the server took.
    pub rate: f64,
    pub client_cpu_us: f64,
    pub server_cpu_us: f64,
    pub client_peak_kib: u64,
    /// `None` where both sides are one process.
    pub server_peak_kib: Option<u64>,
    pub client: ClientFigures,
}

/// Counts for each operation of one lane and case, from runs that are not timed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Counts {
    pub case: Case,
    #[serde(flatten)]
    pub lane: Lane,
    /// Of both sides where they are one process.
    pub client_allocations: f64,
    /// `None` where both sides are one process.
    pub server_allocations: Option<f64>,
    /// `None` where no tracer is installed.
    pub client_writes: Option<f64>,
    /// `None` where no tracer is installed.
    pub client_reads: Option<f64>,
}

/// What one idle connection holds of either process's resident memory. The kernel's own buffers are not in it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct IdleFigures {
    #[serde(flatten)]
    pub lane: Lane,
    pub connections: usize,
    pub client_bytes: f64,
    pub server_bytes: f64,
}
