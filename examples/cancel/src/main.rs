//! What a handler sees when its caller goes: dropping a call cancels it on the server, where the handler's future is dropped,
//! and the context tells the reason to whatever the handler left behind.
//!
//! `cargo run -p cancel`

use punctual::CancelReason;
use punctual::prelude::*;
use std::time::Duration;
use tokio::sync::mpsc;

/// A search that may take for ever.
#[service]
pub trait Search {
    /// Looks for a needle.
    async fn find(&self, needle: String) -> Result<u64, Status>;
}

struct Haystack {
    events: mpsc::UnboundedSender<String>,
}

/// Says when the handler is gone, however it went.
struct Gone(mpsc::UnboundedSender<String>);

impl Drop for Gone {
    fn drop(&mut self) {
        // The example may be over.
        let _ = self.0.send("the handler is gone".to_owned());
    }
}

impl Search for Haystack {
    async fn find(&self, needle: String) -> Result<u64, Status> {
        let _gone = Gone(self.events.clone());
        let events = self.events.clone();
        if let Some(context) = Context::current() {
            tokio::spawn(async move {
                let reason: CancelReason = context.cancelled().await;
                let _ = events.send(format!("stopped looking for {needle}: {reason}"));
            });
        }
        let _ = self.events.send("looking".to_owned());
        std::future::pending().await
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (events, mut seen) = mpsc::unbounded_channel();
    let search = SearchServer::new(Haystack { events });
    let server = Server::builder().service(search).listen("tcp://127.0.0.1:0").bind().await?;
    let address = server.local_addrs()[0].clone();
    let server = server.spawn();
    let client = SearchClient::connect(&address).await?;

    let call = tokio::spawn(client.find("a needle".to_owned()));
    println!("{}", seen.recv().await.unwrap_or_default());
    call.abort();
    let mut told = Vec::new();
    for _ in 0..2 {
        let event = seen.recv().await.unwrap_or_default();
        println!("{event}");
        told.push(event);
    }
    anyhow::ensure!(told.iter().any(|event| event.contains("cancelled by the caller")), "{told:?}");
    anyhow::ensure!(told.iter().any(|event| event == "the handler is gone"), "{told:?}");

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
