//! A server behind a socket file: who may reach it is a matter of the file's permissions, and a file that a crash left behind
//! is in nobody's way.
//!
//! `cargo run -p unix-socket`

use punctual::prelude::*;
use punctual::rpc::ServerConfig;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::time::Duration;

/// Something to call.
#[service]
pub trait Clock {
    /// Which year it is.
    async fn year(&self) -> Result<u32, Status>;
}

struct Sundial;

impl Clock for Sundial {
    async fn year(&self) -> Result<u32, Status> {
        Ok(1582)
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("clock.sock");
    let address = format!("unix:{}", path.display());

    // As a server leaves it that was killed.
    drop(UnixListener::bind(&path)?);
    match ClockClient::connect(&address).await {
        Err(status) => println!("nobody there: {status}"),
        Ok(_) => anyhow::bail!("somebody listens on a file that was left behind"),
    }

    let mut config = ServerConfig::default();
    config.unix_mode = 0o660;
    let clock = ClockServer::new(Sundial);
    let server = Server::builder().config(config).service(clock).listen(&address).bind().await?.spawn();
    let mode = std::fs::metadata(&path)?.permissions().mode() & 0o777;
    let client = ClockClient::connect(&address).await?;
    println!("behind a file of mode {mode:o} it is {}", client.year().await?);
    anyhow::ensure!(mode == 0o660, "the file has the mode {mode:o}");

    server.shutdown(Duration::from_secs(5)).await;
    anyhow::ensure!(!path.exists(), "the server left its file behind");
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
