//! The closed loop: callers that each make one call after another through warm-up and measurement.

use hdrhistogram::Histogram;
use quanta::Instant;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const WARM_UP: u8 = 0;
const MEASURE: u8 = 1;
const STOP: u8 = 2;

/// What the callers measured.
#[derive(Clone)]
pub struct Measured {
    /// Nanoseconds a call.
    pub latencies: Histogram<u64>,
    /// Calls that ended in the measured part.
    pub operations: u64,
    /// Calls from the first to the last.
    pub total: u64,
}

/// The phases and what the callers measured in them.
pub struct Load {
    phase: AtomicU8,
    measured: Mutex<Measured>,
    bulk_bytes: AtomicU64,
}

/// One caller: its loop asks [`Caller::goes_on`] before each call and says [`Caller::done`] after it.
pub struct Caller {
    load: Arc<Load>,
    index: usize,
    began: Instant,
    measured: Measured,
}

impl Measured {
    fn new() -> Self {
        // Up to a minute, within a hundredth. Finer ones would be 400 KiB for each caller, in the caches of what is measured.
        let latencies = Histogram::new_with_bounds(1, 60_000_000_000, 2).expect("constant bounds are in order");
        Measured { latencies, operations: 0, total: 0 }
    }
}

impl Load {
    pub fn new() -> Arc<Self> {
        let measured = Mutex::new(Measured::new());
        Arc::new(Load { phase: AtomicU8::new(WARM_UP), measured, bulk_bytes: AtomicU64::new(0) })
    }

    pub fn callers(self: &Arc<Self>, count: usize) -> Vec<Caller> {
        let caller = |index| Caller { load: Arc::clone(self), index, began: Instant::now(), measured: Measured::new() };
        (0..count).map(caller).collect()
    }

    /// Lets the callers warm up, then measures; calls `mark` at both ends of the measured part.
    pub async fn window(&self, warm_up: Duration, measure: Duration, mut mark: impl FnMut()) {
        tokio::time::sleep(warm_up).await;
        mark();
        self.phase.store(MEASURE, Relaxed);
        tokio::time::sleep(measure).await;
        self.phase.store(STOP, Relaxed);
        mark();
    }

    /// Takes note of an item of the bulk stream; false when it is time to end the stream.
    pub fn take_bulk(&self, bytes: usize) -> bool {
        match self.phase.load(Relaxed) {
            STOP => return false,
            MEASURE => drop(self.bulk_bytes.fetch_add(bytes as u64, Relaxed)),
            _ => {}
        }
        true
    }

    pub fn bulk_bytes(&self) -> u64 {
        self.bulk_bytes.load(Relaxed)
    }

    pub fn measured(&self) -> Measured {
        self.measured.lock().expect("no caller panics while it adds").clone()
    }
}

impl Caller {
    /// A number that differs between callers.
    pub fn seed(&self) -> i32 {
        i32::try_from(self.index).unwrap_or(0)
    }

    /// The number of the next call; callers begin at different ones.
    pub fn nth(&self) -> u64 {
        self.measured.total + self.index as u64
    }

    pub fn goes_on(&mut self) -> bool {
        if self.measured.total == 0 {
            self.began = Instant::now();
        }
        self.load.phase.load(Relaxed) != STOP
    }

    /// One clock read a call: the end of one is the beginning of the next.
    pub fn done(&mut self) {
        let now = Instant::now();
        if self.count() {
            let nanos = u64::try_from(now.duration_since(self.began).as_nanos()).unwrap_or(u64::MAX);
            self.measured.latencies.saturating_record(nanos.max(1));
        }
        self.began = now;
    }

    /// As [`Caller::done`] for a call whose time says nothing.
    pub fn done_without_latency(&mut self) {
        self.count();
        self.began = Instant::now();
    }

    fn count(&mut self) -> bool {
        self.measured.total += 1;
        let measure = self.load.phase.load(Relaxed) == MEASURE;
        self.measured.operations += u64::from(measure);
        measure
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        if let Ok(mut measured) = self.load.measured.lock() {
            let _ = measured.latencies.add(&self.measured.latencies);
            measured.operations += self.measured.operations;
            measured.total += self.measured.total;
        }
    }
}
