//! The closed loop: callers that each make one call after another through warm-up and measurement.

use hdrhistogram::Histogram;
use quanta::Instant;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const WARM_UP: u8 = 0;
const MEASURE: u8 = 1;
const STOP: u8 = 2;

/// What a caller measured, in nanoseconds a call.
pub type Latencies = Histogram<u64>;

/// The phases and what the callers measured in them.
pub struct Load {
    phase: AtomicU8,
    measured: Mutex<Latencies>,
}

/// One caller: its loop asks [`Caller::goes_on`] before each call and says [`Caller::done`] after it.
pub struct Caller {
    load: Arc<Load>,
    seed: i32,
    began: Instant,
    latencies: Latencies,
    total: u64,
}

fn latencies() -> Latencies {
    // Up to a minute, three digits: the resolution of the table.
    Latencies::new_with_bounds(1, 60_000_000_000, 3).expect("constant bounds are in order")
}

impl Load {
    pub fn new() -> Arc<Self> {
        Arc::new(Load { phase: AtomicU8::new(WARM_UP), measured: Mutex::new(latencies()) })
    }

    pub fn callers(self: &Arc<Self>, count: usize) -> Vec<Caller> {
        (0..count)
            .map(|index| Caller {
                load: Arc::clone(self),
                seed: i32::try_from(index).unwrap_or(0),
                began: Instant::now(),
                latencies: latencies(),
                total: 0,
            })
            .collect()
    }

    /// Lets the callers warm up, then measures; calls `mark` at both ends of the measured part.
    pub async fn window(&self, warm_up: Duration, measure: Duration, mut mark: impl FnMut(&'static str)) {
        tokio::time::sleep(warm_up).await;
        mark("begin");
        self.phase.store(MEASURE, Relaxed);
        tokio::time::sleep(measure).await;
        self.phase.store(STOP, Relaxed);
        mark("end");
    }

    pub fn measured(&self) -> Latencies {
        self.measured.lock().expect("no caller panics while it adds").clone()
    }
}

impl Caller {
    /// A number that differs between callers.
    pub fn seed(&self) -> i32 {
        self.seed
    }

    pub fn goes_on(&mut self) -> bool {
        if self.total == 0 {
            self.began = Instant::now();
        }
        self.load.phase.load(Relaxed) != STOP
    }

    /// One clock read a call: the end of one is the beginning of the next.
    pub fn done(&mut self) {
        let now = Instant::now();
        if self.load.phase.load(Relaxed) == MEASURE {
            let nanos = u64::try_from(now.duration_since(self.began).as_nanos()).unwrap_or(u64::MAX);
            self.latencies.saturating_record(nanos.max(1));
        }
        self.began = now;
        self.total += 1;
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        if let Ok(mut measured) = self.load.measured.lock() {
            let _ = measured.add(&self.latencies);
        }
    }
}
