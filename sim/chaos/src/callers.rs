//! The callers: each calls one server after another in every shape, and checks what comes back.

use crate::contract::ChaosClient;
use crate::ledger::{End, Ledger};
use crate::weather::Sites;
use punctual::{Bytes, CallError, Status, Streaming};
use punctual_clock::{Clock, Entropy, SeededEntropy, SystemClock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

/// Callers at once.
const CALLERS: u64 = 12;

/// The timeout of a call that no caller hurries.
const PATIENT: Duration = Duration::from_secs(5);

pub(crate) struct Callers {
    tasks: JoinSet<()>,
    stop: Arc<AtomicBool>,
}

impl Callers {
    pub(crate) fn start(sites: &Sites, ledger: &Arc<Ledger>, seed: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        let clients: Vec<ChaosClient> = sites.all.iter().map(|site| site.client.clone()).collect();
        for caller in 0..CALLERS {
            let entropy = SeededEntropy::new(seed.wrapping_add(caller + 1));
            let caller = Caller { clients: clients.clone(), ledger: Arc::clone(ledger), entropy };
            let stop = Arc::clone(&stop);
            tasks.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    caller.call().await;
                }
            });
        }
        Callers { tasks, stop }
    }

    /// Returns once every call has ended.
    pub(crate) async fn stop(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            // A caller that panicked has found what none may: the run ends as it did.
            if let Err(error) = ended
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
        }
    }
}

struct Caller {
    clients: Vec<ChaosClient>,
    ledger: Arc<Ledger>,
    entropy: SeededEntropy,
}

impl Caller {
    fn draw(&self, bound: u64) -> u64 {
        self.entropy.below(bound)
    }

    async fn call(&self) {
        let site = usize::try_from(self.draw(self.clients.len() as u64)).unwrap_or(0);
        let Some(client) = self.clients.get(site) else { return };
        let hasty = self.draw(8) == 0;
        let timeout = if hasty { Duration::from_micros(self.draw(20_000)) } else { PATIENT };
        let began = SystemClock.now();
        let (shape, end) = match self.draw(9) {
            0 | 1 => ("add", self.add(client, timeout).await),
            2 => ("echo", self.echo(client, timeout).await),
            3 => ("left", self.left(client).await),
            4 => ("note", done(client.note(7).timeout(timeout).await.map_err(CallError::Status), &())),
            5 => ("sum", self.sum(client, timeout).await),
            6 => ("count", self.count(client, timeout).await),
            7 => ("mirror", self.mirror(client, timeout).await),
            _ => {
                let millis = self.draw(100);
                ("wait", done(client.wait(millis).timeout(timeout).await, &millis))
            }
        };
        let failed = matches!(end, End::Failed(_));
        self.ledger.call(site, shape, began, timeout, hasty, end);
        if failed {
            // A server that is away is not asked in a tight loop.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn add(&self, client: &ChaosClient, timeout: Duration) -> End {
        let (a, b) = (self.draw(u64::MAX), self.draw(u64::MAX));
        done(client.add(a, b).timeout(timeout).await, &a.wrapping_add(b))
    }

    async fn echo(&self, client: &ChaosClient, timeout: Duration) -> End {
        // Up to a few fragments; now and then a large one.
        let most = if self.draw(50) == 0 { 2 << 20 } else { 100_000 };
        let len = usize::try_from(self.draw(most)).unwrap_or(0);
        let first = self.draw(251);
        let data: Bytes = (first..).map(|byte| (byte % 251) as u8).take(len).collect();
        match client.echo(data.clone()).timeout(timeout).await {
            Ok(echo) if echo != data => End::Wrong(format!("{len} bytes came back as {} others", echo.len())),
            other => done(other.map(drop), &()),
        }
    }

    /// A call whose caller leaves.
    async fn left(&self, client: &ChaosClient) -> End {
        let patience = Duration::from_micros(self.draw(3_000));
        match tokio::time::timeout(patience, client.wait(1_000).timeout(PATIENT)).await {
            Ok(result) => done(result, &1_000),
            Err(_) => End::Left,
        }
    }

    async fn sum(&self, client: &ChaosClient, timeout: Duration) -> End {
        let count = self.draw(300);
        done(client.sum(Streaming::from_items(1..=count)).timeout(timeout).await, &(count * (count + 1) / 2))
    }

    async fn count(&self, client: &ChaosClient, timeout: Duration) -> End {
        let (upto, stop) = (self.draw(300), self.draw(600));
        let mut numbers = match client.count(upto).timeout(timeout).await {
            Ok(numbers) => numbers,
            Err(error) => return End::Failed(status(error)),
        };
        for expected in 0..=upto {
            if expected == stop {
                return End::Left;
            }
            match numbers.next().await {
                Some(Ok(number)) if number == expected && number < upto => {}
                None if expected == upto => return End::Right,
                Some(Err(status)) => return End::Failed(status),
                other => return End::Wrong(format!("{other:?} for number {expected} of {upto}")),
            }
        }
        End::Wrong("a stream without an end".to_owned())
    }

    async fn mirror(&self, client: &ChaosClient, timeout: Duration) -> End {
        let count = self.draw(40);
        let lines: Vec<String> = (0..count).map(|at| format!("{at}").repeat(1 + (at as usize * 97) % 2_000)).collect();
        let mirrored = match client.mirror(Streaming::from_items(lines.clone())).timeout(timeout).await {
            Ok(mirrored) => mirrored,
            Err(error) => return End::Failed(status(error)),
        };
        match mirrored.collect().await {
            Ok(back) if back == lines => End::Right,
            Ok(back) => End::Wrong(format!("{} lines came back as {} others", lines.len(), back.len())),
            Err(status) => End::Failed(status),
        }
    }
}

fn status(error: CallError<Status>) -> Status {
    match error {
        CallError::App(status) | CallError::Status(status) => status,
    }
}

fn done<T: PartialEq + std::fmt::Debug>(result: Result<T, CallError<Status>>, expected: &T) -> End {
    match result {
        Ok(value) if value == *expected => End::Right,
        Ok(value) => End::Wrong(format!("{value:?} instead of {expected:?}")),
        Err(error) => End::Failed(status(error)),
    }
}
