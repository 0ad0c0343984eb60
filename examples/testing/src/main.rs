//! Testing a service in the test's own process, with time that passes by itself: a deadline of a minute is missed without
//! waiting, and a nightly schedule runs a week of nights in a moment.
//!
//! Three things make that: an address inside of the process (`inproc:`), a store in memory, and tokio's paused time with a
//! [`TokioClock`] that follows it. Whenever nothing is left to do, time jumps to the next moment at which something is.
//!
//! `cargo run -p testing`, and `cargo test -p testing` for the same as tests

use punctual::clock::{Clock, Timestamp, TokioClock};
use punctual::engine::EngineConfig;
use punctual::prelude::*;
use punctual::task::MemStore;
use punctual::{ServerConfig, ServerHandle};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What is tested.
#[service]
pub trait Reports {
    /// Takes as long as it takes.
    async fn slow(&self, takes: Duration) -> Result<String, Status>;

    /// Run every night.
    #[rpc(durable)]
    async fn nightly(&self) -> Result<(), Status>;
}

/// Knows when it was run, by the clock of the test.
#[derive(Clone)]
struct Office {
    clock: Arc<dyn Clock>,
    nights: Arc<Mutex<Vec<String>>>,
}

impl Office {
    fn new(clock: Arc<dyn Clock>) -> Self {
        Office { clock, nights: Arc::default() }
    }

    fn nights(&self) -> Vec<String> {
        self.nights.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Reports for Office {
    async fn slow(&self, takes: Duration) -> Result<String, Status> {
        tokio::time::sleep(takes).await;
        Ok("done".to_owned())
    }

    async fn nightly(&self) -> Result<(), Status> {
        let context = Context::current().ok_or_else(|| Status::internal("not in a handler"))?;
        let slot = context.task().and_then(|task| task.slot.clone()).ok_or_else(|| Status::internal("not a slot"))?;
        self.nights.lock().unwrap_or_else(PoisonError::into_inner).push(slot.local);
        Ok(())
    }
}

/// Friday, 2027-01-15, 08:00 in London.
const START: Timestamp = Timestamp::from_secs(1_800_000_000);

/// A client of the service, and the server to stop at the end. Each test has an address of its own.
async fn serve(address: &str, office: &Office) -> anyhow::Result<(ReportsClient, ServerHandle)> {
    let clock = Arc::clone(&office.clock);
    let mut config = ServerConfig::default();
    config.clock = Arc::clone(&clock);
    let server = Server::builder().config(config).service(ReportsServer::new(office.clone())).listen(address);
    let server = server.bind().await?.spawn();
    let channel = Channel::builder(address).clock(clock).connect().await?;
    Ok((ReportsClient::new(channel), server))
}

/// A call that would take an hour fails at its deadline of a minute; one that takes less does not.
async fn deadlines() -> anyhow::Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(START));
    let (client, server) = serve("inproc:deadlines", &Office::new(Arc::clone(&clock))).await?;
    let minute = Duration::from_secs(60);

    let answered = client.slow(Duration::from_secs(59)).timeout(minute).await;
    anyhow::ensure!(answered == Ok("done".to_owned()), "{answered:?}");

    let before = clock.now();
    let late = client.slow(60 * minute).timeout(minute).await;
    anyhow::ensure!(late.as_ref().err().and_then(CallError::status).map(Status::code) == Some(Code::DeadlineExceeded));
    let waited = clock.now().since(before);
    anyhow::ensure!(waited >= minute && waited < 2 * minute, "{waited:?} by the clock of the test");

    server.shutdown(minute).await;
    Ok(())
}

/// A schedule runs at each of its slots, over a week of the test's time.
async fn schedules() -> anyhow::Result<Vec<String>> {
    let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(START));
    let office = Office::new(Arc::clone(&clock));
    // Store and engine take the same clock: what is due is the store's to say.
    let store = Arc::new(MemStore::new(Arc::clone(&clock)));
    let mut config = EngineConfig::default();
    // Leases are kept by a thread, which real time moves; here a task keeps them.
    config.lease_thread = false;
    // Whatever an engine does every few seconds it does in every few seconds of the week: more seldom is enough here.
    let minute = Duration::from_secs(60);
    (config.poll, config.renewal, config.rescue, config.prune_every) = (minute, 5 * minute, 10 * minute, 60 * minute);
    (config.stop_after, config.lease) = (10 * minute, 20 * minute);
    let engine =
        Engine::builder(store).clock(clock).config(config).serve(ReportsServer::new(office.clone())).start().await?;
    engine.schedule("nightly", Cron::parse("0 3 * * *")?.zone("Europe/London"), reports::Nightly {}).await?;

    tokio::time::sleep(Duration::from_secs(7 * 24 * 3600)).await;
    engine.shutdown(Duration::from_secs(60)).await;
    Ok(office.nights())
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> anyhow::Result<()> {
    deadlines().await?;
    println!("a deadline of a minute was missed without waiting");
    for night in schedules().await? {
        println!("ran for {night}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example runs.
    #[test]
    fn it_runs() {
        main().expect("the example runs");
    }

    /// What a test of one's own looks like.
    #[tokio::test(start_paused = true)]
    async fn a_week_of_nights() {
        let nights = schedules().await.expect("it runs");
        assert_eq!(nights.len(), 7, "{nights:?}");
        assert_eq!(nights[0], "2027-01-16T03:00:00+00:00[Europe/London]");
        assert_eq!(nights[6], "2027-01-22T03:00:00+00:00[Europe/London]");
    }
}
