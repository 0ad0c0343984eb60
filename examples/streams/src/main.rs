//! Streams in each direction: what a contract says, what each side writes, and what ends a call.
//!
//! `cargo run -p streams`

use punctual::prelude::*;
use std::time::Duration;

/// One reading of a sensor.
#[message]
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// Seconds since it was switched on.
    pub at: u64,
    /// Degrees.
    pub celsius: f64,
}

/// A stream is an argument, or what a method returns, or both.
#[service]
pub trait Weather {
    /// The client sends as many readings as it likes, and has one answer.
    async fn average(&self, readings: Streaming<Reading>) -> Result<f64, Status>;

    /// The server sends readings until nobody takes them any more.
    async fn follow(&self, from: u64) -> Result<Streaming<Reading>, Status>;

    /// Both at once: each side sends when it likes.
    async fn alarms(&self, limits: Streaming<f64>) -> Result<Streaming<String>, Status>;

    /// Nobody waits for an answer, and the server reads to the end.
    #[rpc(oneway)]
    async fn record(&self, readings: Streaming<Reading>);
}

struct Station;

impl Weather for Station {
    async fn average(&self, mut readings: Streaming<Reading>) -> Result<f64, Status> {
        let (mut sum, mut count) = (0.0, 0.0);
        // An item is taken when it is needed: a client that is faster waits at its window, in bytes.
        while let Some(reading) = readings.next().await {
            sum += reading?.celsius;
            count += 1.0;
        }
        if count == 0.0 { Err(Status::invalid_argument("there are no readings")) } else { Ok(sum / count) }
    }

    async fn follow(&self, from: u64) -> Result<Streaming<Reading>, Status> {
        // Any stream will do; this one is made from an iterator that does not end. It is asked for an item only while
        // there is room for it, and dropped when the caller drops its end.
        let celsius = |at: u64| f64::from(u32::try_from(at % 10).unwrap_or(0)) + 15.0;
        Ok(Streaming::from_items((from..).map(move |at| Reading { at, celsius: celsius(at) })))
    }

    async fn alarms(&self, limits: Streaming<f64>) -> Result<Streaming<String>, Status> {
        let limits = limits.collect().await?;
        Ok(Streaming::from_items(limits.into_iter().map(|limit| format!("you are told above {limit} degrees"))))
    }

    async fn record(&self, readings: Streaming<Reading>) {
        // A stream that was cut is an error, never a clean end.
        match readings.collect().await {
            Ok(readings) => println!("recorded {} readings", readings.len()),
            Err(status) => println!("the readings were cut: {status}"),
        }
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let server = Server::builder().service(WeatherServer::new(Station)).listen("tcp://127.0.0.1:0").bind().await?;
    let address = server.local_addrs()[0].clone();
    let server = server.spawn();
    let client = WeatherClient::connect(&address).await?;

    // To the server.
    let day = (0..24).map(|at| Reading { at, celsius: 12.5 });
    println!("average: {}", client.average(Streaming::from_items(day.clone())).await?);

    // From the server. A deadline would cover the call up to the stream's end.
    let mut readings = client.follow(100).await?;
    for _ in 0..3 {
        if let Some(reading) = readings.next().await {
            println!("{:?}", reading?);
        }
    }
    // This cancels the call: the server drops its producer.
    drop(readings);

    // Both.
    let mut alarms = client.alarms(Streaming::from_items([30.0, 35.5])).timeout(Duration::from_secs(5)).await?;
    while let Some(alarm) = alarms.next().await {
        println!("{}", alarm?);
    }

    // It is done when the request was written; the readings follow in the background, up to the channel's end.
    client.record(Streaming::from_items(day)).await?;
    client.channel().clone().close().await;
    server.shutdown(Duration::from_secs(5)).await;
    Ok(())
}
