//! The smallest whole program: a contract, its server, a call, and a call for later.
//!
//! `cargo run -p hello`

use punctual::prelude::*;
use std::fmt;
use std::time::Duration;

/// What crosses the wire: serde and a schema in one attribute.
#[message]
#[derive(Debug)]
pub struct Greeting {
    /// What to say.
    pub text: String,
    /// How many times this was said before, by this process.
    pub before: u64,
}

/// An error of the application's own. It arrives typed on the other side.
#[message]
#[derive(Debug)]
pub enum GreetError {
    /// There was no name to greet.
    NoName,
}

impl fmt::Display for GreetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GreetError::NoName => f.write_str("there is no name to greet"),
        }
    }
}

impl std::error::Error for GreetError {}

/// The contract. From it come `GreeterClient`, `GreeterServer` and the requests in `greeter`.
#[service]
pub trait Greeter {
    /// A client may send it again by itself, since it is idempotent.
    #[rpc(idempotent, timeout = "2s")]
    async fn greet(&self, name: String) -> Result<Greeting, GreetError>;

    /// Called now, or stored and run later: until it succeeds, five times at most.
    #[rpc(durable, attempts = 5, backoff = "exponential(100ms, 5s)")]
    async fn write_letter(&self, name: String) -> Result<Greeting, GreetError>;
}

/// The implementation. One value answers all calls, so what changes is behind an atomic.
#[derive(Default)]
struct Polite {
    said: std::sync::atomic::AtomicU64,
}

impl Greeter for Polite {
    async fn greet(&self, name: String) -> Result<Greeting, GreetError> {
        if name.is_empty() {
            return Err(GreetError::NoName);
        }
        let before = self.said.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Ok(Greeting { text: format!("Hello, {name}!"), before })
    }

    async fn write_letter(&self, name: String) -> Result<Greeting, GreetError> {
        // The same handler runs for a call and for a task; its context tells which.
        let attempt = Context::current().and_then(|context| context.task().map(|task| task.attempt));
        let mut greeting = self.greet(name).await?;
        if let Some(attempt) = attempt {
            greeting.text = format!("{} (in a letter, attempt {attempt})", greeting.text);
        }
        Ok(greeting)
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // Serve. Port 0 is a free one.
    let greeter = GreeterServer::new(Polite::default());
    let server = Server::builder().service(greeter.clone()).listen("tcp://127.0.0.1:0").bind().await?;
    let address = server.local_addrs()[0].clone();
    let server = server.spawn();

    // Call now.
    let client = GreeterClient::connect(&address).await?;
    let greeting = client.greet("world".to_owned()).timeout(Duration::from_millis(500)).await?;
    println!("{}", greeting.text);
    match client.greet(String::new()).await {
        Err(CallError::App(GreetError::NoName)) => println!("no name, no greeting"),
        other => anyhow::bail!("a nameless greeting came back as {other:?}"),
    }

    // Call later, durably: with `sqlite://hello.db` it would survive a crash of this process.
    let engine = punctual::open("sqlite::memory:").await?.serve(greeter).start().await?;
    let task = engine.enqueue(greeter::WriteLetter { name: "world".to_owned() }).key("letter-1").await?;
    let end = engine.wait(&task).await?;
    println!("{}", end.succeeded().map_or_else(|| "no letter".to_owned(), |letter| letter.text));

    engine.shutdown(Duration::from_secs(5)).await;
    server.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    /// The example runs and finds what it says.
    #[test]
    fn it_runs() {
        super::main().expect("the example runs");
    }
}
