//! The figures of one trial.

use crate::case::Case;
use crate::columns::Column;
use serde::{Deserialize, Serialize};

/// What the client measures of itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClientFigures {
    pub operations: u64,
    pub seconds: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub allocations: u64,
}

/// One trial: one column, one case, one pair of processes.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    pub column: Column,
    /// `true` for the second half of the pair that shows the noise.
    pub again: bool,
    pub case: Case,
    pub in_flight: usize,
    pub round: usize,
    pub client: ClientFigures,
    pub client_cpu_us: f64,
    pub server_cpu_us: f64,
    pub client_peak_kib: u64,
    pub server_peak_kib: u64,
}

impl Sample {
    /// Operations a second.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub fn rate(&self) -> f64 {
        self.client.operations as f64 / self.client.seconds
    }
}

/// Counts of one column and case, from runs that are not timed.
#[derive(Debug, Clone, Serialize)]
pub struct Counts {
    pub column: Column,
    pub case: Case,
    pub client_allocations: f64,
    pub server_allocations: f64,
    /// `None` where no tracer is installed.
    pub client_writes: Option<f64>,
    /// `None` where no tracer is installed.
    pub client_reads: Option<f64>,
}

/// The median.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.get(middle), values.len() % 2) {
        (Some(value), 1) => *value,
        (Some(value), _) => (value + values.get(middle - 1).copied().unwrap_or(*value)) / 2.0,
        (None, _) => f64::NAN,
    }
}
