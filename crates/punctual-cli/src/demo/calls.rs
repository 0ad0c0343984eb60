//! Calls at full rate, over a Unix socket and over TCP.

use crate::demo::contract::{DemoClient, DemoServer, Handlers};
use crate::demo::ledger::Ledger;
use crate::demo::paths::Paths;
use crate::demo::report::{CallLine, bar};
use crate::exit::Failure;
use hdrhistogram::Histogram;
use punctual::clock::{Clock, SystemClock};
use punctual::rpc::Server;
use punctual::{Bytes, CallError, Status};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Calls in flight at once, on one connection.
const IN_FLIGHT: u32 = 64;
/// An untimed one-way call is done when it is queued, and a full queue refuses more. So many behind each other may be only
/// queued; the next one is timed, which makes it wait until it was written.
const WRITTEN_EVERY: i32 = 256;

const STEP: Duration = Duration::from_millis(50);

/// What is called.
#[derive(Clone, Copy)]
enum Shape {
    Add,
    Echo,
    Seen,
}

/// Serves, calls each shape over each transport for `each`, and stops.
pub(crate) async fn run(paths: &Paths, ledger: &Arc<Ledger>, each: Duration) -> Result<Vec<CallLine>, Failure> {
    let handlers = Handlers::new(Arc::clone(ledger));
    let server = Server::builder()
        .service(DemoServer::from_arc(Arc::clone(&handlers)))
        .listen(paths.socket_address()?)
        .listen("tcp://127.0.0.1:0")
        .bind()
        .await
        .map_err(|error| Failure::failed(error.to_string()))?;
    let addresses = server.local_addrs().to_vec();
    let handle = server.handle();
    let serving = tokio::spawn(server.serve());
    let mut lines = Vec::new();
    for address in &addresses {
        let client = DemoClient::connect(address).await?;
        for (name, shape) in [("add", Shape::Add), ("echo 256 B", Shape::Echo), ("one-way", Shape::Seen)] {
            let transport = address.split(':').next().unwrap_or_default();
            let before = handlers.seen.load(Ordering::Relaxed);
            let mut line = measure(&client, shape, name, transport, each).await?;
            if matches!(shape, Shape::Seen) {
                // An echo behind the last one-way call on the same connection tells that all were read.
                client.echo(Bytes::new()).await.map_err(failure)?;
                line.calls = handlers.seen.load(Ordering::Relaxed) - before;
            }
            lines.push(line);
        }
    }
    handle.shutdown(Duration::from_secs(5)).await;
    let _ = serving.await;
    Ok(lines)
}

async fn measure(
    client: &DemoClient,
    shape: Shape,
    name: &str,
    transport: &str,
    each: Duration,
) -> Result<CallLine, Failure> {
    let began = SystemClock.now();
    let end = began.after(each);
    let callers: Vec<_> = (0..IN_FLIGHT).map(|index| tokio::spawn(call(client.clone(), shape, index, end))).collect();
    let bar = bar(u64::try_from(each.as_millis()).unwrap_or(u64::MAX), &format!("{name} over {transport}"));
    while SystemClock.now() < end {
        tokio::time::sleep(STEP).await;
        bar.set_position(u64::try_from(SystemClock.now().since(began).as_millis()).unwrap_or(u64::MAX));
    }
    let mut all = latencies()?;
    for caller in callers {
        let measured = caller.await.map_err(|error| Failure::failed(format!("a caller ended early: {error}")))??;
        all.add(measured).map_err(|error| Failure::failed(error.to_string()))?;
    }
    bar.finish_and_clear();
    let seconds = SystemClock.now().since(began).as_secs_f64();
    let timed = !matches!(shape, Shape::Seen);
    let micros = |quantile| timed.then(|| Duration::from_nanos(all.value_at_quantile(quantile)).as_secs_f64() * 1e6);
    Ok(CallLine {
        shape: name.to_owned(),
        transport: transport.to_owned(),
        calls: all.len(),
        seconds,
        p50_us: micros(0.5),
        p99_us: micros(0.99),
    })
}

fn latencies() -> Result<Histogram<u64>, Failure> {
    Histogram::new_with_bounds(1, 60_000_000_000, 2).map_err(|error| Failure::failed(error.to_string()))
}

async fn call(
    client: DemoClient,
    shape: Shape,
    index: u32,
    end: punctual::clock::Instant,
) -> Result<Histogram<u64>, Failure> {
    let mut measured = latencies()?;
    let data = Bytes::from(vec![0x5a; 256]);
    let timeout = Duration::from_secs(30);
    let mut number = i32::try_from(index).unwrap_or(0);
    let mut began = SystemClock.now();
    while began < end {
        match shape {
            Shape::Add => {
                number = number.wrapping_add(1);
                let sum = client.add(number, 7).timeout(timeout).await.map_err(failure)?;
                wrong_unless(sum == number.wrapping_add(7))?;
            }
            Shape::Echo => {
                let echo = client.echo(data.clone()).timeout(timeout).await.map_err(failure)?;
                wrong_unless(echo == data)?;
            }
            Shape::Seen => {
                number = number.wrapping_add(1);
                let seen = client.seen(u64::from(index));
                if number % WRITTEN_EVERY == 0 { seen.timeout(timeout).await? } else { seen.await? }
            }
        }
        let now = SystemClock.now();
        measured.saturating_record(u64::try_from(now.since(began).as_nanos()).unwrap_or(u64::MAX).max(1));
        began = now;
    }
    Ok(measured)
}

fn failure(error: CallError<Status>) -> Failure {
    match error {
        CallError::App(status) | CallError::Status(status) => status.into(),
    }
}

fn wrong_unless(right: bool) -> Result<(), Failure> {
    if right { Ok(()) } else { Err(Status::internal("a reply belongs to another call").into()) }
}
